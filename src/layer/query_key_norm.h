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

 private:
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
