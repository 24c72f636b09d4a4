// Sums over rows whose bits do not depend on the number of threads: fixed groups of rows, joined in ascending order.
#pragma once

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "multihead/tensor.h"

namespace multihead::decoder {

/// Rows below which a second thread costs more than it brings.
inline constexpr Index kRowsPerThread = 16;
/// Rows of one group.
inline constexpr Index kGroupRows = 64;

/// Calls add_row(row, sums) for each row, in parallel; what it adds to its `width` sums in float64 is added to `total`, f32.
template <typename AddRow>
void add_column_sums(Index rows, Index width, float* total, AddRow add_row) {
  const Index groups = (rows + kGroupRows - 1) / kGroupRows;
  std::vector<double> sums(static_cast<std::size_t>(groups * width));
  parallel_for(groups, threads_for(groups), [&](Index group, int) {
    for (Index row = group * kGroupRows; row < std::min(rows, (group + 1) * kGroupRows); ++row)
      add_row(row, sums.data() + group * width);
  });
  for (Index t = 0; t < width; ++t) {
    double sum = 0;
    for (Index group = 0; group < groups; ++group) sum += sums[static_cast<std::size_t>(group * width + t)];
    total[t] += static_cast<float>(sum);
  }
}

}  // namespace multihead::decoder
