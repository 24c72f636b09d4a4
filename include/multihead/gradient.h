// The backward pass of attention: fused, from the lse that the forward pass left, without a stored score matrix.
//
// With S the scores after softcap, bias and ALiBi, P = exp(S - lse) where a pair is visible and 0 elsewhere, and
// D_i = sum_t grad_output[i, t] output[i, t] (Dao 2023, §3.1.2):
//
//     dV_j = sum_i m_ij P_ij dO_i                     summed over the query heads of a group, in f32
//     dS_ij = P_ij (m_ij <dO_i, V_j> - D_i)           m_ij = dropout's factor: 0 or 1 / (1 - p); 1 without dropout
//     dQ_i = scale sum_j dS_ij c_ij K_j               c_ij = 1 - tanh^2(scale <Q_i, K_j> / softcap), 1 without a softcap
//     dK_j = scale sum_i dS_ij c_ij Q_i
//     d attention_bias = dS, summed over its broadcast axes
//     d alibi_slope_h = -sum_ij dS_ij |absolute position of i - j|
//     d sink_h = -sum_i exp(sink_h - lse_i) D_i
#pragma once

#include <optional>

#include "multihead/attention.h"
#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// Where gradients go. What is absent is not computed (beyond what others need). Each is written whole, must not overlap an
/// input, another gradient or itself, and may have any strides.
struct AttentionGradients {
  std::optional<TensorView> query;  ///< [batch, num_heads, query_len, head_dim]; f32, f16 or bf16, as all tensors here
  std::optional<TensorView> key;    ///< [batch, num_kv_heads, key_len, head_dim]
  std::optional<TensorView> value;  ///< [batch, num_kv_heads, key_len, value_dim]
  /// The shape of options.attention_bias, which must be there: broadcast axes are summed. 0 where the bias is -inf.
  std::optional<TensorView> attention_bias;
  /// [num_heads], f32; options.alibi_slopes must be there.
  std::optional<TensorView> alibi_slopes;
  /// [num_heads], f32; options.sinks must be there. 0 where the sink is -inf.
  std::optional<TensorView> sinks;
};

/// Gradients of a loss with respect to the arguments of `attention`, given that with respect to its output.
///
/// query, key, value, options            as they were given to `attention`
/// output      [batch, num_heads, query_len, value_dim]   what it returned, f32, f16 or bf16. D is computed from it: an output
///                                                        that was rounded to 16 bits leaves its rounding in dS
/// lse         [batch, num_heads, query_len], f32         what it returned
/// grad_output [batch, num_heads, query_len, value_dim]   f32, f16 or bf16
///
/// A row that sees no key gives and gets nothing: its gradients are 0, not NaN, whatever grad_output holds there. A pair that
/// is not visible contributes nothing, whatever the memory holds; a visible NaN propagates. Sums are f32 and rounded once.
///
/// The bits are the same for any number of threads and any batch neighbours. One head is shared out among threads by keys.
/// Cost: 2 * batch * num_heads * visible pairs * (3 * head_dim + 2 * value_dim) operations (10 n m d a head; a softcap adds
/// 2 * head_dim a pair); at most 2 MiB of workspace a thread for head_dim and value_dim up to 512; D, of the size of lse; and,
/// for grad_query and grad_bias in 16 bits, f32 sums of their shapes. A gradient of a bias that is broadcast over heads or
/// batch shares out less work at a time. Throws InvalidArgument (both shapes in the text) before anything is written.
MULTIHEAD_API void attention_backward(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                                      const ConstTensorView& output, const ConstTensorView& lse,
                                      const ConstTensorView& grad_output, const AttentionGradients& gradients,
                                      const AttentionOptions& options = {});

/// The definition of right: the same in float64 from query, key and value alone, row by row, one thread. Gradients may also be
/// f64. Memory: all gradients in float64.
MULTIHEAD_API void reference_attention_backward(const ConstTensorView& query, const ConstTensorView& key,
                                                const ConstTensorView& value, const ConstTensorView& grad_output,
                                                const AttentionGradients& gradients, const AttentionOptions& options = {});

}  // namespace multihead
