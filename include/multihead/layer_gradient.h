// The backward pass of the layer: gradients of all that it learned, and of its inputs.
//
//     LayerTape tape;
//     Tensor y = layer.forward(x, {}, {.tape = &tape});
//     … grad_y from what follows …
//     LayerGradients gradients = layer_backward(layer, x, grad_y, tape);
#pragma once

#include "multihead/export.h"
#include "multihead/layer.h"
#include "multihead/tensor.h"

namespace multihead {

/// What a forward pass leaves for its backward pass, all f32. Memory grows with the lengths, not with their product.
struct LayerTape {
  Tensor query, key, value;  ///< as attention got them, [batch, length, heads * dim]
  /// Before norm and rotation; only of layers that clip or normalise, which have to know.
  Tensor plain_query, plain_key;
  Tensor concatenation;  ///< [batch, query_len, num_heads * value_dim]
  Tensor lse;            ///< [batch, num_heads, query_len]
};

/// Gradients of a loss, all f32, dense.
struct LayerGradients {
  Tensor input;        ///< [batch, query_len, model_dim]; in self attention through query, key and value together
  Tensor key_input;    ///< [batch, key_len, key_input_dim]; of a memory through key and value together; else empty
  Tensor value_input;  ///< [batch, key_len, value_input_dim], when it was given of its own; else empty
  /// A tensor for each that the layer has, in the same shape. Of alibi_slopes, too, when the layer was given none and took the
  /// standard ones: then they are the gradients that those would have.
  LayerWeights weights;
};

/// Gradients of self attention. `input` and `options` are those of the forward call that filled `tape`, grad_output is [batch,
/// query_len, output_dim], f32, f16 or bf16.
///
/// Cost: twice the forward's projections, 2.5 times its attention, and a copy of each input and gradient side by side in
/// memory. The bits do not depend on the number of threads. A relative bias needs its whole gradient, [batch of the call's
/// attention_bias or 1, num_heads, query_len, key_len], for the duration of the call.
/// Throws InvalidArgument when the tape is not one of this call.
MULTIHEAD_API LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input,
                                            const ConstTensorView& grad_output, const LayerTape& tape,
                                            const ForwardOptions& options = {});
/// The same of cross attention, memory [batch, key_len, key_input_dim].
MULTIHEAD_API LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input,
                                            const ConstTensorView& memory, const ConstTensorView& grad_output,
                                            const LayerTape& tape, const ForwardOptions& options = {});
/// The same of keys and values from different tensors.
MULTIHEAD_API LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input,
                                            const ConstTensorView& key_input, const ConstTensorView& value_input,
                                            const ConstTensorView& grad_output, const LayerTape& tape,
                                            const ForwardOptions& options = {});

}  // namespace multihead
