#include "layer/gradient_products.h"

#include <algorithm>

#include "base/column_sums.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/product.h"
#include "layer/dense_rows.h"

namespace multihead {
namespace {

using kernels::kProductColumns;

constexpr Index kItemColumns = kernels::kProductPanels * kProductColumns;
// A weight's gradient has few rows and many terms: smaller pieces than a projection's, so that all threads have some.
constexpr Index kItemRows = kernels::kProductRows / 4;
// A square of this side is read and written within the cache.
constexpr Index kSquare = 32;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// [terms, columns] -> [panels, terms, kProductColumns], zeros behind the last column.
Tensor pack(const float* b, Index terms, Index columns, int threads) {
  const Index panels = ceil_div(columns, kProductColumns);
  Tensor packed = Tensor::uninitialized(DType::kF32, {panels, terms, kProductColumns});
  parallel_for(panels, std::min<int>(threads, threads_for(panels)), [&](Index panel, int) {
    const Index first = panel * kProductColumns, count = std::min(kProductColumns, columns - first);
    float* to = packed.data<float>() + panel * terms * kProductColumns;
    for (Index t = 0; t < terms; ++t, to += kProductColumns) {
      std::copy_n(b + t * columns + first, count, to);
      std::fill_n(to + count, kProductColumns - count, 0.0F);
    }
  });
  return packed;
}

// [rows, columns] -> [columns, rows]
Tensor transposed(const float* a, Index rows, Index columns, int threads) {
  Tensor result = Tensor::uninitialized(DType::kF32, {columns, rows});
  const Index bands = ceil_div(columns, kSquare);
  parallel_for(bands, std::min<int>(threads, threads_for(bands)), [&](Index band, int) {
    const Index last = std::min(columns, (band + 1) * kSquare);
    for (Index first = 0; first < rows; first += kSquare) {
      for (Index column = band * kSquare; column < last; ++column) {
        float* to = result.data<float>() + column * rows;
        for (Index row = first; row < std::min(rows, first + kSquare); ++row) to[row] = a[row * columns + column];
      }
    }
  });
  return result;
}

int threads_of(Index rows, Index terms, Index columns) {
  return threads_for_work(static_cast<double>(rows) * static_cast<double>(terms) * static_cast<double>(columns));
}

}  // namespace

void multiply(const float* a, const float* b, Index rows, Index terms, Index columns, float* c) {
  if (rows == 0 || columns == 0) return;
  const int threads = threads_of(rows, terms, columns);
  const Tensor packed = pack(b, terms, columns, threads), bias(DType::kF32, {kItemColumns});
  const Index row_items = ceil_div(rows, kItemRows), items = ceil_div(columns, kItemColumns) * row_items;
  parallel_for(items, std::min<int>(threads, threads_for(items)), [&](Index item, int) {
    const Index column = item / row_items * kItemColumns, first = item % row_items * kItemRows;
    const kernels::ProductPanels panels{packed.data<float>() + column * terms, bias.data<float>(), terms,
                                        std::min(kItemColumns, columns - column)};
    kernels::multiply_panels(panels, a + first * terms, std::min(kItemRows, rows - first), c + first * columns + column,
                             columns, thread_scratch(kernels::kProductScratch));
  });
}

void multiply_transposed(const float* a, const float* b, Index rows, Index terms, Index columns, float* c) {
  const Tensor left = transposed(a, terms, rows, threads_of(rows, terms, columns));
  multiply(left.data<float>(), b, rows, terms, columns, c);
}

LinearGradients linear_backward(const float* x, const Tensor& weight, bool has_bias, const float* dy, Index rows) {
  const Index out = weight.shape()[0], in = weight.shape()[1];
  LinearGradients result;
  result.weight = Tensor::uninitialized(DType::kF32, {out, in});
  multiply_transposed(dy, x, out, rows, in, result.weight.data<float>());
  if (has_bias) result.bias = sum_of_rows(dy, rows, out);
  result.input = Tensor::uninitialized(DType::kF32, {rows, in});
  multiply(dy, DenseRows(weight).data(), rows, out, in, result.input.data<float>());
  return result;
}

}  // namespace multihead
