// attention: validate ▶ cut ▶ run.
#include "multihead/attention.h"

#include "attention/plan.h"
#include "attention/run.h"
#include "attention/validate.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/kernels.h"

namespace multihead {
namespace {

using kernels::Block;
using kernels::kKeyChunk;
using kernels::Partial;

// Few queries over many keys: all threads work on the chunks of one block, in waves whose partial results fit a fixed budget,
// and the partials are joined in ascending order.
void run_split(const kernels::AttentionProblem& problem, const WorkCut& cut) {
  constexpr Index kPartialFloatsAThread = 128 * 1024;
  for (Index item = 0; item < cut.items(); ++item) {
    const Block block = cut.block(problem, item);
    const kernels::KeyRange keys = kernels::block_keys(problem, block);
    const Index first = keys.begin / kKeyChunk;
    const Index chunks = keys.begin < keys.end ? (keys.end - 1) / kKeyChunk + 1 - first : 0;
    const auto floats = static_cast<Index>(kernels::partial_floats(problem, block.lane_end - block.lane_begin));
    const Index wave =
        std::clamp<Index>(cut.threads * kPartialFloatsAThread / floats, cut.threads, std::max<Index>(chunks, cut.threads));
    Tensor memory = Tensor::uninitialized(DType::kF32, {wave + 1, floats});
    const auto partial = [&](Index index) { return Partial{memory.data<float>() + index * floats}; };
    const Partial total = partial(wave);
    kernels::join_chunks(problem, block, total, true, {});
    for (Index done = 0; done < chunks; done += wave) {
      const Index now = std::min(wave, chunks - done);
      parallel_for(now, cut.threads, [&](Index index, int) {
        kernels::attend_chunk(problem, block, first + done + index, partial(index),
                              thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
      });
      std::vector<Partial> partials;
      for (Index index = 0; index < now; ++index) partials.push_back(partial(index));
      kernels::join_chunks(problem, block, total, false, partials);
    }
    kernels::finish_block(problem, block, total, thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
  }
}

void run_blocks(const kernels::AttentionProblem& problem, const WorkCut& cut) {
  parallel_for(cut.items(), cut.threads, [&](Index item, int) {
    kernels::attend_block(problem, cut.block(problem, item),
                          thread_scratch(kernels::workspace_floats(problem, cut.block_lanes)));
  });
}

}  // namespace

void bind_outputs(const char* function, const TensorView& output, const std::optional<TensorView>& lse,
                  ValidatedProblem& call) {
  kernels::AttentionProblem& problem = call.problem;
  problem.output =
      validate_result(function, "output", output, {call.batch, problem.num_heads, call.query_len, problem.value_dim},
                      {DType::kF32, DType::kF16, DType::kBF16});
  if (lse) {
    problem.lse =
        validate_result(function, "lse", *lse, {call.batch, problem.num_heads, call.query_len}, {DType::kF32, DType::kF64});
  }
}

void copy_lse(const Tensor& exact, const TensorView& lse) {
  const double* value = exact.data<double>();
  for (Index b = 0; b < lse.shape[0]; ++b) {
    for (Index h = 0; h < lse.shape[1]; ++h) {
      for (Index i = 0; i < lse.shape[2]; ++i, ++value) {
        if (lse.dtype == DType::kF64) {
          lse.at<double>(b, h, i) = *value;
        } else {
          lse.at<float>(b, h, i) = static_cast<float>(*value);
        }
      }
    }
  }
}

void run_attention(const kernels::AttentionProblem& problem) {
  const WorkCut cut = cut_work(problem);
  if (cut.items() == 0) return;
  if (cut.split_keys) {
    run_split(problem, cut);
  } else {
    run_blocks(problem, cut);
  }
}

void attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value, const TensorView& output,
               const AttentionOptions& options, const std::optional<TensorView>& lse) {
  ValidatedProblem call = validate({"attention", query, key, &value, options});
  bind_outputs("attention", output, lse, call);
  run_attention(call.problem);
}

}  // namespace multihead
