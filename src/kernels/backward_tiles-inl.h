// The register tiles of the backward pass, for one Highway target, and the passes between them. Beside the scores, whose tile
// is the forward's, and with the same layout (panels of lanes, keys one after another):
//
//     dS[key][lane] = P[key][lane] * (sum_t V[key][t] * dO[t][lane] - D[lane])    dO: the panel packed, [value_dim, panel]
//     dQ[t][lane] += sum_key K[key][t] * dS[key][lane]
//     dK[key][t] += sum_lane dS[key][lane] * Q[lane][t]                           t across vector lanes; rows of Q as stored
//     dV[key][t] += sum_lane P[key][lane] * dO[lane][t]
//
// The last three start from 0 for every block of keys or lanes and are added to what is there: chains stay short.
//
// A pair that is not visible has the weight and the gradient -0 wherever one of a tile may not be: it is selected, never the
// product of a 0. Tiles with kSkip step over it, for the case that what it would be multiplied with is not finite.
#if defined(MULTIHEAD_KERNELS_BACKWARD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_TILES_INL_H_
#undef MULTIHEAD_KERNELS_BACKWARD_TILES_INL_H_
#else
#define MULTIHEAD_KERNELS_BACKWARD_TILES_INL_H_
#endif

#include <cstring>

#include "kernels/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

HWY_INLINE bool is_marked(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits == 0x80000000u;
}

// From scores to coefficients 2^(S - lse), in place; lse in log2 units.
template <int kVectors, bool kMark>
HWY_NOINLINE void recompute_weights(float* HWY_RESTRICT scores, Index count, const float* HWY_RESTRICT lse) {
  Vec base[kVectors];
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) base[v] = hn::Load(kTag, lse + v * kN);
  for (Index key = 0; key < count; ++key) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT at = scores + (key * kVectors + v) * kN;
      const Vec s = hn::Load(kTag, at);
      Vec p = exp2(hn::Sub(s, base[v]));
      if constexpr (kMark) p = hn::IfThenElse(hn::Eq(s, hn::Set(kTag, kMinusInfinity)), hn::Set(kTag, -0.0f), p);
      hn::Store(p, kTag, at);
    }
  }
}

// One panel's side of the score gradients. All point at the first of the tile's vectors and keys.
struct ScoreGradients {
  const float* packed_grad;  // [value_dim, panel]
  const float* delta;        // [panel]
  const float* weights;      // [keys, panel]
  float* gradients;          // [keys, panel]
};

template <int kRows, int kVectors, int kPanel, bool kMark>
HWY_INLINE void score_gradient_tile(Rows values, Index value_dim, const ScoreGradients& panel, Index key) {
  constexpr Index kWidth = kPanel * kN;
  Vec sum[kRows][kVectors];
  dot_tile<kRows, kVectors, kPanel>({values.row(key), values.stride}, panel.packed_grad, value_dim, sum);
  const float* HWY_RESTRICT weights = panel.weights + key * kWidth;
  float* HWY_RESTRICT gradients = panel.gradients + key * kWidth;
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    const Vec delta = hn::Load(kTag, panel.delta + v * kN);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vec p = hn::Load(kTag, weights + r * kWidth + v * kN);
      Vec gradient = hn::Mul(p, hn::Sub(sum[r][v], delta));
      // + 0: a visible -0 must not be taken for the mark.
      if constexpr (kMark) gradient = hn::IfThenElse(is_marked(p), p, hn::Add(gradient, hn::Zero(kTag)));
      hn::Store(gradient, kTag, gradients + r * kWidth + v * kN);
    }
  }
}

template <int kVectors, int kPanel, bool kMark>
HWY_NOINLINE void score_gradients(Rows values, Index value_dim, Index count, const ScoreGradients& panel) {
  constexpr int kRows = tile_rows(kVectors);
  Index key = 0;
  for (; key + kRows <= count; key += kRows) {
    score_gradient_tile<kRows, kVectors, kPanel, kMark>(values, value_dim, panel, key);
  }
  with_constant<kRows - 1>(count - key, [&](auto rows) HWY_ATTR {
    score_gradient_tile<rows(), kVectors, kPanel, kMark>(values, value_dim, panel, key);
  });
}

// sums[t][lane] += sum over `count` keys of gradient * key element, for kDims columns of `keys`.
template <int kDims, int kVectors, int kPanel, bool kSkip>
HWY_INLINE void query_sum_tile(Rows keys, const float* HWY_RESTRICT gradients, Index count, float* HWY_RESTRICT sums) {
  constexpr Index kWidth = kPanel * kN;
  Vec sum[kDims][kVectors];
  HWY_UNROLL(8)
  for (int t = 0; t < kDims; ++t) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[t][v] = hn::Zero(kTag);
  }
  const float* HWY_RESTRICT row = keys.data;
  for (Index key = 0; key < count; ++key, row += keys.stride) {
    Vec g[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) g[v] = hn::Load(kTag, gradients + key * kWidth + v * kN);
    HWY_UNROLL(8)
    for (int t = 0; t < kDims; ++t) {
      const Vec x = hn::Set(kTag, row[t]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kSkip) {
          sum[t][v] = hn::IfThenElse(is_marked(g[v]), sum[t][v], hn::MulAdd(x, g[v], sum[t][v]));
        } else {
          sum[t][v] = hn::MulAdd(x, g[v], sum[t][v]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int t = 0; t < kDims; ++t) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT at = sums + t * kWidth + v * kN;
      hn::Store(hn::Add(hn::Load(kTag, at), sum[t][v]), kTag, at);
    }
  }
}

template <int kVectors, int kPanel, bool kSkip>
HWY_NOINLINE void add_query_sums(Rows keys, Index head_dim, const float* gradients, Index count, float* sums) {
  constexpr Index kWidth = kPanel * kN;
  constexpr int kDims = tile_rows(kVectors);
  Index t = 0;
  for (; t + kDims <= head_dim; t += kDims) {
    query_sum_tile<kDims, kVectors, kPanel, kSkip>({keys.data + t, keys.stride}, gradients, count, sums + t * kWidth);
  }
  with_constant<kDims - 1>(head_dim - t, [&](auto dims) HWY_ATTR {
    query_sum_tile<dims(), kVectors, kPanel, kSkip>({keys.data + t, keys.stride}, gradients, count, sums + t * kWidth);
  });
}

// What one product into the gradients of key or value reads and writes.
struct KeySums {
  const float* weights;  // of a block of lanes, panel after panel, each [kKeyBlock, panel width]
  Index padded;          // lanes, to whole vectors
  Rows rows;             // [lanes, columns]: Q or dO, columns padded to whole vectors
  float* sums;           // [keys, stride]
  Index stride;
};

// sum[key][t] over `count` lanes of one panel: `weights` of the first key and lane, keys `width` apart.
template <int kRows, int kVectors, bool kSkip>
HWY_INLINE void add_lanes(const float* HWY_RESTRICT weights, Index width, Rows rows, Index count, Vec (&sum)[kRows][kVectors]) {
  const float* HWY_RESTRICT row = rows.data;
  for (Index lane = 0; lane < count; ++lane, row += rows.stride) {
    Vec x[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) x[v] = hn::Load(kTag, row + v * kN);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const float weight = weights[r * width + lane];
      if constexpr (kSkip) {
        if (is_marked(weight)) continue;
      }
      const Vec w = hn::Set(kTag, weight);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(w, x[v], sum[r][v]);
    }
  }
}

// sums[key …][t …] += the lanes [lanes.begin, lanes.end) of the block.
template <int kRows, int kVectors, bool kSkip>
HWY_INLINE void key_sum_tile(const KeySums& c, KeyRange lanes, Index key, Index t) {
  Vec sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kTag);
  }
  for (Index first = lanes.begin / kPanelLanes * kPanelLanes; first < lanes.end; first += kPanelLanes) {
    const Index width = std::min(kPanelLanes, c.padded - first);
    const Index from = std::max(first, lanes.begin), to = std::min(first + width, lanes.end);
    const float* weights = c.weights + first * kKeyBlock + key * width + (from - first);
    const Rows rows{c.rows.row(from) + t, c.rows.stride};
    if (width == kPanelLanes) {
      add_lanes<kRows, kVectors, kSkip>(weights, kPanelLanes, rows, to - from, sum);
    } else {
      add_lanes<kRows, kVectors, kSkip>(weights, width, rows, to - from, sum);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT at = c.sums + (key + r) * c.stride + t + v * kN;
      hn::Store(hn::Add(hn::Load(kTag, at), sum[r][v]), kTag, at);
    }
  }
}

// The keys [0, count) of a key block. lanes[g]: those that see any of the keys of tile g.
template <int kVectors, bool kSkip>
HWY_NOINLINE void add_key_sums(const KeySums& c, const KeyRange* lanes, Index count, Index t) {
  Index key = 0;
  for (; key + kTileRows <= count; key += kTileRows, ++lanes) {
    if (lanes->begin < lanes->end) key_sum_tile<kTileRows, kVectors, kSkip>(c, *lanes, key, t);
  }
  with_constant<kTileRows - 1>(count - key, [&](auto rows) HWY_ATTR {
    if (lanes->begin < lanes->end) key_sum_tile<rows(), kVectors, kSkip>(c, *lanes, key, t);
  });
}

// All columns, in slices of nearly equal numbers of vectors: a slice of one vector would wait for its loads.
template <bool kSkip>
HWY_INLINE void add_all_key_sums(const KeySums& c, const KeyRange* lanes, Index count, Index columns) {
  Index vectors = round_up(columns, kN) / kN;
  Index t = 0;
  for (Index slices = (vectors + kMaxVectors - 1) / kMaxVectors; slices > 0; --slices) {
    const Index now = (vectors + slices - 1) / slices;
    with_constant<kMaxVectors>(now, [&](auto constant) HWY_ATTR { add_key_sums<constant(), kSkip>(c, lanes, count, t); });
    vectors -= now;
    t += now * kN;
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
