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

// Asked for where nothing comes next.
alignas(kLine) inline constexpr char kNowhere[kLine] = {};

// The piece of K or V that comes after the one at work, asked for line by line: it is read in tiles that the hardware's own
// prefetchers do not recognise as a stream (without this a third of the bandwidth was reached). One line is asked for as one is
// read: four or sixteen at once waited for each other and lost a tenth of the bandwidth (docs/design/0002-kernels.md).
class Ahead {
 public:
  Ahead() = default;
  Ahead(const void* data, Index row_bytes, Index stride_bytes, Index rows) : line_(static_cast<const char*>(data)) {
    const bool adjacent = row_bytes == stride_bytes;  // then all is one long row
    row_bytes_ = adjacent ? row_bytes * rows : row_bytes;
    rows_after_ = adjacent ? 0 : rows - 1;
    stride_bytes_ = stride_bytes;
    row_end_ = line_ + row_bytes_;
  }

  // The next kLines lines of a row; after the last ones, those again and again.
  template <int kLines>
  HWY_INLINE const char* next() {
    const char* const lines = line_;
    line_ += kLines * kLine;
    if (line_ >= row_end_) {
      const bool last = rows_after_ == 0;
      rows_after_ -= last ? 0 : 1;
      row_end_ += last ? 0 : stride_bytes_;
      line_ = last ? lines : row_end_ - row_bytes_;
    }
    return lines;
  }

 private:
  const char *line_ = kNowhere, *row_end_ = kNowhere + kLine;
  Index row_bytes_ = kLine, rows_after_ = 0, stride_bytes_ = 0;
};

// Compilers would gather requests in one place: each stays where it is written.
HWY_INLINE void ask_for(const char* line) {
  asm volatile("" : "+r"(line));
  hwy::Prefetch(line);
}

// The same pointer, to a compiler that knows neither it nor what lies there. Where it sees that pointers or elements are needed
// again and again it keeps all of them in registers, and spills the sums; what was just stored it would not load.
template <typename T>
HWY_INLINE const T* forgotten(const T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

// Keys of K or V where they lie, in their own element type.
template <typename T>
struct Elements {
  const T* data;
  Index stride;

  HWY_INLINE const T* row(Index index) const { return data + index * stride; }
};

// Columns of K that are turned together: 16 bytes of a row.
template <typename T>
inline constexpr Index kColumns = 16 / static_cast<Index>(sizeof(T));

#if HWY_TARGET != HWY_SCALAR
using DecodeBits = hn::RebindToUnsigned<DecodeTag>;
inline constexpr DecodeBits kDecodeBits;

// load(row) of every fourth row, one 128-bit block each: block b of the result is row 4 b.
template <typename D, typename Load>
HWY_INLINE hn::Vec<D> load_blocks(D d, Index row, const Load& load) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) == 16) {
    return load(d, row);
  } else {
    const hn::Half<D> half;
    constexpr Index kUpper = kD / 2;
    return hn::Combine(d, load_blocks(half, row + kUpper, load), load_blocks(half, row, load));
  }
}

// Four vectors over kD rows: a 4 x 4 transposition in every 128-bit block. Row 4 b + r of the rows lies in lane 4 b + r.
struct Turned {
  hn::Vec<DecodeBits> x[4];
};

template <typename Load>
HWY_INLINE Turned turn(const Load& load) {
  const hn::RepartitionToWide<DecodeBits> pairs;
  const auto blocks = [&](Index row) HWY_ATTR { return load_blocks(kDecodeBits, row, load); };
  const auto a = blocks(0), b = blocks(1), c = blocks(2), d = blocks(3);
  const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeBits, a, b)),
             ab23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeBits, a, b));
  const auto cd01 = hn::BitCast(pairs, hn::InterleaveLower(kDecodeBits, c, d)),
             cd23 = hn::BitCast(pairs, hn::InterleaveUpper(kDecodeBits, c, d));
  return {{hn::BitCast(kDecodeBits, hn::InterleaveLower(pairs, ab01, cd01)),
           hn::BitCast(kDecodeBits, hn::InterleaveUpper(pairs, ab01, cd01)),
           hn::BitCast(kDecodeBits, hn::InterleaveLower(pairs, ab23, cd23)),
           hn::BitCast(kDecodeBits, hn::InterleaveUpper(pairs, ab23, cd23))}};
}

// 16 bytes of a row as they are.
template <typename T>
HWY_INLINE Turned turn_bytes(Elements<T> rows, Index t) {
  const T* const first = forgotten(rows.data) + t;
  return turn([&](auto d, Index row) HWY_ATTR {
    const hn::Repartition<std::uint8_t, decltype(d)> bytes;
    return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(first + row * rows.stride)));
  });
}

// Calls add(group, index, column) for the columns t + index of kGroups * kD rows, as f32, index ascending. bf16 travels as
// pairs of columns, and is f32 as soon as the other of the pair is gone.
template <int kGroups, typename T, typename Add>
HWY_INLINE void for_each_column(Elements<T> rows, Index t, const Add& add) {
  HWY_UNROLL(8)
  for (int g = 0; g < kGroups; ++g) {
    const Turned turned = turn_bytes(Elements<T>{rows.row(g * kD), rows.stride}, t);
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        add(g, i, hn::BitCast(kDecodeTag, turned.x[i]));
      } else {
        add(g, 2 * i, hn::BitCast(kDecodeTag, hn::ShiftLeft<16>(turned.x[i])));
        add(g, 2 * i + 1, hn::BitCast(kDecodeTag, hn::And(turned.x[i], hn::Set(kDecodeBits, 0xffff0000u))));
      }
    }
  }
}

// f16 has to be adjacent to be converted. Two groups are turned as 16-bit numbers, which fill their vectors, and converted on
// the way back from memory, where that costs no more than a load.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE void turn_halves(Elements<Float16> rows, Index t, std::uint16_t* HWY_RESTRICT turned) {
  const hn::FixedTag<std::uint16_t, 16> d16;
  const hn::FixedTag<std::uint32_t, 8> d32;
  const hn::FixedTag<std::uint64_t, 4> d64;
  const Float16* const first = forgotten(rows.data) + t;
  const auto block = [&](Index row) HWY_ATTR {
    const auto load = [&](Index index) HWY_ATTR {
      return hn::LoadU(hn::Half<decltype(d16)>(), reinterpret_cast<const std::uint16_t*>(first + index * rows.stride));
    };
    return hn::Combine(d16, load(row + kD), load(row));
  };
  // Of rows r … r + 3: the elements t … t + 3 of all four, two to a vector, then t + 4 … t + 7.
  const auto four_rows = [&](Index r, auto& lower, auto& upper) HWY_ATTR {
    const auto a = block(r), b = block(r + 1), c = block(r + 2), d = block(r + 3);
    const auto ab_lower = hn::BitCast(d32, hn::InterleaveLower(d16, a, b));
    const auto ab_upper = hn::BitCast(d32, hn::InterleaveUpper(d16, a, b));
    const auto cd_lower = hn::BitCast(d32, hn::InterleaveLower(d16, c, d));
    const auto cd_upper = hn::BitCast(d32, hn::InterleaveUpper(d16, c, d));
    lower[0] = hn::BitCast(d64, hn::InterleaveLower(d32, ab_lower, cd_lower));
    lower[1] = hn::BitCast(d64, hn::InterleaveUpper(d32, ab_lower, cd_lower));
    upper[0] = hn::BitCast(d64, hn::InterleaveLower(d32, ab_upper, cd_upper));
    upper[1] = hn::BitCast(d64, hn::InterleaveUpper(d32, ab_upper, cd_upper));
  };
  hn::Vec<decltype(d64)> first_lower[2], first_upper[2], last_lower[2], last_upper[2];
  four_rows(0, first_lower, first_upper);
  four_rows(4, last_lower, last_upper);
  const auto store = [&](Index column, const auto& a, const auto& b) HWY_ATTR {
    hn::Store(hn::BitCast(d16, hn::InterleaveLower(d64, a, b)), d16, turned + 2 * kD * column);
    hn::Store(hn::BitCast(d16, hn::InterleaveUpper(d64, a, b)), d16, turned + 2 * kD * (column + 1));
  };
  store(0, first_lower[0], last_lower[0]);
  store(2, first_lower[1], last_lower[1]);
  store(4, first_upper[0], last_upper[0]);
  store(6, first_upper[1], last_upper[1]);
}
#endif

template <int kGroups, typename Add>
HWY_INLINE void for_each_column(Elements<Float16> rows, Index t, const Add& add) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (kGroups % 2 == 0) {
    HWY_UNROLL(8)
    for (int g = 0; g < kGroups; g += 2) {
      alignas(32) std::uint16_t turned[2 * kD * kColumns<Float16>];
      turn_halves({rows.row(g * kD), rows.stride}, t, turned);
      const auto* column = reinterpret_cast<const Float16*>(forgotten(turned));
      HWY_UNROLL(8)
      for (int i = 0; i < kColumns<Float16>; ++i, column += 2 * kD) {
        add(g, i, load_floats(kDecodeTag, column));
        add(g + 1, i, load_floats(kDecodeTag, column + kD));
      }
    }
    return;
  }
#endif
  for (int g = 0; g < kGroups; ++g) {
    const Float16* const first = forgotten(rows.row(g * kD)) + t;
    for (Index at = 0; at < kColumns<Float16>; at += 4) {
      const Turned turned = turn([&](auto d, Index row) HWY_ATTR {
        return hn::BitCast(d, load_floats(hn::RebindToFloat<decltype(d)>(), first + row * rows.stride + at));
      });
      for (int i = 0; i < 4; ++i) add(g, at + i, hn::BitCast(kDecodeTag, turned.x[i]));
    }
  }
}
#endif

// Scores of kQueries lanes against kGroups * kD keys. query: [head_dim, kQueries]; scores: [kQueries, kKeyBlock].
template <int kQueries, int kGroups, typename T>
HWY_INLINE void score_group(Elements<T> keys, const float* HWY_RESTRICT query, Index head_dim, float* HWY_RESTRICT scores,
                            [[maybe_unused]] Ahead ahead) {
  DecodeVec sum[kGroups][kQueries];
  HWY_UNROLL(8)
  for (int g = 0; g < kGroups; ++g) {
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) sum[g][q] = hn::Zero(kDecodeTag);
  }
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; t + kColumns<T> <= head_dim; t += kColumns<T>) {
    constexpr int kLines = static_cast<int>(kGroups * 16 * kD / kLine);
    const char* const lines = ahead.next<kLines>();
    const float* again = forgotten(query + t * kQueries);
    // Inlined by command: GCC would do it too late to see that the sums fit into registers, and a quarter slower.
    const auto add = [&](int g, Index index, DecodeVec column) HWY_ATTR __attribute__((always_inline)) {
      constexpr Index kColumnsALine = kColumns<T> * kGroups / kLines;
      if (index % kColumnsALine == 0) ask_for(lines + (g * kColumns<T> + index) / kColumnsALine * kLine);
      HWY_UNROLL(8)
      for (int q = 0; q < kQueries; ++q)
        sum[g][q] = hn::MulAdd(column, hn::Set(kDecodeTag, again[index * kQueries + q]), sum[g][q]);
    };
    for_each_column<kGroups>(keys, t, add);
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

// output[q][t] = output * alpha + sum over keys of weight * value, for kVectors vectors of dimensions. weights: [kQueries,
// kKeyBlock].
template <int kQueries, int kVectors, typename T>
HWY_INLINE void decode_values(const T* HWY_RESTRICT value, Index stride, Index count, const float* HWY_RESTRICT weights,
                              const float* alpha, float* HWY_RESTRICT output, Index output_stride, Ahead& ahead) {
  // Lines are asked for in fours, as far as four keys have as many.
  constexpr int kUnrolled = 4, kBytes = kVectors * static_cast<int>(kD * static_cast<Index>(sizeof(T)));  // of a key
  constexpr int kKeysAsked = std::clamp<int>(4 * kLine / kBytes, 1, kUnrolled);
  constexpr int kLines = std::max<int>(1, kKeysAsked * kBytes / kLine);
  constexpr int kVectorsALine = kKeysAsked * kVectors / kLines;
  DecodeVec sum[kQueries][kVectors];
  HWY_UNROLL(8)
  for (int q = 0; q < kQueries; ++q) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      sum[q][v] = hn::Mul(hn::LoadU(kDecodeTag, output + q * output_stride + v * kD), hn::Set(kDecodeTag, alpha[q]));
    }
  }
  const char* lines = nullptr;
  const auto add = [&](Index key, int index) HWY_ATTR {
    if (index == 0) lines = ahead.next<kLines>();
    DecodeVec p[kQueries];
    HWY_UNROLL(8)
    for (int q = 0; q < kQueries; ++q) p[q] = hn::Set(kDecodeTag, weights[q * kKeyBlock + key]);
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const int vector = index * kVectors + v;
      if (vector % kVectorsALine == 0) ask_for(lines + vector / kVectorsALine * kLine);
      const DecodeVec x = load_floats(kDecodeTag, value + key * stride + v * kD);
      HWY_UNROLL(8)
      for (int q = 0; q < kQueries; ++q) sum[q][v] = hn::MulAdd(x, p[q], sum[q][v]);
    }
  };
  Index key = 0;
  for (; key + kUnrolled <= count; key += kUnrolled) {
    HWY_UNROLL(4)
    for (int k = 0; k < kUnrolled; ++k) add(key + k, k % kKeysAsked);
  }
  for (; key < count; ++key) add(key, 0);
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
// so 8 chains are the least that keeps the units busy, and 12 of 16 registers leave room for the operands.
template <int kQueries>
inline constexpr int kValueVectors = kQueries == 1 ? 8 : (kQueries == 2 ? 4 : 2);

// Keys or values that are worked on while the next are asked for.
inline constexpr Index kPiece = 2 * kD;

// One query has only as many chains as groups of kD keys, and four groups are an eighth faster than two while keys come from a
// cache. From memory two are faster, by a tenth for 16 bit and a fifth for f32: four rows of kD keys and the next four do not
// stay in L1 until they are read (docs/design/0002-kernels.md). Nor do rows that lie apart, as a rule by powers of two. f32 has
// two always: from a cache they cost one thread less than a tenth, and two threads nothing.
HWY_INLINE bool has_wide_pieces(const BlockContext& c) {
  constexpr Index kCached = 32 << 20;  // bytes
  const AttentionProblem& problem = c.problem;
  const auto size = static_cast<Index>(size_of(problem.key.dtype));
  if (c.lanes > 1 || size != 2 || problem.key.strides[2] != problem.head_dim) return false;
  const Index keys = static_cast<Index>(problem.sequences.size()) * c.block.sequence->key_len;
  return keys * (problem.num_heads / problem.group) * (problem.head_dim + problem.value_dim) * size <= kCached;
}

// Keys [begin, end) of K or V as memory, if their elements are adjacent and there are any.
HWY_INLINE Ahead ahead_of(const BlockContext& c, const Strided<const void>& array, Index dim, Index begin, Index end) {
  if (begin >= end || array.strides[3] != 1) return {};
  const auto size = static_cast<Index>(size_of(array.dtype));
  return {static_cast<const char*>(array.data) + key_offset(c, array, begin) * size, dim * size, array.strides[2] * size,
          end - begin};
}

// The first keys, or values, of the key block that begins at `begin`.
HWY_INLINE Ahead first_keys(const BlockContext& c, Index begin, Index end) {
  return ahead_of(c, c.problem.key, c.problem.head_dim, begin, std::min(begin + kPiece, end));
}
HWY_INLINE Ahead first_values(const BlockContext& c, Index begin, Index end) {
  return ahead_of(c, c.problem.value, c.problem.value_dim, begin, std::min(begin + kPiece, end));
}

// Scores of the keys [begin, end), whose elements are adjacent. The values of the same keys are wanted next.
template <int kQueries, int kGroups, typename T>
HWY_INLINE void decode_scores(const BlockContext& c, Elements<T> keys, Index begin, Index end) {
  constexpr Index kRows = kGroups * kD;
  const Index dim = c.problem.head_dim, count = end - begin;
  const auto from = [&](Index key) HWY_ATTR { return Elements<T>{keys.row(key), keys.stride}; };
  Index key = 0;
  for (; key + kRows <= count; key += kRows) {
    const Index next = begin + key + kRows;
    Ahead ahead = next < end ? ahead_of(c, c.problem.key, dim, next, std::min(next + kRows, end)) : first_values(c, begin, end);
    score_group<kQueries, kGroups>(from(key), c.packed_query, dim, c.scores + key, ahead);
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
      const Elements<std::remove_cvref_t<decltype(*key)>> keys{key, array.strides[2]};
      if constexpr (kQueries == 1 && sizeof(*key) == 2) {
        if (has_wide_pieces(c)) return decode_scores<1, 4>(c, keys, begin, end);
      }
      decode_scores<kQueries, 2>(c, keys, begin, end);
    });
  } else {
    const Rows rows = rows_of(array, offset, end - begin, c.problem.head_dim, c.keys);
    decode_scores<kQueries, 2>(c, Elements<float>{rows.data, rows.stride}, begin, end);
  }
}

// c.state.output, [lanes, value_dim], with the values of one piece added.
template <int kQueries, typename T>
HWY_INLINE void add_values(const BlockContext& c, const T* value, Index stride, Index count, const float* weights,
                           const float* alpha, Ahead ahead) {
  constexpr int kVectors = kValueVectors<kQueries>;
  constexpr Index kStep = kVectors * kD;
  const Index dim = c.problem.value_dim;
  float* output = c.state.output;
  Index t = 0;
  for (; t + kStep <= dim; t += kStep) {
    decode_values<kQueries, kVectors>(value + t, stride, count, weights, alpha, output + t, dim, ahead);
  }
  for (; t + kD <= dim; t += kD) {
    decode_values<kQueries, 1>(value + t, stride, count, weights, alpha, output + t, dim, ahead);
  }
  decode_rest<kQueries>(value + t, stride, dim - t, count, weights, alpha, output + t, dim);
}

template <int kQueries>
HWY_INLINE void decode_output(const BlockContext& c, Index begin, Index end, const Ahead& next_block, const float* alpha) {
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
  for_each_key_block(visible, chunk, [&](Index block_begin, Index end) HWY_ATTR {
    const Index begin = std::max(block_begin, visible.begin);  // a window's left end hides the first keys
    with_constant<static_cast<int>(kDecodeLanes)>(c.lanes, [&](auto lanes) HWY_ATTR {
      float alpha[lanes()];
      decode_scores<lanes()>(c, begin, end);
      decode_softmax<lanes()>(c.scores, end - begin, c.state, alpha);
      decode_output<lanes()>(c, begin, end, first_keys(c, end, visible.end), alpha);
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
