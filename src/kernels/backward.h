// Entry points of the backward pass's kernels: plain pointers and numbers in, no vector types.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace multihead::kernels {

/// (query, head) pairs whose terms are one chain of f32 additions in the gradients of key and value; the chains are added up in
/// a fixed order. Fewer where rows are very wide, see backward_lanes.
inline constexpr Index kBackwardLanes = 96;

/// One backward call after validation. With S the scores, P = exp(S - lse) and D = sum_t dO O of each row:
///
///     dV = P^T dO     dP = dO V^T     dS = P (dP - D)     dQ = scale dS K     dK = scale dS^T Q
///
/// where a softcap c adds the factor 1 - tanh^2(scale <q, k> / c) to dS before the last two.
struct BackwardProblem {
  AttentionProblem attention;  ///< query, key, value and all that changes scores; output and lse are not looked at
  Strided<const void> output;
  Strided<const void> grad_output;
  Strided<const float> lse;   ///< natural log; column stride unused, as in delta
  Strided<float> delta;       ///< D
  Strided<float> query_sums;  ///< dQ as f32, added to; data null: not wanted, as in all below
  Strided<void> grad_key;     ///< written once for every key of a chunk
  Strided<void> grad_value;
  Strided<float> bias_sums;  ///< dS as f32, added to; stride 0 on broadcast axes
};

/// Keys [begin, end) of one key/value head of one sequence; begin is a multiple of kKeyBlock. What one piece of work owns.
struct BackwardChunk {
  const Sequence* sequence = nullptr;
  Index kv_head = 0;
  Index begin = 0, end = 0;
  /// [key blocks of the chunk, group] each, added to; null: not wanted. Sums of dS |position - key| and of dS.
  double* distance_sums = nullptr;
  double* gradient_sums = nullptr;
  bool keys_finite = true;  ///< set by backward_begin
};

/// Lanes of one block: kBackwardLanes, or less where head_dim and value_dim are so large that a block would leave the cache.
/// Depends on these two and the target alone.
Index backward_lanes(const AttentionProblem& problem);
/// Floats of scratch for chunks of up to `keys` keys; the same memory from backward_begin to backward_end.
std::size_t backward_floats(const AttentionProblem& problem, Index keys);

/// D of all rows of one head of one sequence. 0 where the output is 0 throughout, as in rows that saw no key, whatever dO is.
void backward_delta(const BackwardProblem& problem, const Sequence& sequence, Index head, float* workspace);

/// Begins a chunk: its keys and values as the tiles read them, their gradients 0.
void backward_begin(const BackwardProblem& problem, BackwardChunk& chunk, float* workspace);
/// One block of lanes against the chunk. Chunks of a head must add to a block's query_sums in ascending order.
void backward_block(const BackwardProblem& problem, const BackwardChunk& chunk, const Block& block, float* workspace);
/// Writes the gradients of the chunk's keys and values.
void backward_end(const BackwardProblem& problem, const BackwardChunk& chunk, float* workspace);

}  // namespace multihead::kernels
