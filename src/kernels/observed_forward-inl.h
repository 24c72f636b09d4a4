// The forward kernel with sums over its coefficients riding along, for one Highway target. Per lane, besides the maximum m and
// the sum l of the online softmax, in units of log2:
//
//     u = sum 2^(s - m) (s - m)        entropy of p / sum p        = ln l - ln 2 * u / l
//     q = sum 2^(2 (s - m))            effective keys              = l^2 / q
//     w = sum 2^(s - m) |d|            mean distance               = w 2^m / denominator
//
// When m moves to m', with a = 2^(m - m'):  u <- a (u + (m - m') l),  then  l <- a l,  q <- a^2 q,  w <- a w. Everything that
// the output depends on is done by the same operations in the same order as in block-inl.h.
#if defined(MULTIHEAD_KERNELS_OBSERVED_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_OBSERVED_FORWARD_INL_H_
#undef MULTIHEAD_KERNELS_OBSERVED_FORWARD_INL_H_
#else
#define MULTIHEAD_KERNELS_OBSERVED_FORWARD_INL_H_
#endif

#include "kernels/observe.h"
#include "kernels/results-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// Beside a SoftmaxState, of the chunk at hand or of those before it.
struct CoefficientSums {
  HWY_ALIGN float entropy[kBlockLanes];   // u
  HWY_ALIGN float squares[kBlockLanes];   // q
  HWY_ALIGN float distance[kBlockLanes];  // w

  void reset() {
    for (float* const sums : {entropy, squares, distance}) std::fill_n(sums, kBlockLanes, 0.0f);
  }
};

// a (u + (m - m') l), 0 where nothing has been seen: (-inf) * 0 is NaN.
HWY_INLINE Vec moved_entropy(Vec u, Vec l, Vec old, Vec base, Vec factor) {
  const auto nothing = hn::Eq(old, hn::Set(kTag, kMinusInfinity));
  return hn::IfThenZeroElse(nothing, hn::Mul(factor, hn::MulAdd(hn::Sub(old, base), l, u)));
}

// softmax_step, one vector after another.
template <int kVectors, bool kSkip>
HWY_NOINLINE void softmax_step_observed(const BlockContext& c, Index first, const TileKeys& tile,
                                        const float* HWY_RESTRICT maxima, float* HWY_RESTRICT alpha, CoefficientSums& sums) {
  constexpr Index kWidth = kVectors * kN;
  HWY_ALIGN float position[kWidth];
  for (Index l = 0; l < kWidth; ++l) position[l] = static_cast<float>(lane_at(c, first + l).position - tile.begin);
  const Vec lowest = hn::Set(kTag, -1e30f), one = hn::Set(kTag, 1.0f);
  for (Index v = 0; v < kWidth; v += kN) {
    const Vec old = hn::Load(kTag, c.state.maximum + first + v);
    const Vec now = hn::Max(old, hn::Load(kTag, maxima + v));
    const Vec base = hn::IfThenZeroElse(hn::Eq(now, hn::Set(kTag, kMinusInfinity)), now);
    const Vec factor = exp2(hn::Sub(old, base));
    const Vec before = hn::Load(kTag, c.state.sum + first + v), where = hn::Load(kTag, position + v);
    Vec u = moved_entropy(hn::Load(kTag, sums.entropy + first + v), before, old, base, factor);
    Vec q = hn::Mul(hn::Load(kTag, sums.squares + first + v), hn::Mul(factor, factor));
    Vec w = hn::Mul(hn::Load(kTag, sums.distance + first + v), factor);
    Vec total = hn::Zero(kTag), j = total;
    for (Index key = 0; key < tile.end - tile.begin; ++key) {
      float* HWY_RESTRICT at = c.scores + key * kWidth + v;
      const Vec s = hn::Load(kTag, at);
      const Vec below = hn::Sub(s, base);
      Vec p = exp2(below);
      total = hn::Add(total, p);
      u = hn::MulAdd(p, hn::Max(below, lowest), u);
      q = hn::MulAdd(p, p, q);
      w = hn::MulAdd(p, hn::Abs(hn::Sub(where, j)), w);
      j = hn::Add(j, one);
      if constexpr (kSkip) p = hn::IfThenElse(hn::Eq(s, hn::Set(kTag, kMinusInfinity)), hn::Set(kTag, -0.0f), p);
      hn::Store(p, kTag, at);
    }
    hn::Store(now, kTag, c.state.maximum + first + v);
    hn::Store(factor, kTag, alpha + v);
    hn::Store(hn::Add(hn::Mul(before, factor), total), kTag, c.state.sum + first + v);
    hn::Store(u, kTag, sums.entropy + first + v);
    hn::Store(q, kTag, sums.squares + first + v);
    hn::Store(w, kTag, sums.distance + first + v);
  }
}

template <int kVectors, bool kSkip>
HWY_INLINE void weigh_values_observed(const BlockContext& c, Index first, const TileKeys& tile, Rows values,
                                      const float* maxima, CoefficientSums& sums) {
  constexpr Index kWidth = kVectors * kN;
  HWY_ALIGN float alpha[kWidth];
  softmax_step_observed<kVectors, kSkip>(c, first, tile, maxima, alpha, sums);
  if (c.problem.drops()) drop_weights<kVectors>(c, first, tile, c.scores);
  for_each_stretch<kVectors>(c, first, tile, [&](auto vectors, Index from, Index begin, Index end) HWY_ATTR {
    const Index skip = begin - tile.begin;
    accumulate_values<vectors(), kVectors, kSkip>({values.row(skip), values.stride}, c.problem.value_dim,
                                                  c.scores + skip * kWidth + from * kN, end - begin, alpha + from * kN,
                                                  c.state.output + first * c.problem.value_dim + from * kN);
    std::fill_n(alpha + from * kN, vectors() * kN, 1.0f);
  });
}

template <int kVectors>
HWY_INLINE void attend_panel_observed(const BlockContext& c, Index first, const KeyBlockRows& rows, CoefficientSums& sums) {
  const TileKeys tile = tile_keys(c, first, kVectors * kN, rows.begin, rows.end);
  if (tile.begin >= tile.end) return;
  HWY_ALIGN float maxima[kPanelLanes];
  const Index skip = tile.begin - rows.begin;
  panel_scores<kVectors>(c, first, tile, {rows.keys.row(skip), rows.keys.stride}, maxima, c.state.seen + first);
  const Rows values{rows.values.row(skip), rows.values.stride};
  if (rows.values_finite) {
    weigh_values_observed<kVectors, false>(c, first, tile, values, maxima, sums);
  } else {
    weigh_values_observed<kVectors, true>(c, first, tile, values, maxima, sums);
  }
}

HWY_INLINE void walk_panels_observed(const BlockContext& c, KeyRange visible, Index chunk, CoefficientSums& sums) {
  sums.reset();
  walk_panels(c, visible, chunk, [&](auto vectors, Index first, const KeyBlockRows& rows) HWY_ATTR {
    attend_panel_observed<vectors()>(c, first, rows, sums);
  });
}

// total = total joined with part; before join() does the same with what the output depends on.
HWY_INLINE void join_sums(const BlockContext& c, CoefficientSums& total, const CoefficientSums& part) {
  for (Index v = 0; v < c.padded; v += kN) {
    const Vec a = hn::Load(kTag, c.total.maximum + v), b = hn::Load(kTag, c.state.maximum + v);
    const Vec maximum = hn::Max(a, b);
    const Vec base = hn::IfThenZeroElse(hn::Eq(maximum, hn::Set(kTag, kMinusInfinity)), maximum);
    const Vec of_total = exp2(hn::Sub(a, base)), of_part = exp2(hn::Sub(b, base));
    const Vec u = moved_entropy(hn::Load(kTag, total.entropy + v), hn::Load(kTag, c.total.sum + v), a, base, of_total);
    const Vec u_part = moved_entropy(hn::Load(kTag, part.entropy + v), hn::Load(kTag, c.state.sum + v), b, base, of_part);
    hn::Store(hn::Add(u, u_part), kTag, total.entropy + v);
    hn::Store(hn::MulAdd(hn::Load(kTag, total.squares + v), hn::Mul(of_total, of_total),
                         hn::Mul(hn::Load(kTag, part.squares + v), hn::Mul(of_part, of_part))),
              kTag, total.squares + v);
    hn::Store(hn::MulAdd(hn::Load(kTag, total.distance + v), of_total, hn::Mul(hn::Load(kTag, part.distance + v), of_part)),
              kTag, total.distance + v);
  }
}

// finish(), and what the sums say about each row.
HWY_INLINE void finish_observed(const BlockContext& c, const SoftmaxState& state, const CoefficientSums& sums,
                                const RowResults& results) {
  HWY_ALIGN float maximum[kBlockLanes], sum[kBlockLanes];
  std::copy_n(state.maximum, c.padded, maximum);  // finish() adds the sink to them
  std::copy_n(state.sum, c.padded, sum);
  finish(c, state);
  for (Index l = 0; l < c.lanes; ++l) {
    const Lane lane = lane_at(c, l);
    const Index at = (c.block.sequence->batch * results.num_heads + lane.head) * results.query_len + lane.row;
    const bool live = state.seen[l] != 0 && !(sum[l] == 0);
    const double mass = static_cast<double>(sum[l]);
    const double largest =
        live ? std::exp2(static_cast<double>(maximum[l] - state.maximum[l])) / static_cast<double>(state.sum[l]) : 0;
    results.max_probability[at] = static_cast<float>(largest);
    results.mean_distance[at] = live ? static_cast<float>(static_cast<double>(sums.distance[l]) * largest) : 0;
    results.effective_keys[at] = live ? static_cast<float>(mass * mass / static_cast<double>(sums.squares[l])) : 0;
    const double entropy = std::log(mass) - static_cast<double>(sums.entropy[l]) / mass / kLog2E;
    results.entropy[at] = live ? static_cast<float>(entropy < 0 ? 0 : entropy) : 0;
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
