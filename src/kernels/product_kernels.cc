// The projections' product, compiled once for every target: the same register tile as the scores, with rows of x broadcast and
// columns of y across lanes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/product.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

inline constexpr int kPanelVectors = static_cast<int>(kProductColumns / static_cast<Index>(kLanes));
// Few rows are bound by the weight's way from memory, which is read best all columns at once.
inline constexpr int kFewRowVectors = std::min(kPanelVectors, 6);

// Rows of the sums, contiguous: those of y lie powers of two apart as a rule.
inline constexpr Index kSumStride = kProductPanels * kProductColumns;

// One step of the sums of one panel's columns.
struct Step {
  Rows x;               // [rows, terms]
  const float* weight;  // [terms, kProductColumns]
  Index terms;
  float* sums;  // [rows, kSumStride]
  Index vectors;
};

// The weights after these, asked for a share at a time.
struct WeightsAhead {
  const char* data;
  Index share;  // bytes

  HWY_INLINE void step() {
    for (Index at = 0; at < share; at += kLine) hwy::Prefetch(data + at);
    data += share;
  }
};

template <int kRows, int kVectors, typename Each>
HWY_INLINE void product_tile(const Step& step, Index row, Index column, const Each& each) {
  Vec sum[kRows][kVectors];
  dot_tile<kRows, kVectors, kPanelVectors>({step.x.row(row), step.x.stride}, step.weight + column, step.terms, sum, each);
  float* HWY_RESTRICT at = step.sums + row * kSumStride + column;
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT place = at + r * kSumStride + v * static_cast<Index>(kLanes);
      hn::Store(hn::Add(hn::Load(kTag, place), sum[r][v]), kTag, place);
    }
  }
}

template <int kRows, int kMost, typename Each>
HWY_NOINLINE void product_rows(const Step& step, Index row, const Each& each) {
  for (Index vector = 0; vector < step.vectors; vector += kMost) {
    with_constant<kMost>(std::min<Index>(step.vectors - vector, kMost), [&](auto count) HWY_ATTR {
      product_tile<kRows, count()>(step, row, vector * static_cast<Index>(kLanes), each);
    });
  }
}

// `next`: the weights after these. A few rows ask for them term by term: a tile's share is then hundreds of lines, which asked
// for at once wait for each other, and 4 to 8 rows took nearly twice as long. Many rows ask tile by tile, which leaves their
// inner loop alone: 2 to 4 % on AVX-512 (docs/design/0003-projections.md). One row is read all in a row, which the hardware
// sees itself.
HWY_INLINE void product_step(const Step& step, Index rows, const float* next) {
  if (rows == 1) return product_rows<1, kFewRowVectors>(step, 0, Nothing());
  constexpr Index kMostByTerm = 64, kBytes = kProductTerms * kProductColumns * static_cast<Index>(sizeof(float));
  const Index tiles = (rows + kTileRows - 1) / kTileRows, passes = (step.vectors + kMaxVectors - 1) / kMaxVectors;
  const bool by_term = rows <= kMostByTerm;
  WeightsAhead ahead{reinterpret_cast<const char*>(next), kBytes / (by_term ? kProductTerms * tiles * passes : tiles)};
  const auto ask = [&]() HWY_ATTR { ahead.step(); };
  for (Index row = 0; row < rows; row += kTileRows) {
    if (!by_term) ask();
    with_constant<kTileRows>(std::min<Index>(rows - row, kTileRows), [&](auto count) HWY_ATTR {
      if (by_term) {
        product_rows<count(), kMaxVectors>(step, row, ask);
      } else {
        product_rows<count(), kMaxVectors>(step, row, Nothing());
      }
    });
  }
}

// The terms of x are copied side by side first: its rows lie powers of two apart as a rule, and eight of them would compete for
// the same few places of the cache with the weights.
void MultiplyPanels(const ProductPanels& panels, const float* x, Index rows, float* y, Index y_stride, float* scratch) {
  float* const sums = scratch;
  float* const terms_of_x = scratch + rows * kSumStride;
  std::fill_n(sums, rows * kSumStride, 0.0f);
  for (Index first = 0; first < panels.in; first += kProductTerms) {
    const Index terms = std::min(kProductTerms, panels.in - first);
    for (Index row = 0; row < rows; ++row) std::copy_n(x + row * panels.in + first, terms, terms_of_x + row * terms);
    for (Index column = 0; column < panels.columns; column += kProductColumns) {
      const float* weight = panels.weight + column * panels.in + first * kProductColumns;
      const Index columns = std::min(kProductColumns, panels.columns - column);
      const bool last = column + kProductColumns >= panels.columns;
      const float* next = last ? panels.weight + (first + terms) * kProductColumns : weight + panels.in * kProductColumns;
      const auto vectors = (columns + static_cast<Index>(kLanes) - 1) / static_cast<Index>(kLanes);
      product_step({{terms_of_x, terms}, weight, terms, sums + column, vectors}, rows, next);
    }
  }
  for (Index row = 0; row < rows; ++row) {
    const float* HWY_RESTRICT sum = sums + row * kSumStride;
    float* HWY_RESTRICT out = y + row * y_stride;
    for (Index j = 0; j < panels.columns; ++j) out[j] = sum[j] + panels.bias[j];
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/kernels.h"

namespace multihead::kernels {

HWY_EXPORT(MultiplyPanels);

void multiply_panels(const ProductPanels& panels, const float* x, Index rows, float* y, Index y_stride, float* scratch) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(MultiplyPanels)(panels, x, rows, y, y_stride, scratch);
}

}  // namespace multihead::kernels
#endif  // HWY_ONCE
