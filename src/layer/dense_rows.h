// Inputs of any type and strides as what the products read.
#pragma once

#include "multihead/tensor.h"

namespace multihead {

/// [batch, length, width] as dense f32 rows: the tensor itself when it is that already, else a copy.
class DenseRows {
 public:
  explicit DenseRows(const ConstTensorView& view) : given_(view) {
    if (view.dtype != DType::kF32 || !view.is_contiguous()) copy_ = Tensor::converted(view, DType::kF32);
  }
  const float* data() const { return copy_.empty() ? given_.as<float>() : copy_.data<float>(); }
  Index rows() const { return given_.shape[0] * given_.shape[1]; }

 private:
  ConstTensorView given_;
  Tensor copy_;
};

}  // namespace multihead
