// Normalisation of query and key heads before the rotation.
#pragma once

#include <vector>

#include "multihead/layer.h"

namespace multihead {

/// One norm, ready to use: what it spans and its factors, read off the weight's shape.
class HeadNorm {
 public:
  /// weight [head_dim], [num_heads, head_dim] or [num_heads * head_dim]; bias of the same shape, or empty.
  HeadNorm(const QueryKeyNorm& norm, const ConstTensorView& weight, const ConstTensorView& bias, Index num_heads,
           Index head_dim);

  /// heads [batch, num_heads, length, head_dim], f32, in place. Sums in float64, so that their order does not matter to f32.
  void apply(const TensorView& heads) const;

  /// Gradients of the factors and shifts, [num_heads, head_dim], to be added to; in float64.
  struct Gradients {
    std::vector<double> factor, shift;
  };
  /// From heads as they were before the norm and the gradient of what came out of it to the gradient of what went in, in place.
  /// With z = (x - mean) r, r = 1 / sqrt(variance + epsilon), g = dy * factor (kRms: mean 0, and no mean(g)):
  ///     dx = r (g - mean(g) - z mean(g z))       dfactor = sum dy z       dshift = sum dy
  Gradients backward(const ConstTensorView& before, const TensorView& gradient) const;

 private:
  void backward_row(const ConstTensorView& before, const TensorView& gradient, Index row, double* sums) const;
  void normalize(float* x, Index heads, Index head_stride, std::size_t first) const;

  QueryKeyNorm norm_;
  Index num_heads_, head_dim_;
  Index heads_together_;               ///< heads under one mean: 1, or all
  std::vector<float> factor_, shift_;  ///< [num_heads, head_dim]
};

/// True when a weight of this shape spans the whole width instead of one head.
inline bool norm_spans_all_heads(const Dims& weight, Index num_heads, Index head_dim) {
  return weight.rank() == 1 && weight[0] == num_heads * head_dim && num_heads > 1;
}

}  // namespace multihead
