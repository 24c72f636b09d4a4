// y = x W^T + b over dense f32 rows.
#pragma once

#include <memory>

#include "multihead/tensor.h"

namespace multihead {

/// A linear map with its weight converted to f32 and packed once. Copies share the packed weight; calls may run concurrently.
///
/// A row's result has the same bits for any number of threads and whatever the other rows are. One row runs at the speed at
/// which the weight comes from memory, many at that of the multiply-add units.
class Projection {
 public:
  /// weight [out, in], bias [out] or empty; f32, f16 or bf16, any strides.
  Projection(const ConstTensorView& weight, const ConstTensorView& bias);

  Index input_width() const;
  Index output_width() const;

  /// x [rows, input_width] to y [rows, output_width], both dense. They must not overlap.
  void apply(const float* x, Index rows, float* y) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed_;
};

}  // namespace multihead
