// reference_attention: validate ▶ the four plain passes.
#include "kernels/reference.h"

#include "attention/validate.h"
#include "multihead/attention.h"

namespace multihead {

void reference_attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                         const TensorView& output, const AttentionOptions& options, const std::optional<TensorView>& lse,
                         const std::optional<TensorView>& probabilities) {
  constexpr const char* kFunction = "reference_attention";
  const ValidatedProblem call = validate({kFunction, query, key, &value, options});
  const kernels::AttentionProblem& problem = call.problem;
  const Index heads = problem.num_heads;
  kernels::ReferenceOutputs outputs;
  outputs.output = validate_result(kFunction, "output", output, {call.batch, heads, call.query_len, problem.value_dim},
                                   {DType::kF32, DType::kF16, DType::kBF16, DType::kF64});
  if (lse)
    outputs.lse = validate_result(kFunction, "lse", *lse, {call.batch, heads, call.query_len}, {DType::kF32, DType::kF64});
  if (probabilities) {
    outputs.probabilities = validate_result(kFunction, "probabilities", *probabilities,
                                            {call.batch, heads, call.query_len, call.key_len}, {DType::kF32, DType::kF64});
    clear(*probabilities);  // pairs outside every sequence
  }
  kernels::reference_attention(problem, outputs);
}

}  // namespace multihead
