// What a query may see. Visibility is an intersection: a pair (query i, key j) takes part only if causality, the window,
// the key length, the boolean mask and the bias (bias != -inf) all allow it. No constraint replaces another.
//
// Causal is defined by a query offset: query i stands at absolute position offset + i and sees the keys <= it. With 2
// queries over 4 keys (1 = may attend):
//
//     bottom-right (default, offset = 4 - 2)      top-left (offset = 0)
//         1 1 1 0                                     1 0 0 0
//         1 1 1 1                                     1 1 0 0
//
// Bottom-right is what a cache and a chunked prompt need; with more queries than keys the first rows see nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// Sliding window around a query's absolute position p: keys p - left … p + right, both ends included. An absent side is
/// unlimited; a negative distance is an error. {0, 0} sees only itself.
struct Window {
  std::optional<Index> left;
  std::optional<Index> right;
};

/// "The last w keys, itself included": the other common reading of a window. w >= 1.
constexpr Window last_keys(Index w) { return {w - 1, 0}; }

/// Sequences of different lengths laid end to end in tensors of batch 1. Sequence s owns queries
/// [query_starts[s], query_starts[s + 1]) and keys [key_starts[s], key_starts[s + 1]); no sequence sees another.
/// Both lists start at 0, never decrease, and end at query_len and key_len; lengths may be 0.
struct PackedSequences {
  std::vector<Index> query_starts;
  std::vector<Index> key_starts;
};

/// ALiBi slopes (Press et al. 2022, §3): 2^(-8 i / h) for i = 1 … h when h is a power of two; otherwise those of the next lower
/// power of two, then every other slope of twice that. `num_heads` >= 0.
MULTIHEAD_API std::vector<float> alibi_slopes(Index num_heads);

}  // namespace multihead
