// Heads are strided views: nothing moves between a projection, its heads and their concatenation.
#pragma once

#include "multihead/tensor.h"

namespace multihead {

/// [batch, length, num_heads * dim], dense, seen as [batch, num_heads, length, dim]. Read through it to split a projection into
/// heads; write through it to concatenate heads in place.
template <typename Void>
BasicTensorView<Void> as_heads(const BasicTensorView<Void>& rows, Index num_heads) {
  const Dims split{rows.shape[0], rows.shape[1], num_heads, rows.shape[2] / num_heads};
  return BasicTensorView<Void>(rows.data, rows.dtype, split).transposed(1, 2);
}

}  // namespace multihead
