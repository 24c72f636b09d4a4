// Rotary position embedding: which angle belongs to which pair of dimensions, and the turning itself.
#pragma once

#include <vector>

#include "multihead/layer.h"

namespace multihead {

/// How pair j of a head turns: by position * frequencies[j] radians, and grows by `amplitude`.
struct RotaryFrequencies {
  std::vector<double> frequencies;  ///< [rotary_dim / 2]
  double amplitude = 1;             ///< YaRN's attention factor; on query and key, so its square reaches the scores
};

/// For a resolved configuration (rotary_dim filled in).
RotaryFrequencies rotary_frequencies(const Rotary& rotary);

/// The two dimensions that make up pair j.
struct RotaryPair {
  Index first, second;
};
inline RotaryPair rotary_pair(const Rotary& rotary, Index j) {
  if (rotary.pairing == RotaryPairing::kInterleaved) return {2 * j, 2 * j + 1};
  return {j, j + rotary.rotary_dim / 2};
}

/// Turns heads [batch, num_heads, length, head_dim] (f32) in place; row t stands at position first_position + t. Angles are
/// taken in float64, so that a position of a million is as exact as position 1, and their cosines and sines rounded to f32.
/// Cost: length * rotary_dim / 2 sines and cosines, kept for the call in length * rotary_dim floats, and 6 operations a pair.
void rotate(const Rotary& rotary, Index first_position, const TensorView& heads);

/// The transposed map, which takes the gradient of rotated heads to that of the heads: the same turn backwards.
void rotate_backward(const Rotary& rotary, Index first_position, const TensorView& heads);

}  // namespace multihead
