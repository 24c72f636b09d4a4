// Derivatives of a function of tensors' elements, by differences in float64.
#pragma once

#include <functional>

#include "multihead/tensor.h"
#include "random_inputs.h"

namespace multihead::test {

/// d loss / d tensor[i], i in row-major order, of a dense f32 or f64 tensor: Richardson's step from differences at h and 2h, so
/// the error is of order h^4. h is a power of two: elements move by exactly that, or by what rounding makes of it.
inline double derivative(Tensor& tensor, Index i, const std::function<double()>& loss, double h = 0x1p-10) {
  const double centre = load_as_double(tensor, i);
  const auto difference = [&](double step) {
    set_element(tensor, i, centre + step);
    const double high = load_as_double(tensor, i), above = loss();
    set_element(tensor, i, centre - step);
    const double low = load_as_double(tensor, i), below = loss();
    set_element(tensor, i, centre);
    return (above - below) / (high - low);
  };
  return (4 * difference(h) - difference(2 * h)) / 3;
}

}  // namespace multihead::test
