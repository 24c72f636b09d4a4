#include "compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace multihead::cli {

Difference difference(const Tensor& actual, const Tensor& expected) {
  double squares = 0, norm = 0;
  Difference result;
  for (Index i = 0; i < expected.size(); ++i) {
    const double want = load_as_double(expected, i), got = load_as_double(actual, i);
    if (std::isfinite(want)) norm += want * want;
    if (got == want || (std::isnan(got) && std::isnan(want))) continue;
    const bool finite = std::isfinite(got) && std::isfinite(want);
    const double distance = finite ? std::abs(got - want) : std::numeric_limits<double>::infinity();
    squares += distance * distance;
    result.largest = std::max(result.largest, distance);
  }
  if (squares > 0) result.relative = std::sqrt(squares) / std::sqrt(norm);
  return result;
}

}  // namespace multihead::cli
