// From a checked problem to its results.
#pragma once

#include <optional>

#include "attention/validate.h"

namespace multihead {

/// Checks output and lse against the problem's shapes and points the problem at them.
void bind_outputs(const char* function, const TensorView& output, const std::optional<TensorView>& lse, ValidatedProblem& call);

/// An f64 lse to whom it is wanted by, f32 or f64, rounded as `attention` rounds it. Shapes are equal.
MULTIHEAD_API void copy_lse(const Tensor& exact, const TensorView& lse);

/// Cuts the problem into work and does it.
void run_attention(const kernels::AttentionProblem& problem);

}  // namespace multihead
