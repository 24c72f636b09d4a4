// y = x W^T + b over dense f32 rows, by oneDNN.
#pragma once

#include <memory>

#include "multihead/tensor.h"

namespace multihead {

/// A linear map with its weight converted to f32 and packed once. Copies share the packed weight; calls may run concurrently.
///
/// The work is cut by shape alone, into tiles of fixed size that one thread computes each, so a row's result has the same bits
/// for any number of threads and whatever the other rows are (see projection.cc for how far that can be promised).
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
