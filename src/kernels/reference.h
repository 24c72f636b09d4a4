// The definition of right: attention in float64, four plain passes over one row, and its gradients.
#pragma once

#include "kernels/problem.h"

namespace multihead::kernels {

/// Where the reference writes; null data means not wanted (lse, probabilities). output f16, bf16, f32 or f64; the others f32 or
/// f64.
struct ReferenceOutputs {
  Strided<void> output;
  Strided<void> lse;
  Strided<void> probabilities;
};

/// Computes every row of every sequence. Rows and pairs outside all sequences are not touched.
void reference_attention(const AttentionProblem& problem, const ReferenceOutputs& outputs);

/// Where the reference adds its gradients; null data means not wanted. Broadcast axes of the bias have stride 0.
struct ReferenceGradients {
  Strided<double> query, key, value, bias;
  double* alibi_slopes = nullptr;  ///< [num_heads]
  double* sinks = nullptr;         ///< [num_heads]
};

/// Adds the gradients of sum(grad_output * output) to `gradients`.
void reference_attention_backward(const AttentionProblem& problem, const Strided<const void>& grad_output,
                                  const ReferenceGradients& gradients);

}  // namespace multihead::kernels
