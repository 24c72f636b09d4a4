// Sums over rows whose bits do not depend on the number of threads: fixed groups of rows, joined in ascending order.
#pragma once

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "multihead/tensor.h"

namespace multihead {

/// Calls add_row(row, sums) for each row, in parallel, to add to `width` sums; returns the total.
template <typename AddRow>
std::vector<double> column_sums(Index rows, Index width, AddRow add_row) {
  constexpr Index kGroupRows = 64;
  const Index groups = (rows + kGroupRows - 1) / kGroupRows;
  std::vector<double> sums(static_cast<std::size_t>(groups * width)), total(static_cast<std::size_t>(width));
  parallel_for(groups, threads_for(groups), [&](Index group, int) {
    for (Index row = group * kGroupRows; row < std::min(rows, (group + 1) * kGroupRows); ++row)
      add_row(row, sums.data() + group * width);
  });
  for (std::size_t i = 0; i < sums.size(); ++i) total[i % total.size()] += sums[i];
  return total;
}

/// The sum of dense rows [rows, width], as a tensor [width].
inline Tensor sum_of_rows(const float* x, Index rows, Index width) {
  const std::vector<double> sums = column_sums(rows, width, [&](Index row, double* group) {
    for (Index t = 0; t < width; ++t) group[t] += static_cast<double>(x[row * width + t]);
  });
  Tensor result = Tensor::uninitialized(DType::kF32, {width});
  std::transform(sums.begin(), sums.end(), result.data<float>(), [](double sum) { return static_cast<float>(sum); });
  return result;
}

}  // namespace multihead
