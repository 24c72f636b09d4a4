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
#include "kernels/results-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// 8 lanes are enough to keep up with memory, and wider rows of blocks only spread the loads.
using DecodeTag = hn::CappedTag<float, 8>;
using DecodeVec = hn::Vec<DecodeTag>;
inline constexpr DecodeTag kDecodeTag;
inline constexpr Index kD = static_cast<Index>(hn::MaxLanes(kDecodeTag));

// The piece of K or V that comes after the one at work, asked for a few lines at a time: it is read in tiles that the
// hardware's own prefetchers do not recognise as a stream (without this a third of the bandwidth was reached). A piece is small
// enough for two of them to stay in L1; asking for a whole key block ahead, 96 KiB, drove out what was about to be read.
class Ahead {
 public:
  Ahead() = default;
  Ahead(const void* data, Index row_bytes, Index stride_bytes, Index rows) : row_(static_cast<const char*>(data)) {
    const bool adjacent = row_bytes == stride_bytes;  // then all is one long row
    quads_a_row_ = ((adjacent ? row_bytes * rows : row_bytes) + kQuad - 1) / kQuad;
    quads_ = adjacent ? quads_a_row_ : quads_a_row_ * rows;
    to_next_row_ = stride_bytes - quads_a_row_ * kQuad;
    left_in_row_ = quads_a_row_;
  }

  // `steps` calls of `step` cover the piece.
  HWY_INLINE void share_out(Index steps) { quads_a_step_ = steps > 0 ? (quads_ + steps - 1) / steps : 0; }
  HWY_INLINE void step() {
    for (Index i = 0; i < quads_a_step_; ++i) {
      hwy::Prefetch(row_);
      hwy::Prefetch(row_ + kLine);
      hwy::Prefetch(row_ + 2 * kLine);
      hwy::Prefetch(row_ + 3 * kLine);
      row_ += kQuad;
      if (--left_in_row_ > 0) continue;
      row_ += to_next_row_;
      left_in_row_ = quads_a_row_;
    }
  }

 private:
  static constexpr Index kLine = 64, kQuad = 4 * kLine;
  const char* row_ = nullptr;
  Index quads_ = 0, quads_a_row_ = 0, quads_a_step_ = 0, to_next_row_ = 0, left_in_row_ = 0;
};

// The same pointer, to a compiler that does not know it. Where it sees that pointers or elements are needed again and again it
// keeps all of them in registers, and spills the sums.
template <typename T>
HWY_INLINE const T* forgotten(const T* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

// Keys of K or V where they lie, in their own element type.
template <typename T>
struct Elements {
  const T* data;
  Index stride;

  HWY_INLINE const T* row(Index index) const { return data + index * stride; }
};

// Four adjacent elements of kD rows as f32, one 128-bit block a row: block b of the result is row `4 * b` of the rows given.
#if HWY_TARGET != HWY_SCALAR
template <typename D, typename T>
HWY_INLINE hn::Vec<D> load_blocks(D d, Elements<T> rows, Index t) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return load_floats(d, rows.data + t);
  } else {
    const hn::Half<D> half;
    constexpr Index kUpper = static_cast<Index>(hn::MaxLanes(half));
    return hn::Combine(d, load_blocks(half, Elements<T>{rows.row(kUpper), rows.stride}, t), load_blocks(half, rows, t));
  }
}

// Four elements, from t on, of kD rows as f32 vectors over rows.
struct Columns {
  DecodeVec x0, x1, x2, x3;
};

// A 4 x 4 transposition in every 128-bit block. Row 4 b + r of the rows lies in lane 4 b + r.
template <typename T>
HWY_INLINE Columns load_columns(Elements<T> rows, Index t) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<DecodeTag>> pairs;
  const T* const first = forgotten(rows.data) + t;
  const auto blocks = [&](Index r) HWY_ATTR {
    return load_blocks(kDecodeTag, Elements<T>{first + r * rows.stride, rows.stride}, 0);
  };
  const DecodeVec a = blocks(0), b = blocks(1), c = blocks(2), d = blocks(3);
  const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeTag, a, b)),
             ab23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeTag, a, b));
  const auto cd01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeTag, c, d)),
             cd23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeTag, c, d));
  return {hn::BitCast(kDecodeTag, hn::InterleaveLower(pairs, ab01, cd01)),
          hn::BitCast(kDecodeTag, hn::InterleaveUpper(pairs, ab01, cd01)),
          hn::BitCast(kDecodeTag, hn::InterleaveLower(pairs, ab23, cd23)),
          hn::BitCast(kDecodeTag, hn::InterleaveUpper(pairs, ab23, cd23))};
}

// Of 16-bit elements 8 rows fit one 128-bit vector: transposed first and converted then, half as much is converted and no
// halves of vectors need joining.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
template <typename T>
requires(sizeof(T) == 2) HWY_INLINE Columns load_columns(Elements<T> rows, Index t) {
  const hn::FixedTag<std::uint16_t, 8> d16;
  const hn::FixedTag<std::uint32_t, 4> d32;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const T* const first = forgotten(rows.data) + t;
  // Two rows' elements alternating: t of both, t + 1 of both …
  const auto two_rows = [&](Index r) HWY_ATTR {
    const auto row = [&](Index index) HWY_ATTR {
      const auto* at = reinterpret_cast<const std::uint16_t*>(first + index * rows.stride);
      return hn::ZeroExtendVector(d16, hn::LoadU(hn::Half<decltype(d16)>(), at));
    };
    return hn::BitCast(d32, hn::InterleaveLower(d16, row(r), row(r + 1)));
  };
  const auto a = two_rows(0), b = two_rows(2), c = two_rows(4), e = two_rows(6);
  const auto ab01 = hn::BitCast(d64, hn::InterleaveLower(d32, a, b)), ab23 = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
  const auto ce01 = hn::BitCast(d64, hn::InterleaveLower(d32, c, e)), ce23 = hn::BitCast(d64, hn::InterleaveUpper(d32, c, e));
  const auto floats = [&](auto column) HWY_ATTR {
    using Stored = std::conditional_t<std::is_same_v<T, Float16>, hwy::float16_t, hwy::bfloat16_t>;
    return hn::PromoteTo(kDecodeTag, hn::BitCast(hn::Rebind<Stored, DecodeTag>(), column));
  };
  return {floats(hn::InterleaveLower(d64, ab01, ce01)), floats(hn::InterleaveUpper(d64, ab01, ce01)),
          floats(hn::InterleaveLower(d64, ab23, ce23)), floats(hn::InterleaveUpper(d64, ab23, ce23))};
}
#endif
#endif

// Scores of kQueries lanes against kGroups * kD keys. query: [head_dim, kQueries]; scores: [kQueries, kKeyBlock].
template <int kQueries, int kGroups, typename T>
HWY_INLINE void score_group(Elements<T> keys, const float* HWY_RESTRICT query, Index head_dim, float* HWY_RESTRICT scores,
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
      const Columns x = load_columns(Elements<T>{keys.row(g * kD), keys.stride}, t);
      const float* again = forgotten(query) + t * kQueries;
      const auto add = [&](DecodeVec column, Index index) HWY_ATTR {
        HWY_UNROLL(8)
        for (int q = 0; q < kQueries; ++q)
          sum[g][q] = hn::MulAdd(column, hn::Set(kDecodeTag, again[index * kQueries + q]), sum[g][q]);
      };
      add(x.x0, 0);
      add(x.x1, 1);
      add(x.x2, 2);
      add(x.x3, 3);
    }
  }
#endif
  for (; t < head_dim; ++t) {
    for (int g = 0; g < kGroups; ++g) {
      HWY_ALIGN float column[kD];
      for (Index r = 0; r < kD; ++r) column[r] = static_cast<float>(keys.row(g * kD + r)[t]);
      const DecodeVec x = hn::Load(kDecodeTag, column);
      for (int q = 0; q < kQueries; ++q) sum[g][q] = hn::MulAdd(x, hn::Set(kDecodeTag, query[t * kQueries + q]), sum[g][q]);
    }
  }
  HWY_UNROLL(8)
  for (int g = 0; g < kGroups; ++g) {
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) hn::StoreU(sum[g][q], kDecodeTag, scores + q * kKeyBlock + g * kD);
  }
}

// The last keys, fewer than kD: one chain each, in the first lane of a vector, so that it is fused where the others are.
template <int kQueries, typename T>
HWY_INLINE void score_rest(Elements<T> keys, Index count, const float* HWY_RESTRICT query, Index head_dim,
                           float* HWY_RESTRICT scores) {
  const hn::CappedTag<float, 1> one;
  for (Index key = 0; key < count; ++key) {
    for (int q = 0; q < kQueries; ++q) {
      auto sum = hn::Zero(one);
      for (Index t = 0; t < head_dim; ++t) {
        const auto x = hn::Set(one, static_cast<float>(keys.row(key)[t]));
        sum = hn::MulAdd(x, hn::Set(one, query[t * kQueries + q]), sum);
      }
      scores[q * kKeyBlock + key] = hn::GetLane(sum);
    }
  }
}

// The softmax step of kQueries lanes over `count` scores each, in place.
template <int kQueries>
HWY_INLINE void decode_softmax(float* HWY_RESTRICT scores, Index count, const SoftmaxState& state, float* HWY_RESTRICT alpha) {
  const Index whole = count / kD * kD;
  for (int q = 0; q < kQueries; ++q) {
    float* HWY_RESTRICT row = scores + q * kKeyBlock;
    DecodeVec highest = hn::Set(kDecodeTag, state.maximum[q]);
    for (Index j = 0; j < whole; j += kD) highest = hn::Max(highest, hn::LoadU(kDecodeTag, row + j));
    HWY_ALIGN float lanes[kD];
    hn::Store(highest, kDecodeTag, lanes);
    float now = lanes[0];
    for (Index l = 1; l < kD; ++l) now = std::max(now, lanes[l]);
    for (Index j = whole; j < count; ++j) now = std::max(now, row[j]);
    const float base = now == kMinusInfinity ? 0.0f : now;
    alpha[q] = hn::GetLane(exp2(kDecodeTag, hn::Set(kDecodeTag, state.maximum[q] - base)));
    // Past `count` lies room to whole vectors; what is computed there is not used.
    for (Index j = 0; j < count; j += kD)
      hn::StoreU(exp2(kDecodeTag, hn::Sub(hn::LoadU(kDecodeTag, row + j), hn::Set(kDecodeTag, base))), kDecodeTag, row + j);
    state.maximum[q] = now;
  }
  // One chain of additions a lane, as in the panels; side by side, because each waits for itself.
  float total[kQueries] = {};
  for (Index j = 0; j < count; ++j) {
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) total[q] += scores[q * kKeyBlock + j];
  }
  for (int q = 0; q < kQueries; ++q) state.sum[q] = state.sum[q] * alpha[q] + total[q];
}

// Keys of V between two steps of asking ahead.
inline constexpr Index kKeysAStep = 4;

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
  const auto add = [&](Index key) HWY_ATTR {
    DecodeVec p[kQueries];
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) p[q] = hn::Set(kDecodeTag, weights[q * kKeyBlock + key]);
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const DecodeVec x = load_floats(kDecodeTag, value + key * stride + v * kD);
      HWY_UNROLL(8)
      for (int q = 0; q < kQueries; ++q) sum[q][v] = hn::MulAdd(x, p[q], sum[q][v]);
    }
  };
  Index key = 0;
  for (; key + kKeysAStep <= count; key += kKeysAStep) {
    ahead.step();
    HWY_UNROLL(4)
    for (Index k = 0; k < kKeysAStep; ++k) add(key + k);
  }
  for (; key < count; ++key) add(key);
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
  if (c.lanes > kDecodeLanes || needs_adjustment(c.problem) || c.problem.drops()) return false;
  return lane_at(c, 0).position == lane_at(c, c.lanes - 1).position ||
         !tile_keys(c, 0, c.padded, 0, c.block.sequence->key_len).limited;
}

// The lanes' queries as [head_dim, lanes], scaled as the panels' are.
HWY_INLINE void pack_decode_queries(const BlockContext& c) {
  const Index dim = c.problem.head_dim;
  float* const row = c.keys;  // not in use yet
  for (Index l = 0; l < c.lanes; ++l) {
    load_query(c, l, row);
    for (Index t = 0; t < dim; ++t) c.packed_query[t * c.lanes + l] = row[t];
  }
}

// How the registers are shared. A sum is a chain of multiply-adds, each waiting for the last (4 cycles, two can start a cycle),
// so 8 chains are the least that keeps the units busy, and 12 of 16 registers leave room for the operands. kPiece keys of K,
// then of V, are worked on while the next are asked for.
template <int kQueries>
struct DecodeTile {
  static constexpr int kGroups = kQueries == 1 ? 4 : 2;
  static constexpr int kVectors = kQueries == 1 ? 8 : (kQueries == 2 ? 4 : 2);
  static constexpr Index kPiece = kGroups * kD;
};

// Keys [begin, end) of K or V as memory, if their elements are adjacent and there are any.
HWY_INLINE Ahead ahead_of(const BlockContext& c, const Strided<const void>& array, Index dim, Index begin, Index end) {
  if (begin >= end || array.strides[3] != 1) return {};
  const auto size = static_cast<Index>(size_of(array.dtype));
  return {static_cast<const char*>(array.data) + key_offset(c, array, begin) * size, dim * size, array.strides[2] * size,
          end - begin};
}

// What is to be read after keys [begin, end) of K in a key block that ends at block_end: the next keys, or the first values.
template <int kQueries>
HWY_INLINE Ahead after_keys(const BlockContext& c, Index block_begin, Index next, Index block_end) {
  constexpr Index kPiece = DecodeTile<kQueries>::kPiece;
  const AttentionProblem& problem = c.problem;
  if (next < block_end) return ahead_of(c, problem.key, problem.head_dim, next, std::min(next + kPiece, block_end));
  return ahead_of(c, problem.value, problem.value_dim, block_begin, std::min(block_begin + kPiece, block_end));
}

// Scores of the keys [begin, end), whose elements are adjacent.
template <int kQueries, typename T>
HWY_INLINE void decode_scores(const BlockContext& c, Elements<T> keys, Index begin, Index end) {
  constexpr Index kPiece = DecodeTile<kQueries>::kPiece;
  const Index dim = c.problem.head_dim, count = end - begin;
  const auto from = [&](Index key) HWY_ATTR { return Elements<T>{keys.row(key), keys.stride}; };
  Index key = 0;
  for (; key + kPiece <= count; key += kPiece) {
    Ahead ahead = after_keys<kQueries>(c, begin, begin + key + kPiece, end);
    ahead.share_out(dim / 4);
    score_group<kQueries, DecodeTile<kQueries>::kGroups>(from(key), c.packed_query, dim, c.scores + key, ahead);
  }
  Ahead none;
  for (; key + kD <= count; key += kD) {
    score_group<kQueries, 1>(from(key), c.packed_query, dim, c.scores + key, none);
  }
  score_rest<kQueries>(from(key), count - key, c.packed_query, dim, c.scores + key);
}

template <int kQueries>
HWY_INLINE void decode_scores(const BlockContext& c, Index begin, Index end) {
  const Strided<const void>& array = c.problem.key;
  const Index offset = key_offset(c, array, begin);
  if (array.strides[3] == 1) {
    with_elements(array.data, array.dtype, offset, [&](const auto* key) HWY_ATTR {
      decode_scores<kQueries>(c, Elements<std::remove_cvref_t<decltype(*key)>>{key, array.strides[2]}, begin, end);
    });
  } else {
    const Rows rows = rows_of(array, offset, end - begin, c.problem.head_dim, c.keys);
    decode_scores<kQueries>(c, Elements<float>{rows.data, rows.stride}, begin, end);
  }
}

// c.state.output, [lanes, value_dim], with the values of one piece added.
template <int kQueries, typename T>
HWY_INLINE void add_values(const BlockContext& c, const T* value, Index stride, Index count, const float* weights,
                           const float* alpha, Ahead ahead) {
  constexpr int kVectors = DecodeTile<kQueries>::kVectors;
  constexpr Index kStep = kVectors * kD;
  const Index dim = c.problem.value_dim;
  float* output = c.state.output;
  ahead.share_out(count / kKeysAStep * (dim / kStep));
  Index t = 0;
  for (; t + kStep <= dim; t += kStep) {
    decode_values<kQueries, kVectors>(value + t, stride, count, weights, alpha, output + t, dim, ahead);
  }
  Ahead none;
  for (; t + kD <= dim; t += kD) {
    decode_values<kQueries, 1>(value + t, stride, count, weights, alpha, output + t, dim, none);
  }
  decode_rest<kQueries>(value + t, stride, dim - t, count, weights, alpha, output + t, dim);
}

template <int kQueries>
HWY_INLINE void decode_output(const BlockContext& c, Index begin, Index end, const Ahead& next_block, const float* alpha) {
  constexpr Index kPiece = DecodeTile<kQueries>::kPiece;
  const Strided<const void>& array = c.problem.value;
  const Index dim = c.problem.value_dim;
  float once[kQueries];
  std::copy_n(alpha, kQueries, once);
  for (Index key = begin; key < end; key += kPiece) {
    const Index next = std::min(key + kPiece, end), count = next - key;
    const Ahead ahead = next < end ? ahead_of(c, array, dim, next, std::min(next + kPiece, end)) : next_block;
    const float* weights = c.scores + (key - begin);
    const Index offset = key_offset(c, array, key);
    if (array.strides[3] == 1) {
      with_elements(array.data, array.dtype, offset, [&](const auto* value) HWY_ATTR {
        add_values<kQueries>(c, value, array.strides[2], count, weights, once, ahead);
      });
    } else {
      const Rows values = rows_of(array, offset, count, dim, c.values);
      add_values<kQueries>(c, values.data, values.stride, count, weights, once, ahead);
    }
    std::fill_n(once, kQueries, 1.0f);
  }
}

// One chunk of keys into c.state; its output is [lanes, value_dim].
HWY_INLINE void walk_decode(const BlockContext& c, KeyRange visible, Index chunk) {
  reset(c, c.state);
  const AttentionProblem& problem = c.problem;
  for_each_key_block(visible, chunk, [&](Index block_begin, Index end) HWY_ATTR {
    const Index begin = std::max(block_begin, visible.begin);  // a window's left end hides the first keys
    with_constant<static_cast<int>(kDecodeLanes)>(c.lanes, [&](auto lanes) HWY_ATTR {
      constexpr Index kPiece = DecodeTile<lanes()>::kPiece;
      float alpha[lanes()];
      decode_scores<lanes()>(c, begin, end);
      decode_softmax<lanes()>(c.scores, end - begin, c.state, alpha);
      decode_output<lanes()>(c, begin, end,
                             ahead_of(c, problem.key, problem.head_dim, end, std::min(end + kPiece, visible.end)), alpha);
    });
    std::fill_n(c.state.seen, c.padded, 1.0f);
  });
}

// As join and finish of the panels, for output that is [lanes, value_dim].
HWY_INLINE void join_decode(const BlockContext& c, const SoftmaxState& total, const SoftmaxState& part) {
  HWY_ALIGN float of_total[kPanelLanes], of_part[kPanelLanes];
  for (Index v = 0; v < c.padded; v += kN) {
    const JoinFactors factors = join_sums(total, part, v);
    hn::Store(factors.of_total, kTag, of_total + v);
    hn::Store(factors.of_part, kTag, of_part + v);
  }
  const Index dim = c.problem.value_dim;
  for (Index l = 0; l < c.lanes; ++l) {
    float* HWY_RESTRICT out = total.output + l * dim;
    const float* HWY_RESTRICT in = part.output + l * dim;
    Index t = 0;
    for (; t + kN <= dim; t += kN) {
      const Vec scaled = hn::Mul(hn::LoadU(kTag, in + t), hn::Set(kTag, of_part[l]));
      hn::StoreU(hn::MulAdd(hn::LoadU(kTag, out + t), hn::Set(kTag, of_total[l]), scaled), kTag, out + t);
    }
    const hn::CappedTag<float, 1> one;
    for (; t < dim; ++t) {
      const auto scaled = hn::Set(one, in[t] * of_part[l]);
      out[t] = hn::GetLane(hn::MulAdd(hn::Set(one, out[t]), hn::Set(one, of_total[l]), scaled));
    }
  }
}

HWY_INLINE void finish_decode(const BlockContext& c, const SoftmaxState& state) {
  HWY_ALIGN float factor[kPanelLanes];
  divide(c, state, 0, c.padded, factor);
  for (Index l = 0; l < c.lanes; ++l) {
    write_result(c, l, state.output + l * c.problem.value_dim, factor[l], state.maximum[l], state.sum[l]);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
