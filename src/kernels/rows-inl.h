// Getting query, key and value into the form that the tiles read, and results out of it, for one Highway target.
#if defined(MULTIHEAD_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_ROWS_INL_H_
#undef MULTIHEAD_KERNELS_ROWS_INL_H_
#else
#define MULTIHEAD_KERNELS_ROWS_INL_H_
#endif

#include "kernels/problem.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// Whether PromoteTo of f16 is the processor's own. Highway's substitute for older ones reads infinities and NaN as numbers from
// 65536 up, and -inf in a bias must hide its pair.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
inline constexpr bool kConvertsHalf = false;
#else
inline constexpr bool kConvertsHalf = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;
#endif

// Whole vectors of f32 from memory of any of the three types.
template <typename D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* at) {
  return hn::LoadU(d, at);
}
template <typename D>
HWY_INLINE hn::Vec<D> load_floats(D d, const Float16* at) {
  if constexpr (!kConvertsHalf) {
    HWY_ALIGN float converted[hn::MaxLanes(d)];
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) converted[i] = static_cast<float>(at[i]);
    return hn::Load(d, converted);
  }
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(at)));
}
template <typename D>
HWY_INLINE hn::Vec<D> load_floats(D d, const BFloat16* at) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), reinterpret_cast<const hwy::bfloat16_t*>(at)));
}

template <typename T>
HWY_INLINE void load_elements(const T* HWY_RESTRICT in, Index stride, Index count, float* HWY_RESTRICT out) {
  Index t = 0;
  for (; stride == 1 && t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) {
    hn::StoreU(load_floats(kTag, in + t), kTag, out + t);
  }
  for (; t < count; ++t) out[t] = static_cast<float>(in[t * stride]);
}

// Calls with a pointer of the array's own element type, moved by `offset` elements.
template <typename Call>
HWY_INLINE void with_elements(const void* data, DType dtype, Index offset, const Call& call) {
  switch (dtype) {
    case DType::kF32:
      call(static_cast<const float*>(data) + offset);
      break;
    case DType::kF16:
      call(static_cast<const Float16*>(data) + offset);
      break;
    default:
      call(static_cast<const BFloat16*>(data) + offset);
      break;
  }
}

// One row of `count` elements, `stride` apart, as f32.
HWY_INLINE void load_row(const void* data, DType dtype, Index offset, Index stride, Index count, float* HWY_RESTRICT out) {
  with_elements(data, dtype, offset, [&](const auto* in) HWY_ATTR { load_elements(in, stride, count, out); });
}

// Whether the tiles can read the rows where they lie.
HWY_INLINE bool is_dense(const Strided<const void>& array, Index dim) {
  return array.dtype == DType::kF32 && (array.strides[3] == 1 || dim == 1) && array.strides[2] == dim;
}

// Rows [begin, end) of one head of K or V as the tiles want them: in place when they are f32, dense and adjacent, else copied
// to `scratch`. Rows that lie apart (interleaved heads) are copied too: their strides are powers of two, so that a block's rows
// would fall into one set of the cache.
HWY_INLINE Rows rows_of(const Strided<const void>& array, Index offset, Index count, Index dim, float* HWY_RESTRICT scratch) {
  if (is_dense(array, dim)) {
    return {static_cast<const float*>(array.data) + offset, dim};
  }
  for (Index row = 0; row < count; ++row) {
    load_row(array.data, array.dtype, offset + row * array.strides[2], array.strides[3], dim, scratch + row * dim);
  }
  return {scratch, dim};
}

// Whether any of the elements is NaN or infinite: x * 0 is then NaN, and stays it in the sum. Four sums, because one would wait
// for itself.
HWY_INLINE bool all_finite(Rows rows, Index count, Index dim) {
  constexpr int kSums = 4;
  constexpr Index kStep = static_cast<Index>(kLanes);
  const Vec zero = hn::Zero(kTag);
  Vec sum[kSums] = {zero, zero, zero, zero};
  float tail = 0;
  for (Index r = 0; r < count; ++r) {
    const float* HWY_RESTRICT row = rows.row(r);
    Index t = 0;
    for (; t + kSums * kStep <= dim; t += kSums * kStep) {
      HWY_UNROLL(4)
      for (int i = 0; i < kSums; ++i) sum[i] = hn::MulAdd(hn::LoadU(kTag, row + t + i * kStep), zero, sum[i]);
    }
    for (; t + kStep <= dim; t += kStep) sum[0] = hn::MulAdd(hn::LoadU(kTag, row + t), zero, sum[0]);
    for (; t < dim; ++t) tail += row[t] * 0.0f;
  }
  const Vec total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return tail == 0.0f && hn::AllTrue(kTag, hn::Eq(total, zero));
}

#if HWY_TARGET != HWY_SCALAR  // which has no blocks of four
// The blocks of four in a vector: the first to out(column), the next to out(column + 4), …
template <typename D, typename Out>
HWY_INLINE void store_blocks(D d, hn::Vec<D> blocks, Index column, const Out& out) {
  if constexpr (hn::MaxLanes(d) == 4) {
    hn::StoreU(blocks, d, out(column));
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, blocks), column, out);
    store_blocks(half, hn::UpperHalf(half, blocks), column + static_cast<Index>(hn::MaxLanes(half)), out);
  }
}

// Four rows of a vector of columns each: load(row) gives the vector, out(column) is where a column's four elements go.
template <typename D, typename Load, typename Out>
HWY_INLINE void transpose_vectors(D d, const Load& load, const Out& out) {
  const hn::Repartition<std::uint64_t, D> pair;
  const auto a = load(0), b = load(1), c = load(2), e = load(3);
  // In each block of four columns: elements 0 0 1 1 and 2 2 3 3 of two rows, then a column of four.
  const auto ab01 = hn::BitCast(pair, hn::InterleaveLower(d, a, b)), ab23 = hn::BitCast(pair, hn::InterleaveUpper(d, a, b));
  const auto ce01 = hn::BitCast(pair, hn::InterleaveLower(d, c, e)), ce23 = hn::BitCast(pair, hn::InterleaveUpper(d, c, e));
  store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pair, ab01, ce01)), 0, out);
  store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pair, ab01, ce01)), 1, out);
  store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pair, ab23, ce23)), 2, out);
  store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pair, ab23, ce23)), 3, out);
}
#endif

// Calls work(tag, first column) for whole vectors of `count` columns, then for blocks of four. Returns the first column left.
template <typename Work>
HWY_INLINE Index for_each_vector_of_columns(Index count, const Work& work) {
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) work(kTag, t);
  for (; t + 4 <= count; t += 4) work(hn::FixedTag<float, 4>(), t);
#endif
  return t;
}

// out[column * out_stride + row] = in[row * in_stride + column] for `rows` <= 4 rows and `count` columns.
HWY_INLINE void transpose_rows(const float* HWY_RESTRICT in, Index in_stride, Index rows, Index count, float* HWY_RESTRICT out,
                               Index out_stride) {
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  if (rows == 4) {
    t = for_each_vector_of_columns(count, [&](auto d, Index first) HWY_ATTR {
      transpose_vectors(
          d, [&](Index row) HWY_ATTR { return hn::LoadU(d, in + row * in_stride + first); },
          [&](Index column) HWY_ATTR { return out + (first + column) * out_stride; });
    });
  }
#endif
  for (; t < count; ++t) {
    for (Index r = 0; r < rows; ++r) out[t * out_stride + r] = in[r * in_stride + t];
  }
}

// A factor wider than f32, as high + low parts: x * factor is then rounded about once.
struct WideFactor {
  float high, low;

  explicit WideFactor(double factor)
      : high(static_cast<float>(factor)), low(static_cast<float>(factor - static_cast<double>(high))) {}

  template <typename D>
  HWY_INLINE hn::Vec<D> times(D d, hn::Vec<D> x) const {
    return hn::MulAdd(x, hn::Set(d, high), hn::Mul(x, hn::Set(d, low)));
  }
  HWY_INLINE float times(float x) const {
    const hn::CappedTag<float, 1> one;
    return hn::GetLane(times(one, hn::Set(one, x)));
  }
};

// row *= factor.
HWY_INLINE void multiply_row(float* HWY_RESTRICT row, Index count, const WideFactor& factor) {
  Index t = 0;
  for (; t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) {
    hn::StoreU(factor.times(kTag, hn::LoadU(kTag, row + t)), kTag, row + t);
  }
  for (; t < count; ++t) row[t] = factor.times(row[t]);
}

// out[column * out_stride + r] = rows[r][column] * factor for `height` <= 4 rows.
HWY_INLINE void transpose_times(const float* const (&rows)[4], Index height, Index count, const WideFactor& factor,
                                float* HWY_RESTRICT out, Index out_stride) {
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  if (height == 4) {
    t = for_each_vector_of_columns(count, [&](auto d, Index first) HWY_ATTR {
      transpose_vectors(
          d, [&](Index r) HWY_ATTR { return factor.times(d, hn::LoadU(d, rows[r] + first)); },
          [&](Index column) HWY_ATTR { return out + (first + column) * out_stride; });
    });
  }
#endif
  for (; t < count; ++t) {
    for (Index r = 0; r < height; ++r) out[t * out_stride + r] = factor.times(rows[r][t]);
  }
}

// rows[lane][t] = panel[t][lane] * factors[lane] + 0 for a panel [dims, width]. + 0: as in store_row.
HWY_INLINE void transpose_panel(const float* HWY_RESTRICT panel, Index dims, Index width, const float* HWY_RESTRICT factors,
                                float* const* rows) {
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; t + 4 <= dims; t += 4) {
    for (Index lane = 0; lane < width; lane += static_cast<Index>(kLanes)) {
      const Vec factor = hn::LoadU(kTag, factors + lane);
      transpose_vectors(
          kTag,
          [&](Index row)
              HWY_ATTR { return hn::Add(hn::Mul(hn::LoadU(kTag, panel + (t + row) * width + lane), factor), hn::Zero(kTag)); },
          [&](Index column) HWY_ATTR { return rows[lane + column] + t; });
    }
  }
#endif
  for (; t < dims; ++t) {
    for (Index lane = 0; lane < width; ++lane) rows[lane][t] = panel[t * width + lane] * factors[lane] + 0.0f;
  }
}

// One row of results, times `factor`, to where it belongs. + 0 makes of -0 a 0: the one trace that a different cut of the keys
// could leave.
HWY_INLINE void store_row(const float* HWY_RESTRICT row, Index count, float factor, const Strided<void>& array, Index offset) {
  const Index stride = array.strides[3];
  switch (array.dtype) {
    case DType::kF32: {
      float* HWY_RESTRICT out = static_cast<float*>(array.data) + offset;
      Index t = 0;
      for (; stride == 1 && t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) {
        const Vec x = hn::Mul(hn::LoadU(kTag, row + t), hn::Set(kTag, factor));
        hn::StoreU(hn::Add(x, hn::Zero(kTag)), kTag, out + t);
      }
      for (; t < count; ++t) out[t * stride] = row[t] * factor + 0.0f;
      break;
    }
    case DType::kF16: {
      auto* HWY_RESTRICT out = static_cast<Float16*>(array.data) + offset;
      for (Index t = 0; t < count; ++t) out[t * stride] = Float16(row[t] * factor + 0.0f);
      break;
    }
    default: {
      auto* HWY_RESTRICT out = static_cast<BFloat16*>(array.data) + offset;
      for (Index t = 0; t < count; ++t) out[t * stride] = BFloat16(row[t] * factor + 0.0f);
      break;
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
