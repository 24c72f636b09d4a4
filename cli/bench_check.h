// Is an answer right? Compared with the definition in float64 on a fixed sample of rows, so that long shapes do not take
// minutes.
#pragma once

#include "multihead/attention.h"
#include "multihead/layer.h"

namespace multihead::cli {

struct BenchError {
  /// Worst row: ‖result − exact‖₂ over the norm that the row would have without cancellation; see multihead/accuracy.h.
  double relative = 0;
  /// Every row of the sample keeps the contract.
  bool within = true;
};

/// What `attention` was asked, [1, heads, length, head_dim] each, and what it answered. `options`: causal and window alone.
struct AttentionAnswer {
  ConstTensorView query, key, value, output;
  AttentionOptions options;
};

/// 16 rows from the first to the last, over all heads.
BenchError check_attention(const AttentionAnswer& answer);

/// What `attention_backward` was asked and what it answered. `options`: causal and window alone.
struct BackwardAnswer {
  ConstTensorView query, key, value, output, lse, grad_output;
  ConstTensorView grad_query, grad_key, grad_value;
  AttentionOptions options;
};

/// The gradients of 16 queries, and of 16 keys and their values, over all heads. relative: of the norms that the rows have
/// without cancellation.
BenchError check_backward(const BackwardAnswer& answer);

/// input [1, length, model_dim], output [1, length, output_dim] of a layer that keeps the variance 1 of its input through every
/// projection, as the presets do: √output_dim is then the norm without cancellation, and the contract is that of an f32 output.
/// A causal layer is checked on its first 4 rows, which follow from the first 4 inputs alone; another one on its last 4.
BenchError check_layer(const MultiHeadAttention& layer, const ConstTensorView& input, const ConstTensorView& output);

}  // namespace multihead::cli
