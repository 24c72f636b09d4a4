// Getting query, key and value into the form that the tiles read, and results out of it, for one Highway target.
#if defined(MULTIHEAD_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_ROWS_INL_H_
#undef MULTIHEAD_KERNELS_ROWS_INL_H_
#else
#define MULTIHEAD_KERNELS_ROWS_INL_H_
#endif

#include <cstring>

#include "kernels/problem.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// One row of `count` elements, `stride` apart, as f32.
HWY_INLINE void load_row(const void* data, DType dtype, Index offset, Index stride, Index count, float* HWY_RESTRICT out) {
  Index t = 0;
  if (dtype == DType::kF32) {
    const float* HWY_RESTRICT in = static_cast<const float*>(data) + offset;
    if (stride == 1) {
      std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(float));
    } else {
      for (; t < count; ++t) out[t] = in[t * stride];
    }
  } else if (dtype == DType::kF16) {
    const auto* HWY_RESTRICT in = static_cast<const Float16*>(data) + offset;
    const hn::Rebind<hwy::float16_t, FloatTag> half;
    for (; stride == 1 && t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) {
      hn::StoreU(hn::PromoteTo(kTag, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(in + t))), kTag, out + t);
    }
    for (; t < count; ++t) out[t] = static_cast<float>(in[t * stride]);
  } else {
    const auto* HWY_RESTRICT in = static_cast<const BFloat16*>(data) + offset;
    const hn::Rebind<hwy::bfloat16_t, FloatTag> half;
    for (; stride == 1 && t + static_cast<Index>(kLanes) <= count; t += static_cast<Index>(kLanes)) {
      hn::StoreU(hn::PromoteTo(kTag, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(in + t))), kTag, out + t);
    }
    for (; t < count; ++t) out[t] = static_cast<float>(in[t * stride]);
  }
}

// Rows [begin, end) of one head of K or V as the tiles want them: in place when they are f32, dense and adjacent, else copied to
// `scratch`. Rows that lie apart (interleaved heads) are copied too: their strides are powers of two, so that a block's rows
// would fall into one set of the cache.
HWY_INLINE Rows rows_of(const Strided<const void>& array, Index offset, Index count, Index dim, float* HWY_RESTRICT scratch) {
  if (array.dtype == DType::kF32 && (array.strides[3] == 1 || dim == 1) && array.strides[2] == dim) {
    return {static_cast<const float*>(array.data) + offset, dim};
  }
  for (Index row = 0; row < count; ++row) {
    load_row(array.data, array.dtype, offset + row * array.strides[2], array.strides[3], dim, scratch + row * dim);
  }
  return {scratch, dim};
}

// Whether any of the elements is NaN or infinite: x * 0 is then NaN, and stays it in the sum.
HWY_INLINE bool all_finite(Rows rows, Index count, Index dim) {
  Vec sum = hn::Zero(kTag);
  float tail = 0;
  for (Index r = 0; r < count; ++r) {
    const float* HWY_RESTRICT row = rows.row(r);
    Index t = 0;
    for (; t + static_cast<Index>(kLanes) <= dim; t += static_cast<Index>(kLanes)) {
      sum = hn::MulAdd(hn::LoadU(kTag, row + t), hn::Zero(kTag), sum);
    }
    for (; t < dim; ++t) tail += row[t] * 0.0f;
  }
  return tail == 0.0f && hn::AllTrue(kTag, hn::Eq(sum, hn::Zero(kTag)));
}

HWY_INLINE void store_element(const Strided<void>& array, Index offset, float value) {
  switch (array.dtype) {
    case DType::kF32: static_cast<float*>(array.data)[offset] = value; break;
    case DType::kF16: static_cast<Float16*>(array.data)[offset] = Float16(value); break;
    default: static_cast<BFloat16*>(array.data)[offset] = BFloat16(value); break;
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
