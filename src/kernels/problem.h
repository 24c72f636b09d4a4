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

/// Dropout after validation (Dropout in attention.h tells what it does). Draws are 32 bits of a counter-based generator:
/// nothing is stored, and any pair's can be had at any time. A row has two words from its seed and place (splitmix64, Steele,
/// Lea and Flood 2014); a key's draw is a bijection of its number under the first word, with the second added half way: two
/// rounds of multiply and xorshift with the constants that Ettinger searched for the least bias (hash-prospector, "lowbias32",
/// 2018). Only 32-bit additions, multiplications and shifts, so that vectors of every target can draw at a few per cent of a
/// tile.
struct DropoutDraws {
  std::uint32_t threshold = 0;  ///< of 2^31: smaller draws are dropped; 0: nothing is
  float factor = 1;             ///< of what is kept
  std::uint64_t seed = 0;

  struct Row {
    std::uint32_t first = 0, second = 0;
  };
  Row row(std::uint64_t sequence, std::uint64_t head, std::uint64_t position) const {
    std::uint64_t state = seed;
    for (const std::uint64_t word : {sequence, head, position}) state = mixed(state + 0x9E3779B97F4A7C15u) ^ word;
    state = mixed(state);
    return {static_cast<std::uint32_t>(state), static_cast<std::uint32_t>(state >> 32)};
  }
  float factor_of(const Row& row, Index key) const {
    std::uint32_t x = row.first + kKeyStep * static_cast<std::uint32_t>(key);
    x = (x ^ (x >> 16)) * kFirstRound;
    x = (x ^ (x >> 15)) + row.second;
    x = (x ^ (x >> 16)) * kSecondRound;
    return ((x ^ (x >> 15)) >> 1) < threshold ? 0 : factor;
  }

  static constexpr std::uint32_t kKeyStep = 0x9E3779B9u, kFirstRound = 0x21F0AAADu, kSecondRound = 0x735A2D97u;

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
};

struct AttentionProblem {
  Strided<const void> query, key, value;
  Strided<void> output;
  Strided<void> lse;         ///< f32 or f64; column stride unused; data null: not wanted
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
  DropoutDraws dropout;
  std::span<const Sequence> sequences;

  bool drops() const { return dropout.threshold > 0; }
  DropoutDraws::Row draws_of(const Sequence& sequence, Index head, Index position) const {
    return dropout.row(static_cast<std::uint64_t>(&sequence - sequences.data()), static_cast<std::uint64_t>(head),
                       static_cast<std::uint64_t>(position));
  }
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
