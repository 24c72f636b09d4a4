// One attention call after validation: plain pointers and numbers, nothing left to check. What kernels and the reference read.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "multihead/dtype.h"
#include "multihead/tensor.h"

namespace multihead::kernels {

/// A distance or length without limit.
inline constexpr Index kUnlimited = std::numeric_limits<Index>::max();

/// Memory with four strides in elements: [batch, head, row, column]. Broadcast axes have stride 0; data null means absent.
template <typename Void>
struct Strided {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<Index, 4> strides{};

  Index offset(Index batch, Index head, Index row, Index column) const {
    return batch * strides[0] + head * strides[1] + row * strides[2] + column * strides[3];
  }
};

/// A set of queries and the keys that they may see: a batch entry, or one of the sequences of a packed batch.
struct Sequence {
  Index batch = 0;                       ///< of query, output, lse, mask
  Index key_batch = 0;                   ///< of key and value
  Index query_begin = 0, query_len = 0;  ///< rows of query, output, lse, mask
  Index key_begin = 0, key_len = 0;      ///< rows of key and value, columns of mask; nothing beyond is read
  Index query_offset = 0;                ///< absolute position of row query_begin, where key key_begin has position 0
  Index key_first = 0;                   ///< keys before this one are gone (a sliding cache)
  Index key_ring = 0;                    ///< key j lies in row j % key_ring (a multiple of kKeyBlock); 0: in row j

  /// Row of key and value that holds key j.
  Index key_row(Index j) const { return key_begin + (key_ring > 0 ? j % key_ring : j); }
};

struct AttentionProblem {
  Strided<const void> query, key, value;
  Strided<void> output;
  Strided<float> lse;        ///< column stride unused; data null: not wanted
  Strided<const void> mask;  ///< bytes, non-zero = may attend
  Strided<const void> bias;
  Index num_heads = 0;
  Index group = 1;  ///< query heads per key/value head
  Index head_dim = 0;
  Index value_dim = 0;
  double scale = 1;
  double softcap = 0;  ///< 0: off
  bool causal = false;
  Index window_left = kUnlimited;
  Index window_right = kUnlimited;
  const float* alibi_slopes = nullptr;  ///< [num_heads]
  const float* sinks = nullptr;         ///< [num_heads]
  std::span<const Sequence> sequences;
};

/// The keys [begin, end) of a sequence that causality and the window leave to the query at absolute position `position`.
struct KeyRange {
  Index begin = 0;
  Index end = 0;
};

inline KeyRange key_range(const AttentionProblem& problem, const Sequence& sequence, Index position) {
  KeyRange range{sequence.key_first, sequence.key_len};
  // Positions are bounded by validation to ±2^48 and distances are clamped before they are added, so nothing overflows.
  constexpr Index kFar = Index{1} << 50;
  if (problem.causal) range.end = std::min(range.end, position + 1);
  if (problem.window_right != kUnlimited) range.end = std::min(range.end, position + std::min(problem.window_right, kFar) + 1);
  if (problem.window_left != kUnlimited) range.begin = std::max(range.begin, position - std::min(problem.window_left, kFar));
  range.end = std::max(range.end, range.begin);
  return range;
}

}  // namespace multihead::kernels
