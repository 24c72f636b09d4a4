// reference_attention_backward: validate ▶ sums in float64 ▶ round.
#include "attention/gradients.h"
#include "kernels/reference.h"

namespace multihead {
namespace {

// The sums behind one gradient that is wanted.
struct Sums {
  const std::optional<TensorView>& gradient;
  Tensor sums;

  explicit Sums(const std::optional<TensorView>& wanted) : gradient(wanted) {
    if (wanted) sums = Tensor(DType::kF64, wanted->shape);
  }
  kernels::Strided<double> strided() { return gradient ? broadcast_sums<double>(sums) : kernels::Strided<double>{}; }
  double* data() { return gradient ? sums.data<double>() : nullptr; }
  void write() const {
    if (gradient) write_gradient(sums, 1, *gradient);
  }
};

}  // namespace

void reference_attention_backward(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                                  const ConstTensorView& grad_output, const AttentionGradients& gradients,
                                  const AttentionOptions& options) {
  constexpr const char* kFunction = "reference_attention_backward";
  const AttentionArguments arguments{kFunction, query, key, &value, options};
  const ValidatedProblem call = validate(arguments);
  const auto grad = validate_input(kFunction, "grad_output", grad_output,
                                   {call.batch, call.problem.num_heads, call.query_len, call.problem.value_dim},
                                   {DType::kF32, DType::kF16, DType::kBF16});
  bind_gradients(kFunction, arguments, call, gradients, true);
  Sums of_query(gradients.query), of_key(gradients.key), of_value(gradients.value), of_bias(gradients.attention_bias);
  Sums of_slopes(gradients.alibi_slopes), of_sinks(gradients.sinks);
  kernels::reference_attention_backward(
      call.problem, grad,
      {of_query.strided(), of_key.strided(), of_value.strided(), of_bias.strided(), of_slopes.data(), of_sinks.data()});
  for (const Sums* sums : {&of_query, &of_key, &of_value, &of_bias, &of_slopes, &of_sinks}) sums->write();
}

}  // namespace multihead
