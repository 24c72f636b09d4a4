#include "layer/projection.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/product.h"

namespace multihead {
namespace {

using kernels::kProductColumns;
using kernels::kProductRows;

constexpr Index kItemColumns = kernels::kProductPanels * kProductColumns;
Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

}  // namespace

struct Projection::Packed {
  Index in = 0, out = 0;
  Tensor weight;  ///< [panels, in, kProductColumns]
  Tensor bias;    ///< [panels, kProductColumns]

  Index panels() const { return ceil_div(out, kProductColumns); }
  /// Columns of y from `column` on that one work item computes.
  kernels::ProductPanels columns(Index column) const {
    return {weight.data<float>() + column * in, bias.data<float>() + column, in, std::min(kItemColumns, out - column)};
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
  // Columns outermost: consecutive items share their part of the weight.
  const Index row_items = ceil_div(rows, kProductRows);
  const Index items = ceil_div(packed.out, kItemColumns) * row_items;
  // For a few rows the weights' way here is what takes time: about four multiply-adds for each.
  constexpr Index kReading = 4;
  const auto work =
      static_cast<double>(std::max(rows, kReading)) * static_cast<double>(packed.in) * static_cast<double>(packed.out);
  parallel_for(items, std::min(threads_for(items), threads_for_work(work)), [&](Index item, int) {
    const Index column = item / row_items * kItemColumns, first = item % row_items * kProductRows;
    kernels::multiply_panels(packed.columns(column), x + first * packed.in, std::min(kProductRows, rows - first),
                             y + first * packed.out + column, packed.out, thread_scratch(kernels::kProductScratch));
  });
}

}  // namespace multihead
