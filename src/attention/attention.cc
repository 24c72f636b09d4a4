// attention: validate ▶ cut ▶ run.
#include "multihead/attention.h"

#include "attention/plan.h"
#include "attention/validate.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/kernels.h"

namespace multihead {
namespace {

using kernels::Block;
using kernels::kKeyChunk;
using kernels::Partial;

// Few queries over many keys: all threads work on the chunks of one block, in waves whose partial results fit a fixed budget, and
// the partials are joined in ascending order.
void run_split(const kernels::AttentionProblem& problem, const WorkCut& cut) {
  for (Index item = 0; item < cut.items(); ++item) {
    const Block block = cut.block(problem, item);
    const Index chunks = std::max<Index>(1, (block.sequence->key_len + kKeyChunk - 1) / kKeyChunk);
    const std::size_t floats = kernels::partial_floats(problem, block.lane_end - block.lane_begin);
    Tensor memory = Tensor::uninitialized(DType::kF32, {chunks * static_cast<Index>(floats)});
    std::vector<Partial> partials;
    for (Index chunk = 0; chunk < chunks; ++chunk) partials.push_back({memory.data<float>() + static_cast<std::size_t>(chunk) * floats});
    parallel_for(chunks, cut.threads, [&](Index chunk, int) {
      kernels::attend_chunk(problem, block, chunk, partials[static_cast<std::size_t>(chunk)],
                            thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
    });
    kernels::merge_chunks(problem, block, partials, thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
  }
}

void run_blocks(const kernels::AttentionProblem& problem, const WorkCut& cut) {
  parallel_for(cut.items(), cut.threads, [&](Index item, int) {
    kernels::attend_block(problem, cut.block(problem, item), thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
  });
}

}  // namespace

void attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value, const TensorView& output,
               const AttentionOptions& options, const std::optional<TensorView>& lse) {
  constexpr const char* kFunction = "attention";
  ValidatedProblem call = validate({kFunction, query, key, &value, options});
  kernels::AttentionProblem& problem = call.problem;
  problem.output = validate_result(kFunction, "output", output, {call.batch, problem.num_heads, call.query_len, problem.value_dim},
                                   {DType::kF32, DType::kF16, DType::kBF16});
  if (lse) {
    const auto checked = validate_result(kFunction, "lse", *lse, {call.batch, problem.num_heads, call.query_len}, {DType::kF32});
    problem.lse = {static_cast<float*>(checked.data), DType::kF32, checked.strides};
  }
  if (output.size() == 0 && (!lse || lse->size() == 0)) return;
  const WorkCut cut = cut_work(problem);
  if (cut.split_keys) {
    run_split(problem, cut);
  } else {
    run_blocks(problem, cut);
  }
}

}  // namespace multihead
