// Every intermediate matrix of a layer small enough to read.
#pragma once

#include "multihead/layer.h"
#include "report.h"

namespace multihead::cli {

/// True when the layer is projections and attention alone, and `length` rows of it fit on a screen.
bool is_readable(const LayerConfig& config, Index length);

/// Appends Q, K, V, scores, coefficients and O of every head, their concatenation and the output for input
/// [1, length, model_dim], by the definition. The layer must be readable.
void add_matrices(const MultiHeadAttention& layer, const Tensor& input, Report& report);

}  // namespace multihead::cli
