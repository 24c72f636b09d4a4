// The definition of right: attention in float64, four plain passes over one row.
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

}  // namespace multihead::kernels
