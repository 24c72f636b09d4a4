// The gate of the feed-forward network (Shazeer 2020): y = silu(gate) * up, silu(x) = x / (1 + exp(-x)).
#pragma once

#include "multihead/tensor.h"

namespace multihead::decoder {

/// `count` elements; y may be gate or up.
void swiglu(const float* gate, const float* up, Index count, float* y);

/// From dy: dgate = dy up silu'(gate), dup = dy silu(gate), with silu'(x) = s (1 + x (1 - s)), s = 1 / (1 + exp(-x)).
/// dgate and dup may be gate and up.
void swiglu_backward(const float* gate, const float* up, const float* dy, Index count, float* dgate, float* dup);

}  // namespace multihead::decoder
