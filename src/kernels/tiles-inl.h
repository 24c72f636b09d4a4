// The two register tiles that all the arithmetic goes through, for one Highway target. Queries lie across vector lanes; K and V
// are read element by element, in the order in which they are stored, and broadcast:
//
//     scores   S[key][lane]  = sum_t   K[key][t] * Q[t][lane]          Q: the panel packed once, [head_dim, panel]
//     output   O[t][lane]    = O[t][lane] * alpha[lane] + sum_key V[key][t] * P[key][lane]
//
// No horizontal sums, no packing of K or V, and one order of summation: every S[key][lane] is the chain of head_dim fused
// multiply-adds in the order of t, every O[t][lane] the chain over keys in ascending order, whatever the tile's size. That is
// why a result's bits do not depend on where its row landed.
//
// kRows * kVectors accumulators must cover the latency of the multiply-add units (2 units * 4…5 cycles) and leave registers for
// the operands: 4 * 3 of 16 on AVX2 and older, 8 * 3 of 32 on AVX-512 and NEON. 6 * 2 measured the same on AVX2 within noise.
// Narrower tiles, for the last lanes of a block and along a causal diagonal, are taller where there are registers for it.
#if defined(MULTIHEAD_KERNELS_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILES_INL_H_
#undef MULTIHEAD_KERNELS_TILES_INL_H_
#else
#define MULTIHEAD_KERNELS_TILES_INL_H_
#endif

#include <algorithm>

#include "kernels/exp2-inl.h"
#include "multihead/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

inline constexpr int kMaxVectors = 3;
inline constexpr Index kPanelLanes = kMaxVectors * static_cast<Index>(kLanes);
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
constexpr int tile_rows(int vectors) { return vectors == kMaxVectors ? kTileRows : vectors == 2 ? std::max(kTileRows, 6) : 8; }

// Rows of K or V: `data` points at the first, rows are `stride` elements apart, elements of a row are adjacent.
struct Rows {
  const float* data;
  Index stride;

  HWY_INLINE const float* row(Index index) const { return data + index * stride; }
};

// Bytes that memory gives at once, and that are asked for ahead.
inline constexpr Index kLine = 64;

struct Nothing {
  HWY_INLINE void operator()() const {}
};

// sum[row][lane] = sum_t rows[row][t] * packed[t][lane], one chain each. kVectors of the packed rows' kPanel vectors take part:
// the others lie between, untouched. `each` is called once a term.
template <int kRows, int kVectors, int kPanel, typename Each = Nothing>
HWY_INLINE void dot_tile(Rows rows, const float* HWY_RESTRICT packed, Index terms, Vec (&sum)[kRows][kVectors],
                         const Each& each = {}) {
  constexpr Index kWidth = kPanel * static_cast<Index>(kLanes);
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kTag);
  }
  const float* HWY_RESTRICT row[kRows];
  for (int r = 0; r < kRows; ++r) row[r] = rows.row(r);
  for (Index t = 0; t < terms; ++t) {
    each();
    Vec x[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) x[v] = hn::Load(kTag, packed + t * kWidth + v * static_cast<Index>(kLanes));
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vec element = hn::Set(kTag, row[r][t]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(element, x[v], sum[r][v]);
    }
  }
}

template <int kRows, int kVectors, int kPanel>
HWY_INLINE void score_tile(Rows keys, const float* HWY_RESTRICT packed_query, Index head_dim, float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT maxima) {
  constexpr Index kWidth = kPanel * static_cast<Index>(kLanes);
  Vec sum[kRows][kVectors];
  dot_tile<kRows, kVectors, kPanel>(keys, packed_query, head_dim, sum);
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    Vec maximum = hn::Load(kTag, maxima + v * static_cast<Index>(kLanes));
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sum[r][v], kTag, scores + r * kWidth + v * static_cast<Index>(kLanes));
      maximum = hn::Max(maximum, sum[r][v]);
    }
    hn::Store(maximum, kTag, maxima + v * static_cast<Index>(kLanes));
  }
}

// alpha null: plain accumulation. kSkip: pairs whose weight is -0 are not visible and are stepped over (the value may be NaN).
template <int kDims, int kVectors, int kPanel, bool kSkip>
HWY_INLINE void output_tile(Rows values, const float* HWY_RESTRICT weights, Index keys, const float* HWY_RESTRICT alpha,
                            float* HWY_RESTRICT output) {
  constexpr Index kWidth = kPanel * static_cast<Index>(kLanes);
  Vec sum[kDims][kVectors];
  HWY_UNROLL(8)
  for (int t = 0; t < kDims; ++t) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const Index at = v * static_cast<Index>(kLanes);
      sum[t][v] = hn::Mul(hn::Load(kTag, output + t * kWidth + at), hn::Load(kTag, alpha + at));
    }
  }
  const float* HWY_RESTRICT value = values.data;
  for (Index key = 0; key < keys; ++key, value += values.stride) {
    Vec p[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) p[v] = hn::Load(kTag, weights + key * kWidth + v * static_cast<Index>(kLanes));
    HWY_UNROLL(8)
    for (int t = 0; t < kDims; ++t) {
      const Vec x = hn::Set(kTag, value[t]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kSkip) {
          const hn::RebindToUnsigned<FloatTag> bits;
          const auto hidden = hn::RebindMask(kTag, hn::Eq(hn::BitCast(bits, p[v]), hn::Set(bits, 0x80000000u)));
          sum[t][v] = hn::IfThenElse(hidden, sum[t][v], hn::MulAdd(x, p[v], sum[t][v]));
        } else {
          sum[t][v] = hn::MulAdd(x, p[v], sum[t][v]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int t = 0; t < kDims; ++t) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[t][v], kTag, output + t * kWidth + v * static_cast<Index>(kLanes));
  }
}

// Calls with `count`, 1 … kMax, as a constant: the last rows of a block go through the tile of exactly their height, because a
// padded tile would read rows that do not exist. Nothing is called for 0.
template <int kMax, typename Call>
HWY_INLINE void with_constant(Index count, const Call& call) {
  if constexpr (kMax > 0) {
    if (count == kMax) {
      call(std::integral_constant<int, kMax>());
    } else {
      with_constant<kMax - 1>(count, call);
    }
  }
}

// scores[key][lane] of `count` keys, and the running maximum of each lane over them.
template <int kVectors, int kPanel>
HWY_NOINLINE void score_keys(Rows keys, Index count, const float* packed_query, Index head_dim, float* scores, float* maxima) {
  constexpr Index kWidth = kPanel * static_cast<Index>(kLanes);
  constexpr int kRows = tile_rows(kVectors);
  Index key = 0;
  for (; key + kRows <= count; key += kRows) {
    score_tile<kRows, kVectors, kPanel>({keys.row(key), keys.stride}, packed_query, head_dim, scores + key * kWidth, maxima);
  }
  with_constant<kRows - 1>(count - key, [&](auto rows) HWY_ATTR {
    score_tile<rows(), kVectors, kPanel>({keys.row(key), keys.stride}, packed_query, head_dim, scores + key * kWidth, maxima);
  });
}

// output[t][lane] = output * alpha + sum over `count` keys of weight * value.
template <int kVectors, int kPanel, bool kSkip>
HWY_NOINLINE void accumulate_values(Rows values, Index value_dim, const float* weights, Index count, const float* alpha,
                                    float* output) {
  constexpr Index kWidth = kPanel * static_cast<Index>(kLanes);
  constexpr int kDims = tile_rows(kVectors);
  Index t = 0;
  for (; t + kDims <= value_dim; t += kDims) {
    output_tile<kDims, kVectors, kPanel, kSkip>({values.data + t, values.stride}, weights, count, alpha, output + t * kWidth);
  }
  with_constant<kDims - 1>(value_dim - t, [&](auto dims) HWY_ATTR {
    output_tile<dims(), kVectors, kPanel, kSkip>({values.data + t, values.stride}, weights, count, alpha, output + t * kWidth);
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
