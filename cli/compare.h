// How far a result is from the reference.
#pragma once

#include "multihead/tensor.h"

namespace multihead::cli {

struct Difference {
  double relative = 0;  ///< ||actual - expected|| / ||expected||, Frobenius, over the finite expected values
  double largest = 0;   ///< max |actual - expected|
};

/// Dense tensors of one shape, any types. Equal infinities and NaN on both sides count as equal; one-sided ones as infinitely
/// far.
Difference difference(const Tensor& actual, const Tensor& expected);

}  // namespace multihead::cli
