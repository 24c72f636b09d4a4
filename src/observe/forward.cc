// attention_with_statistics: the forward pass, watched.
#include "attention/plan.h"
#include "attention/run.h"
#include "attention/validate.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/observe.h"
#include "multihead/statistics.h"

namespace multihead {

ForwardStatistics attention_with_statistics(const ConstTensorView& query, const ConstTensorView& key,
                                            const ConstTensorView& value, const TensorView& output,
                                            const AttentionOptions& options, const std::optional<TensorView>& lse) {
  constexpr const char* kFunction = "attention_with_statistics";
  ValidatedProblem call = validate({kFunction, query, key, &value, options});
  bind_outputs(kFunction, output, lse, call);
  const kernels::AttentionProblem& problem = call.problem;
  const Dims shape{call.batch, problem.num_heads, call.query_len};
  ForwardStatistics rows{Tensor(DType::kF32, shape), Tensor(DType::kF32, shape), Tensor(DType::kF32, shape),
                         Tensor(DType::kF32, shape)};
  const kernels::RowResults results{problem.num_heads,
                                    call.query_len,
                                    rows.entropy.data<float>(),
                                    rows.max_probability.data<float>(),
                                    rows.effective_keys.data<float>(),
                                    rows.mean_distance.data<float>()};
  const WorkCut cut = cut_work(problem, kernels::kBlockLanes);
  parallel_for(cut.items(), cut.threads, [&](Index item, int) {
    kernels::attend_block_observed(problem, cut.block(problem, item), results,
                                   thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
  });
  return rows;
}

}  // namespace multihead
