// One to four lanes over many keys, for one Highway target: what decoding a token asks for. Memory sets the pace here, so K and
// V are read once for all lanes of a group, and the vector's lanes hold keys (for scores) and value dimensions (for the
// output).
//
// The arithmetic is that of the panels to the last bit: every score the same chain of multiply-adds over head_dim, every output
// the same chain over keys, the sum of weights added in the same order. Only what lies beside it in a register differs.
#if defined(MULTIHEAD_KERNELS_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_DECODE_INL_H_
#undef MULTIHEAD_KERNELS_DECODE_INL_H_
#else
#define MULTIHEAD_KERNELS_DECODE_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// 8 lanes are enough to keep up with memory, and wider rows of blocks only spread the loads.
using DecodeTag = hn::CappedTag<float, 8>;
using DecodeVec = hn::Vec<DecodeTag>;
inline constexpr DecodeTag kDecodeTag;
inline constexpr Index kD = static_cast<Index>(hn::MaxLanes(kDecodeTag));

// The memory of the next key block, asked for a few lines at a time while this one is being computed: K and V are read in tiles
// that the hardware's own prefetchers do not recognise as a stream (without this a third of the bandwidth was reached).
class Ahead {
 public:
  Ahead() = default;
  Ahead(const char* keys, const char* values, Index key_bytes, Index value_bytes)
      : at_{keys, values}, end_{keys + key_bytes, values + value_bytes} {}

  // About `parts` calls of `step` cover both ranges.
  HWY_INLINE void share_out(Index parts) {
    const Index lines = (end_[0] - at_[0] + end_[1] - at_[1]) / kLine + 2;
    lines_a_step_ = (lines + parts - 1) / parts;
  }
  HWY_INLINE void step() {
    for (Index i = 0; i < lines_a_step_; ++i) {
      if (at_[0] >= end_[0]) {
        if (at_[1] >= end_[1]) return;
        std::swap(at_[0], at_[1]);
        std::swap(end_[0], end_[1]);
      }
      hwy::Prefetch(at_[0]);
      at_[0] += kLine;
    }
  }

 private:
  static constexpr Index kLine = 64;
  const char* at_[2] = {};
  const char* end_[2] = {};
  Index lines_a_step_ = 0;
};

// Four adjacent elements of kD rows, one 128-bit block a row: block b of the result is row `4 * b` of the rows given.
#if HWY_TARGET != HWY_SCALAR
template <typename D>
HWY_INLINE hn::Vec<D> load_blocks(D d, Rows rows, Index t) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, rows.data + t);
  } else {
    const hn::Half<D> half;
    constexpr Index kUpper = static_cast<Index>(hn::MaxLanes(half));
    return hn::Combine(d, load_blocks(half, {rows.row(kUpper), rows.stride}, t), load_blocks(half, rows, t));
  }
}

// Elements t … t + 3 of kD rows as four vectors over rows: a 4 x 4 transposition in every 128-bit block. Row 4 b + r of the
// rows lies in lane 4 b + r.
HWY_INLINE void load_transposed(Rows rows, Index t, DecodeVec& x0, DecodeVec& x1, DecodeVec& x2, DecodeVec& x3) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<DecodeTag>> pairs;
  const DecodeVec a = load_blocks(kDecodeTag, rows, t), b = load_blocks(kDecodeTag, {rows.row(1), rows.stride}, t);
  const DecodeVec c = load_blocks(kDecodeTag, {rows.row(2), rows.stride}, t),
                  d = load_blocks(kDecodeTag, {rows.row(3), rows.stride}, t);
  const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeTag, a, b)),
             ab23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeTag, a, b));
  const auto cd01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeTag, c, d)),
             cd23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeTag, c, d));
  x0 = hn::BitCast(kDecodeTag, hn::InterleaveLower(pairs, ab01, cd01));
  x1 = hn::BitCast(kDecodeTag, hn::InterleaveUpper(pairs, ab01, cd01));
  x2 = hn::BitCast(kDecodeTag, hn::InterleaveLower(pairs, ab23, cd23));
  x3 = hn::BitCast(kDecodeTag, hn::InterleaveUpper(pairs, ab23, cd23));
}
#endif

// Scores of kQueries lanes against kGroups * kD keys. query: [kQueries, head_dim]; scores: [kQueries, kKeyBlock].
template <int kQueries, int kGroups>
HWY_INLINE void score_group(Rows keys, const float* HWY_RESTRICT query, Index head_dim, float* HWY_RESTRICT scores,
                            [[maybe_unused]] Ahead& ahead) {
  DecodeVec sum[kGroups][kQueries];
  HWY_UNROLL(8)
  for (int g = 0; g < kGroups; ++g) {
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) sum[g][q] = hn::Zero(kDecodeTag);
  }
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; t + 4 <= head_dim; t += 4) {
    ahead.step();
    HWY_UNROLL(8)
    for (int g = 0; g < kGroups; ++g) {
      DecodeVec x0, x1, x2, x3;
      load_transposed({keys.row(g * kD), keys.stride}, t, x0, x1, x2, x3);
      HWY_UNROLL(8)
      for (int q = 0; q < kQueries; ++q) {
        const float* HWY_RESTRICT at = query + q * head_dim + t;
        sum[g][q] = hn::MulAdd(x0, hn::Set(kDecodeTag, at[0]), sum[g][q]);
        sum[g][q] = hn::MulAdd(x1, hn::Set(kDecodeTag, at[1]), sum[g][q]);
        sum[g][q] = hn::MulAdd(x2, hn::Set(kDecodeTag, at[2]), sum[g][q]);
        sum[g][q] = hn::MulAdd(x3, hn::Set(kDecodeTag, at[3]), sum[g][q]);
      }
    }
  }
#endif
  for (; t < head_dim; ++t) {
    for (int g = 0; g < kGroups; ++g) {
      HWY_ALIGN float column[kD];
      for (Index r = 0; r < kD; ++r) column[r] = keys.row(g * kD + r)[t];
      const DecodeVec x = hn::Load(kDecodeTag, column);
      for (int q = 0; q < kQueries; ++q) sum[g][q] = hn::MulAdd(x, hn::Set(kDecodeTag, query[q * head_dim + t]), sum[g][q]);
    }
  }
  HWY_UNROLL(8)
  for (int g = 0; g < kGroups; ++g) {
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) hn::StoreU(sum[g][q], kDecodeTag, scores + q * kKeyBlock + g * kD);
  }
}

// The last keys, fewer than kD: one chain each, in the first lane of a vector, so that it is fused where the others are.
template <int kQueries>
HWY_INLINE void score_rest(Rows keys, Index count, const float* HWY_RESTRICT query, Index head_dim,
                           float* HWY_RESTRICT scores) {
  const hn::CappedTag<float, 1> one;
  for (Index key = 0; key < count; ++key) {
    for (int q = 0; q < kQueries; ++q) {
      auto sum = hn::Zero(one);
      for (Index t = 0; t < head_dim; ++t)
        sum = hn::MulAdd(hn::Set(one, keys.row(key)[t]), hn::Set(one, query[q * head_dim + t]), sum);
      scores[q * kKeyBlock + key] = hn::GetLane(sum);
    }
  }
}

// The softmax step of one lane over `count` scores, in place; returns alpha.
HWY_INLINE float decode_softmax(float* HWY_RESTRICT scores, Index count, float* maximum, float* sum) {
  const Index whole = count / kD * kD;
  DecodeVec highest = hn::Set(kDecodeTag, *maximum);
  for (Index j = 0; j < whole; j += kD) highest = hn::Max(highest, hn::LoadU(kDecodeTag, scores + j));
  HWY_ALIGN float lanes[kD];
  hn::Store(highest, kDecodeTag, lanes);
  float now = lanes[0];
  for (Index l = 1; l < kD; ++l) now = std::max(now, lanes[l]);
  for (Index j = whole; j < count; ++j) now = std::max(now, scores[j]);
  const float base = now == kMinusInfinity ? 0.0f : now;
  const float alpha = hn::GetLane(exp2(kDecodeTag, hn::Set(kDecodeTag, *maximum - base)));
  // Past `count` lies room to whole vectors; what is computed there is not used.
  for (Index j = 0; j < count; j += kD)
    hn::StoreU(exp2(kDecodeTag, hn::Sub(hn::LoadU(kDecodeTag, scores + j), hn::Set(kDecodeTag, base))), kDecodeTag, scores + j);
  float total = *sum * alpha;
  for (Index j = 0; j < count; ++j) total += scores[j];
  *maximum = now;
  *sum = total;
  return alpha;
}

// output[q][t] = output * alpha + sum over keys of weight * value, for kVectors vectors of dimensions. weights: [kQueries,
// kKeyBlock].
template <int kQueries, int kVectors, typename T>
HWY_INLINE void decode_values(const T* HWY_RESTRICT value, Index stride, Index count, const float* HWY_RESTRICT weights,
                              const float* alpha, float* HWY_RESTRICT output, Index output_stride, Ahead& ahead) {
  DecodeVec sum[kQueries][kVectors];
  HWY_UNROLL(8)
  for (int q = 0; q < kQueries; ++q) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      sum[q][v] = hn::Mul(hn::LoadU(kDecodeTag, output + q * output_stride + v * kD), hn::Set(kDecodeTag, alpha[q]));
    }
  }
  for (Index key = 0; key < count; ++key, value += stride) {
    ahead.step();
    DecodeVec p[kQueries];
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) p[q] = hn::Set(kDecodeTag, weights[q * kKeyBlock + key]);
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const DecodeVec x = load_floats(kDecodeTag, value + v * kD);
      HWY_UNROLL(8)
      for (int q = 0; q < kQueries; ++q) sum[q][v] = hn::MulAdd(x, p[q], sum[q][v]);
    }
  }
  HWY_UNROLL(8)
  for (int q = 0; q < kQueries; ++q) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[q][v], kDecodeTag, output + q * output_stride + v * kD);
  }
}

// The dimensions past the last whole vector.
template <int kQueries, typename T>
HWY_INLINE void decode_rest(const T* HWY_RESTRICT value, Index stride, Index dims, Index count,
                            const float* HWY_RESTRICT weights, const float* alpha, float* HWY_RESTRICT output,
                            Index output_stride) {
  const hn::CappedTag<float, 1> one;
  for (Index t = 0; t < dims; ++t) {
    for (int q = 0; q < kQueries; ++q) {
      auto sum = hn::Set(one, output[q * output_stride + t] * alpha[q]);
      for (Index key = 0; key < count; ++key) {
        const auto x = static_cast<float>(value[key * stride + t]);
        sum = hn::MulAdd(hn::Set(one, x), hn::Set(one, weights[q * kKeyBlock + key]), sum);
      }
      output[q * output_stride + t] = hn::GetLane(sum);
    }
  }
}

// Whether the block can go this way: few lanes that all see the same keys, and nothing done to the scores.
HWY_INLINE bool is_decode(const BlockContext& c) {
  if (c.lanes > kDecodeLanes || needs_adjustment(c.problem)) return false;
  return lane_at(c, 0).position == lane_at(c, c.lanes - 1).position ||
         !tile_keys(c, 0, c.padded, 0, c.block.sequence->key_len).limited;
}

// The lanes' queries as [lanes, head_dim], scaled as the panels' are.
HWY_INLINE void pack_decode_queries(const BlockContext& c) {
  for (Index l = 0; l < c.lanes; ++l) load_query(c, l, c.packed_query + l * c.problem.head_dim);
}

// How the registers are shared: keys * lanes and dimensions * lanes in flight.
template <int kQueries>
struct DecodeTile {
  static constexpr int kGroups = kQueries > 2 ? 1 : 2;
  static constexpr int kVectors = kQueries == 1 ? 8 : (kQueries == 2 ? 4 : 2);
};

// Scores of the keys [begin, end), which may be converted or gathered on the way, a group at a time so that they stay in L1.
template <int kQueries>
HWY_INLINE void decode_scores(const BlockContext& c, Index begin, Index end, Ahead& ahead) {
  constexpr int kGroups = DecodeTile<kQueries>::kGroups;
  const AttentionProblem& problem = c.problem;
  const Index dim = problem.head_dim, first = key_offset(c, problem.key, begin);
  const auto rows_at = [&](Index key, Index count)
                           HWY_ATTR { return rows_of(problem.key, first + key * problem.key.strides[2], count, dim, c.keys); };
  const Index count = end - begin;
  Index key = 0;
  for (; key + kGroups * kD <= count; key += kGroups * kD) {
    score_group<kQueries, kGroups>(rows_at(key, kGroups * kD), c.packed_query, dim, c.scores + key, ahead);
  }
  for (; key + kD <= count; key += kD) {
    score_group<kQueries, 1>(rows_at(key, kD), c.packed_query, dim, c.scores + key, ahead);
  }
  score_rest<kQueries>(rows_at(key, count - key), count - key, c.packed_query, dim, c.scores + key);
}

// c.state.output, [lanes, value_dim] until the chunk ends, with the values at `value` added.
template <int kQueries, typename T>
HWY_INLINE void decode_output(const BlockContext& c, const T* value, Index stride, Index count, const float* alpha,
                              Ahead& ahead) {
  constexpr Index kStep = DecodeTile<kQueries>::kVectors * kD;
  const Index dim = c.problem.value_dim;
  float* output = c.state.output;
  Index t = 0;
  for (; t + kStep <= dim; t += kStep) {
    decode_values<kQueries, DecodeTile<kQueries>::kVectors>(value + t, stride, count, c.scores, alpha, output + t, dim, ahead);
  }
  for (; t + kD <= dim; t += kD) {
    decode_values<kQueries, 1>(value + t, stride, count, c.scores, alpha, output + t, dim, ahead);
  }
  decode_rest<kQueries>(value + t, stride, dim - t, count, c.scores, alpha, output + t, dim);
}

template <int kQueries>
HWY_NOINLINE void decode_block(const BlockContext& c, Index begin, Index end, Ahead ahead) {
  const AttentionProblem& problem = c.problem;
  const Index count = end - begin;
  ahead.share_out(count / (DecodeTile<kQueries>::kGroups * kD) * (problem.head_dim / 4) +
                  count * (problem.value_dim / (DecodeTile<kQueries>::kVectors * kD)) + 1);
  decode_scores<kQueries>(c, begin, end, ahead);
  float alpha[kQueries];
  for (int q = 0; q < kQueries; ++q) {
    alpha[q] = decode_softmax(c.scores + q * kKeyBlock, count, c.state.maximum + q, c.state.sum + q);
  }
  const Index offset = key_offset(c, problem.value, begin);
  if (problem.value.strides[3] == 1) {
    with_elements(problem.value.data, problem.value.dtype, offset, [&](const auto* value) HWY_ATTR {
      decode_output<kQueries>(c, value, problem.value.strides[2], count, alpha, ahead);
    });
  } else {
    const Rows values = rows_of(problem.value, offset, count, problem.value_dim, c.values);
    decode_output<kQueries>(c, values.data, values.stride, count, alpha, ahead);
  }
}

// What is to be read after key `begin`, if its rows are adjacent and there are any.
HWY_INLINE Ahead next_block(const BlockContext& c, KeyRange visible, Index begin) {
  if (begin >= visible.end) return {};
  const auto bytes_of = [&](const Strided<const void>& array, Index dim) HWY_ATTR {
    const Index row = array.strides[2] == dim && array.strides[3] == 1 ? dim : 0;
    return std::min(kKeyBlock, visible.end - begin) * row * static_cast<Index>(size_of(array.dtype));
  };
  const auto start_of = [&](const Strided<const void>& array) HWY_ATTR {
    return static_cast<const char*>(array.data) + key_offset(c, array, begin) * static_cast<Index>(size_of(array.dtype));
  };
  return {start_of(c.problem.key), start_of(c.problem.value), bytes_of(c.problem.key, c.problem.head_dim),
          bytes_of(c.problem.value, c.problem.value_dim)};
}

// One chunk of keys into c.state.
HWY_INLINE void walk_decode(const BlockContext& c, KeyRange visible, Index chunk) {
  reset(c, c.state);
  for_each_key_block(visible, chunk, [&](Index begin, Index end) HWY_ATTR {
    const Ahead ahead = next_block(c, visible, end);
    with_constant<static_cast<int>(kDecodeLanes)>(c.lanes, [&](auto lanes) HWY_ATTR {
      decode_block<lanes()>(c, std::max(begin, visible.begin), end, ahead);  // a window's left end hides the first keys
    });
    std::fill_n(c.state.seen, c.padded, 1.0f);
  });
  // To the panels' layout, [value_dim, padded], for join and finish.
  const Index dim = c.problem.value_dim;
  std::copy_n(c.state.output, c.lanes * dim, c.values);
  std::fill_n(c.state.output, c.padded * dim, 0.0f);
  for (Index l = 0; l < c.lanes; ++l) {
    for (Index t = 0; t < dim; ++t) c.state.output[t * c.padded + l] = c.values[l * dim + t];
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
