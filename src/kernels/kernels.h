// Entry points of the vector kernels: plain pointers and numbers in, no vector types. Each dispatches to the active target.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/problem.h"

namespace multihead::kernels {

/// Keys between two updates of the running maximum. 96 rows of 64 floats of K and of V fill most of a 48 KiB cache; 192 and 384
/// measured the same within noise. Part of the definition of the bits, like kKeyChunk.
inline constexpr Index kKeyBlock = 96;
/// Keys after which the softmax starts afresh and the results are merged, always in ascending order. Few queries over many keys
/// are shared out among threads by these chunks; every other path walks the same chunks, so the bits agree. A chunk is one
/// chain of f32 additions, in which weights below 2^-24 of the sum so far are lost: with weights that alternate between 1 and
/// 1.5e-5 chunks of 2304 keys were off by 1.7e-5, of 768 by 1.8e-6, of 384 by 0.9e-6, all at the same speed within noise.
inline constexpr Index kKeyChunk = 4 * kKeyBlock;
/// (query, head) pairs of one work item at most: panels of 3, 12, 24 and 48 lanes all divide it.
inline constexpr Index kBlockLanes = 192;
/// The same where K and V must be gathered or converted first: the more lanes share a copied block, the less it costs.
inline constexpr Index kCopyingBlockLanes = 2 * kBlockLanes;

/// What one register tile of the active target spans.
struct KernelShape {
  Index vector_lanes = 0;
  Index panel_lanes = 0;
};
KernelShape kernel_shape();

/// One piece of work: lanes [lane_begin, lane_end) of one key/value head of one sequence. A lane is a (query, head) pair: lane
/// r is query r / group of the sequence, head kv_head * group + r % group.
struct Block {
  const Sequence* sequence = nullptr;
  Index kv_head = 0;
  Index lane_begin = 0, lane_end = 0;
};

/// Keys [begin, end) that some lane of the block may see by causality, window and length.
inline KeyRange block_keys(const AttentionProblem& problem, const Block& block) {
  const auto position = [&](Index lane) { return block.sequence->query_offset + lane / problem.group; };
  const KeyRange first = key_range(problem, *block.sequence, position(block.lane_begin));
  const KeyRange last = key_range(problem, *block.sequence, position(block.lane_end - 1));
  return {first.begin, std::max(first.begin, std::min(last.end, block.sequence->key_len))};
}

/// The softmax of a block over one chunk of keys, not yet normalised: what join_chunks joins.
/// Layout by panels of lanes; opaque to the caller.
struct Partial {
  float* data = nullptr;
};

/// Floats of scratch that attend_block needs for blocks of up to `lanes` lanes.
std::size_t workspace_floats(const AttentionProblem& problem, Index lanes);
/// Floats of one Partial of `lanes` lanes.
std::size_t partial_floats(const AttentionProblem& problem, Index lanes);

/// Whether the block's few lanes take the way of decode-inl.h. The bits are the same.
bool is_decode_block(const AttentionProblem& problem, const Block& block);

/// All keys of the block, chunk after chunk, and the result.
void attend_block(const AttentionProblem& problem, const Block& block, float* workspace);
/// One chunk of keys, [chunk * kKeyChunk, (chunk + 1) * kKeyChunk), into a partial.
void attend_chunk(const AttentionProblem& problem, const Block& block, Index chunk, Partial partial, float* workspace);
/// Joins partials of ascending chunks into `total`, which is empty before `first`. Followed by finish_block at the end this
/// gives the bits of attend_block over these chunks.
void join_chunks(const AttentionProblem& problem, const Block& block, Partial total, bool first,
                 const std::vector<Partial>& partials);
/// Divides, adds sinks and writes a block's result from its joined chunks.
void finish_block(const AttentionProblem& problem, const Block& block, Partial total, float* workspace);

/// Where coefficients go: rows[r] receives those of lane lane_begin + r for keys [keys.begin, keys.end) of the sequence.
struct ProbabilityTarget {
  const double* lse = nullptr;  ///< [lanes], natural log
  float* const* rows = nullptr;
  KeyRange keys;
};

/// Coefficients exp(score - lse) of a block, the difference rounded about once; the scores have the bits that attend_block
/// used. 0 where a pair is not visible.
void probability_rows(const AttentionProblem& problem, const Block& block, const ProbabilityTarget& target, float* workspace);

/// Names of the targets compiled in and supported by this CPU, best first, also as a list for error texts; the active one; and
/// the choice of another.
std::vector<const char*> target_names();
std::string known_targets();
const char* active_target_name();
bool choose_target(const char* name);
/// Before the first dispatch: unless a target was chosen, chooses that of MULTIHEAD_TARGET, or the best. Throws InvalidArgument
/// for a name that is not here, since a typing error must not silently change the path.
void ensure_target();

}  // namespace multihead::kernels
