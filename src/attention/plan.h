// How a call is cut into work: by shapes and the machine's panel width alone. The cut never shows in the result's bits.
#pragma once

#include "attention/validate.h"
#include "kernels/kernels.h"
#include "multihead/attention.h"

namespace multihead {

/// Blocks of lanes for every sequence and key/value head, and whether their chunks of keys are shared out as well.
struct WorkCut {
  struct Item {
    std::uint32_t sequence;
    std::uint32_t kv_head;
    Index block;
  };
  Index block_lanes = 0;
  std::vector<Index> first_item;  ///< per sequence, and the total at the end: items are numbered sequence ▶ kv head ▶ block
  Index kv_heads = 0;
  bool split_keys = false;
  int threads = 1;

  Index items() const { return first_item.back(); }
  /// The block of lanes that item number `item` stands for. Later blocks first: under a causal mask they are the longest.
  kernels::Block block(const kernels::AttentionProblem& problem, Index item) const;
};

/// A block has at most `most_lanes` lanes: kernels that keep something for each lane beside the workspace have room for
/// kBlockLanes.
WorkCut cut_work(const kernels::AttentionProblem& problem, Index most_lanes = kernels::kCopyingBlockLanes);

}  // namespace multihead
