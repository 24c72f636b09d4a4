// The matrix products of a backward pass: like Projection::apply, but the right-hand side is used once.
#pragma once

#include "multihead/tensor.h"

namespace multihead {

/// c = a b: a [rows, terms], b [terms, columns], c [rows, columns], all dense f32, c apart from both. dX = dY W. Bits do not
/// depend on the number of threads. Memory: a copy of b.
void multiply(const float* a, const float* b, Index rows, Index terms, Index columns, float* c);

/// c = a^T b: a [terms, rows]. dW = dY^T X. Memory: copies of a and b.
void multiply_transposed(const float* a, const float* b, Index rows, Index terms, Index columns, float* c);

/// Of y = x W^T + b, dense f32: x [rows, in], W [out, in], y [rows, out].
struct LinearGradients {
  Tensor weight;  ///< [out, in] = dY^T X
  Tensor bias;    ///< [out]: the sum of dY's rows; empty without a bias
  Tensor input;   ///< [rows, in] = dY W
};
/// `weight` in f32, f16 or bf16.
LinearGradients linear_backward(const float* x, const Tensor& weight, bool has_bias, const float* dy, Index rows);

}  // namespace multihead
