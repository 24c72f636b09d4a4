// Checks of the gradients' shapes and types, for the fused backward pass and the reference alike.
#pragma once

#include "attention/validate.h"
#include "multihead/gradient.h"

namespace multihead {

/// The gradients as four strides each; data null: not wanted. That of the bias has stride 0 on broadcast axes.
struct BoundGradients {
  kernels::Strided<void> query, key, value, bias;
  kernels::Strided<void> alibi_slopes, sinks;  ///< [num_heads]: strides[0]
};

/// `with_f64`: f64 is legal as well.
BoundGradients bind_gradients(const char* function, const AttentionArguments& arguments, const ValidatedProblem& call,
                              const AttentionGradients& gradients, bool with_f64);

/// gradient = scale * sums, rounded once. `sums`: f32 or f64, of the gradient's shape; may be the gradient itself.
void write_gradient(const ConstTensorView& sums, double scale, const TensorView& gradient);

/// A tensor of `shape`, [batch, head, query, key] with extents 1 on broadcast axes up to rank 4, as strides with 0 there.
template <typename Real>
kernels::Strided<Real> broadcast_sums(Tensor& sums) {
  kernels::Strided<Real> result{sums.data<Real>(), sums.dtype(), {}};
  const Dims strides = contiguous_strides(sums.shape());
  for (int axis = 0; axis < sums.rank(); ++axis) {
    result.strides[static_cast<std::size_t>(4 - sums.rank() + axis)] = sums.shape()[axis] == 1 ? 0 : strides[axis];
  }
  return result;
}

}  // namespace multihead
