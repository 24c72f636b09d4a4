#include "attention/plan.h"

#include <algorithm>

#include "base/message.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

namespace multihead {
namespace {

using kernels::Block;
using kernels::kBlockLanes;
using kernels::kCopyingBlockLanes;
using kernels::kKeyBlock;
using kernels::kKeyChunk;
using kernels::Sequence;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

Index lanes_of(const kernels::AttentionProblem& problem, const Sequence& sequence) {
  return sequence.query_len * problem.group;
}

double multiply_adds(const kernels::AttentionProblem& problem) {
  double pairs = 0;
  for (const Sequence& s : problem.sequences) pairs += static_cast<double>(s.query_len) * static_cast<double>(s.key_len);
  return pairs * static_cast<double>(problem.num_heads) * static_cast<double>(problem.head_dim + problem.value_dim);
}

Index count_items(const kernels::AttentionProblem& problem, Index block_lanes) {
  Index items = 0;
  for (const Sequence& s : problem.sequences)
    items += problem.num_heads / problem.group * ceil_div(lanes_of(problem, s), block_lanes);
  return items;
}

// K or V blocks are gathered or converted to contiguous scratch, once for all lanes of an item.
bool copies_rows(const kernels::AttentionProblem& problem) {
  const auto dense = [](const kernels::Strided<const void>& array, Index dim) {
    return array.dtype == DType::kF32 && (array.strides[3] == 1 || dim == 1) && array.strides[2] == dim;
  };
  return !dense(problem.key, problem.head_dim) || !dense(problem.value, problem.value_dim);
}

}  // namespace

Block WorkCut::block(const kernels::AttentionProblem& problem, Index item) const {
  const auto next = std::upper_bound(first_item.begin(), first_item.end(), item);
  const auto s = static_cast<std::size_t>(next - first_item.begin() - 1);
  const Sequence& sequence = problem.sequences[s];
  const Index lanes = lanes_of(problem, sequence);
  const Index blocks = ceil_div(lanes, block_lanes);
  const Index within = item - first_item[s];
  const Index block = blocks - 1 - within % blocks;
  return {&sequence, within / blocks, block * block_lanes, std::min(lanes, (block + 1) * block_lanes)};
}

WorkCut cut_work(const kernels::AttentionProblem& problem, Index most_lanes) {
  WorkCut cut;
  cut.kv_heads = problem.num_heads / problem.group;
  const int threads = threads_for_work(multiply_adds(problem));
  // Large head widths shrink the block so that its queries and outputs stay within the cache; few items shrink it so that every
  // thread has work, never below one panel.
  const Index panel = kernels::kernel_shape().panel_lanes;
  constexpr Index kMaxLaneFloats = 192 * 1024;
  cut.block_lanes = std::min(most_lanes, copies_rows(problem) ? kCopyingBlockLanes : kBlockLanes);
  while (cut.block_lanes > panel && cut.block_lanes % 2 == 0 &&
         (cut.block_lanes * (problem.head_dim + 2 * problem.value_dim) > kMaxLaneFloats ||
          (threads > 1 && count_items(problem, cut.block_lanes) < 2 * threads))) {
    cut.block_lanes /= 2;
  }
  cut.first_item.push_back(0);
  Index longest = 0;
  for (const Sequence& s : problem.sequences) {
    cut.first_item.push_back(cut.first_item.back() + cut.kv_heads * ceil_div(lanes_of(problem, s), cut.block_lanes));
    if (s.query_len > 0) longest = std::max(longest, s.key_len);
  }
  cut.split_keys = threads > 1 && cut.items() < 4 * threads && longest > kKeyChunk;
  cut.threads = cut.split_keys ? threads : static_cast<int>(std::clamp<Index>(cut.items(), 1, threads));
  return cut;
}

AttentionPlan plan(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                   const AttentionOptions& options) {
  const ValidatedProblem call = validate({"plan", query, key, &value, options});
  const kernels::AttentionProblem& problem = call.problem;
  const WorkCut cut = cut_work(problem);
  const kernels::KernelShape shape = kernels::kernel_shape();
  AttentionPlan result;
  result.target = kernels::active_target_name();
  const bool decode = cut.items() > 0 && kernels::is_decode_block(problem, cut.block(problem, 0));
  result.kernel = decode ? "decode" : "panels";
  result.panel_lanes = shape.panel_lanes;
  result.block_lanes = cut.block_lanes;
  result.key_block = kKeyBlock;
  result.key_chunk = kKeyChunk;
  result.work_items = cut.items();
  result.threads = cut.threads;
  result.copies_keys = copies_rows(problem);
  result.workspace_bytes = static_cast<Index>(kernels::workspace_floats(problem, cut.block_lanes) * sizeof(float));
  result.reason =
      concat(decode ? concat("at most ", cut.block(problem, 0).lane_end, " queries a key/value head: keys lie across lanes")
                    : concat("queries lie across ", shape.vector_lanes, " lanes, ", result.panel_lanes, " to a tile"),
             "; ",
             cut.split_keys ? "few queries over many keys: chunks of keys are shared out among threads"
                            : "blocks of queries are shared out among threads",
             result.copies_keys ? "; K or V are 16-bit or strided: copied block by block" : "");
  return result;
}

}  // namespace multihead
