// Root mean square normalisation of rows (Zhang, Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * g.
#pragma once

#include "multihead/tensor.h"

namespace multihead::decoder {

/// Rows of `width` numbers, dense.
struct Rows {
  const float* data = nullptr;
  Index count = 0, width = 0;
};

/// y [count, width]. Sums in float64, so that their order does not matter to f32.
void rms_norm(const Rows& x, const float* weight, double epsilon, float* y);

/// From dy = dL/dy: dx and dweight [width]. With r = 1 / sqrt(mean(x^2) + epsilon):
///     dx = r (g dy - x r^2 mean(g dy x))        dg = sum over rows of dy x r
void rms_norm_backward(const Rows& x, const float* weight, double epsilon, const float* dy, float* dx, float* dweight);

}  // namespace multihead::decoder
