// From the softmax states of a block's chunks to results: joined, divided, and brought from lanes back to rows, for one Highway
// target.
#if defined(MULTIHEAD_KERNELS_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_RESULTS_INL_H_
#undef MULTIHEAD_KERNELS_RESULTS_INL_H_
#else
#define MULTIHEAD_KERNELS_RESULTS_INL_H_
#endif

#include <cmath>

#include "kernels/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// What a total and a part must be multiplied by before they are added.
struct JoinFactors {
  Vec of_total, of_part;
};

// Joins the statistics of the lanes v … v + kN - 1. A part that has seen nothing is neutral to the last bit: its factor is 0,
// the other's 2^0 = 1.
HWY_INLINE JoinFactors join_sums(const SoftmaxState& total, const SoftmaxState& part, Index v) {
  const Vec a = hn::Load(kTag, total.maximum + v), b = hn::Load(kTag, part.maximum + v);
  const Vec maximum = hn::Max(a, b);
  const Vec base = hn::IfThenZeroElse(hn::Eq(maximum, hn::Set(kTag, kMinusInfinity)), maximum);
  const JoinFactors factors{exp2(hn::Sub(a, base)), exp2(hn::Sub(b, base))};
  hn::Store(maximum, kTag, total.maximum + v);
  const Vec added = hn::Mul(hn::Load(kTag, part.sum + v), factors.of_part);
  hn::Store(hn::MulAdd(hn::Load(kTag, total.sum + v), factors.of_total, added), kTag, total.sum + v);
  hn::Store(hn::Max(hn::Load(kTag, total.seen + v), hn::Load(kTag, part.seen + v)), kTag, total.seen + v);
  return factors;
}

// total = total joined with part.
HWY_INLINE void join(const BlockContext& c, const SoftmaxState& total, const SoftmaxState& part) {
  for_each_panel(c, [&](auto vectors, Index first) HWY_ATTR {
    constexpr Index kWidth = vectors() * kN;
    for (Index v = first; v < first + kWidth; v += kN) {
      const JoinFactors factors = join_sums(total, part, v);
      const Index panel = first * c.problem.value_dim + (v - first);
      for (Index t = 0; t < c.problem.value_dim; ++t) {
        float* HWY_RESTRICT out = total.output + panel + t * kWidth;
        const Vec scaled = hn::Mul(hn::Load(kTag, part.output + panel + t * kWidth), factors.of_part);
        hn::Store(hn::MulAdd(hn::Load(kTag, out), factors.of_total, scaled), kTag, out);
      }
    }
  });
}

// Adds the sinks of the lanes [first, first + width) to their statistics, and gives what their outputs are to be multiplied by.
HWY_INLINE void divide(const BlockContext& c, const SoftmaxState& state, Index first, Index width, float* factor) {
  HWY_ALIGN float sink[kPanelLanes];
  for (Index l = 0; l < width; ++l) {
    sink[l] = c.problem.sinks != nullptr ? to_log2(c.problem.sinks[lane_at(c, first + l).head]) : kMinusInfinity;
  }
  for (Index v = 0; v < width; v += kN) {
    const Vec old = hn::Load(kTag, state.maximum + first + v), logit = hn::Load(kTag, sink + v);
    const Vec maximum = hn::Max(old, logit);
    const Vec base = hn::IfThenZeroElse(hn::Eq(maximum, hn::Set(kTag, kMinusInfinity)), maximum);
    const Vec rescale = exp2(hn::Sub(old, base));
    const Vec sum = hn::MulAdd(hn::Load(kTag, state.sum + first + v), rescale, exp2(hn::Sub(logit, base)));
    const Vec seen = hn::Load(kTag, state.seen + first + v);
    // Selected, not multiplied: a row that sees nothing is 0 whatever else went on.
    hn::Store(hn::IfThenElseZero(hn::Ne(seen, hn::Zero(kTag)), hn::Div(rescale, sum)), kTag, factor + v);
    hn::Store(maximum, kTag, state.maximum + first + v);
    hn::Store(sum, kTag, state.sum + first + v);
  }
}

HWY_INLINE Index output_offset(const BlockContext& c, const Lane& lane) {
  return c.problem.output.offset(c.block.sequence->batch, lane.head, lane.row, 0);
}

HWY_INLINE void write_lse(const BlockContext& c, const Lane& lane, float maximum, float sum) {
  const Strided<void>& out = c.problem.lse;
  if (out.data == nullptr) return;
  const double lse = (static_cast<double>(maximum) + std::log2(static_cast<double>(sum))) / kLog2E;
  const Index at = out.offset(c.block.sequence->batch, lane.head, lane.row, 0);
  if (out.dtype == DType::kF64) {
    static_cast<double*>(out.data)[at] = lse;
  } else {
    static_cast<float*>(out.data)[at] = static_cast<float>(lse);
  }
}

// One lane's row of output, [value_dim], times `factor`, and its lse, to where they belong.
HWY_INLINE void write_result(const BlockContext& c, Index index, const float* row, float factor, float maximum, float sum) {
  const Lane lane = lane_at(c, index);
  store_row(row, c.problem.value_dim, factor, c.problem.output, output_offset(c, lane));
  write_lse(c, lane, maximum, sum);
}

// The division, the sink, and the way back from lanes to rows: in place where the output can take them as they are, else by way
// of the room of the copied values, which are no longer needed. Lanes of padding are written there and left.
HWY_INLINE void finish(const BlockContext& c, const SoftmaxState& state) {
  const Strided<void>& output = c.problem.output;
  const Index dim = c.problem.value_dim;
  const bool in_place = output.dtype == DType::kF32 && (output.strides[3] == 1 || dim == 1);
  HWY_ALIGN float factor[kPanelLanes];
  float* rows[kPanelLanes];
  for_each_panel(c, [&](auto vectors, Index first) HWY_ATTR {
    constexpr Index kWidth = vectors() * kN;
    const Index lanes = std::min(kWidth, c.lanes - first);
    divide(c, state, first, kWidth, factor);
    for (Index l = 0; l < kWidth; ++l) {
      const bool real = l < lanes;
      rows[l] =
          in_place && real ? static_cast<float*>(output.data) + output_offset(c, lane_at(c, first + l)) : c.values + l * dim;
    }
    transpose_panel(state.output + first * dim, dim, kWidth, factor, rows);
    for (Index l = 0; l < lanes; ++l) {
      const Lane lane = lane_at(c, first + l);
      if (!in_place) store_row(rows[l], dim, 1.0f, output, output_offset(c, lane));
      write_lse(c, lane, state.maximum[first + l], state.sum[first + l]);
    }
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
