#include "layer/projection.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/product.h"

namespace multihead {
namespace {

using kernels::kProductColumns;
using kernels::kProductRows;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// What one work item computes of y.
struct Cut {
  Index rows, columns;
};

// As much as multiply_panels takes at once, which reads weights least often, when that is enough items for all threads; of few
// rows panel by panel, whose weights are read from end to end, 10 to 25 % faster than four panels in turns (Zen 5). Else
// items of equal size for each: by rows, and by columns where rows are few. (Three items of 192, 192 and 128 columns kept two
// threads busy for 0.8 of the time.)
Cut cut_product(Index rows, Index columns, int threads) {
  constexpr Index kEnough = 8, kFewRows = 16, kLeastRows = 32, kRowStep = 8, kItemsPerThread = 4;
  Cut cut{kProductRows, kernels::kProductPanels * kProductColumns};
  if (threads == 1 || ceil_div(rows, cut.rows) * ceil_div(columns, cut.columns) >= kEnough * threads) {
    if (rows <= kFewRows) cut.columns = kProductColumns;
    return cut;
  }
  if (rows >= threads * kLeastRows) {
    const Index items = ceil_div(ceil_div(rows, kProductRows), threads) * threads;
    cut.rows = ceil_div(ceil_div(rows, items), kRowStep) * kRowStep;
  } else {
    const Index panels = ceil_div(ceil_div(columns, kProductColumns), kItemsPerThread * threads);
    cut.columns = std::min(panels, kernels::kProductPanels) * kProductColumns;
  }
  return cut;
}

}  // namespace

struct Projection::Packed {
  Index in = 0, out = 0;
  Tensor weight;  ///< [panels, in, kProductColumns]
  Tensor bias;    ///< [panels, kProductColumns]

  Index panels() const { return ceil_div(out, kProductColumns); }
  /// Up to `most` columns of y from `column` on.
  kernels::ProductPanels columns(Index column, Index most) const {
    return {weight.data<float>() + column * in, bias.data<float>() + column, in, std::min(most, out - column)};
  }
};

Projection::Projection(const ConstTensorView& weight, const ConstTensorView& bias) {
  auto packed = std::make_shared<Packed>();
  packed->out = weight.shape[0];
  packed->in = weight.shape[1];
  packed->weight = Tensor(DType::kF32, {packed->panels(), packed->in, kProductColumns});
  packed->bias = Tensor(DType::kF32, {packed->panels(), kProductColumns});
  if (bias.data != nullptr) {
    const Tensor converted = Tensor::converted(bias, DType::kF32);
    std::copy_n(converted.data<float>(), packed->out, packed->bias.data<float>());
  }
  const auto pack = [&](Index index, int) {
    const Index first = index * kProductColumns, columns = std::min(kProductColumns, packed->out - first);
    const Tensor rows = Tensor::converted(weight.slice(0, first, first + columns), DType::kF32);
    float* panel = packed->weight.data<float>() + index * packed->in * kProductColumns;
    for (Index t = 0; t < packed->in; ++t) {
      for (Index j = 0; j < columns; ++j) panel[t * kProductColumns + j] = rows.data<float>()[j * packed->in + t];
    }
  };
  parallel_for(packed->panels(), threads_for(packed->panels()), pack);
  packed_ = std::move(packed);
}

Index Projection::input_width() const { return packed_->in; }
Index Projection::output_width() const { return packed_->out; }

void Projection::apply(const float* x, Index rows, float* y) const {
  const Packed& packed = *packed_;
  // For a few rows the weights' way here is what takes time: about four multiply-adds for each.
  constexpr Index kReading = 4;
  const int threads = threads_for_work(static_cast<double>(std::max(rows, kReading)) * static_cast<double>(packed.in) *
                                       static_cast<double>(packed.out));
  const Cut cut = cut_product(rows, packed.out, threads);
  // Columns outermost: consecutive items share their part of the weight.
  const Index row_items = ceil_div(rows, cut.rows);
  const Index items = ceil_div(packed.out, cut.columns) * row_items;
  parallel_for(items, std::min(threads_for(items), threads), [&](Index item, int) {
    const Index column = item / row_items * cut.columns, first = item % row_items * cut.rows;
    kernels::multiply_panels(packed.columns(column, cut.columns), x + first * packed.in, std::min(cut.rows, rows - first),
                             y + first * packed.out + column, packed.out, thread_scratch(kernels::kProductScratch));
  });
}

}  // namespace multihead
