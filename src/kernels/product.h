// y = x W^T + b for the projections, with W packed once.
#pragma once

#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead::kernels {

/// Columns of y that lie side by side in the packed weight: a whole number of register tiles on every target, so that one
/// packed weight serves all of them.
inline constexpr Index kProductColumns = 48;
/// Terms of one chain of f32 additions; the chains of a sum are added up in ascending order. Part of the definition of the
/// bits. A step's 128 x 48 weights are 24 KiB: they stay in L1 while rows of x pass by.
inline constexpr Index kProductTerms = 128;

/// Panels that one call shares the copied rows of x among.
inline constexpr Index kProductPanels = 4;
/// Rows of one call at most.
inline constexpr Index kProductRows = 192;

/// Some columns of a product: those of up to kProductPanels panels, each kProductColumns wide, the last of y's narrower.
struct ProductPanels {
  const float* weight = nullptr;  ///< [panels, in, kProductColumns], zeros in columns that do not exist
  const float* bias = nullptr;    ///< [panels * kProductColumns]
  Index in = 0;
  Index columns = 0;  ///< of y, that exist
};

/// Floats of scratch that multiply_panels needs.
inline constexpr Index kProductScratch = kProductRows * (kProductTerms + kProductPanels * kProductColumns);

/// y[row, column] = bias[column] + sum_t x[row, t] weight[t, column] for `rows` <= kProductRows rows. x: [rows, in] dense; y:
/// rows y_stride apart. A row's bits depend on nothing but that row, the weight and the target.
MULTIHEAD_API void multiply_panels(const ProductPanels& panels, const float* x, Index rows, float* y, Index y_stride,
                                   float* scratch);

}  // namespace multihead::kernels
