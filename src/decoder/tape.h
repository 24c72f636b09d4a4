// What one block leaves for its backward pass; the rest is computed again, which is cheaper than to keep it.
#pragma once

#include "multihead/layer_gradient.h"

namespace multihead::decoder {

struct BlockTape {
  Tensor input;   ///< [batch, length, model_dim]: of the block
  Tensor middle;  ///< the same after attention
  LayerTape attention;
  Tensor gate, up;  ///< [rows, hidden_dim], before the gate's silu
};

}  // namespace multihead::decoder
