#include "multihead/tensor.h"

#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/message.h"

namespace multihead {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(DType dtype, const Dims& shape) {
  const Index count = shape.product();
  const auto size = static_cast<Index>(size_of(dtype));
  require(count <= (INT64_MAX - 64) / size, "Tensor: shape ", shape, " of ", name_of(dtype), " has too many bytes");
  return static_cast<std::size_t>(count * size);
}

// Calls visit(offset in view, position in dense order) for every element, in row-major order.
template <typename Visit>
void for_each_element(const ConstTensorView& view, Visit visit) {
  const Index count = view.size();
  if (count == 0) return;
  const int rank = view.rank();
  Dims at = view.shape;
  for (int axis = 0; axis < rank; ++axis) at[axis] = 0;
  Index offset = 0;
  for (Index position = 0; position < count; ++position) {
    visit(offset, position);
    for (int axis = rank - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++at[axis] < view.shape[axis]) break;
      offset -= view.strides[axis] * view.shape[axis];
      at[axis] = 0;
    }
  }
}

template <typename T>
T from_double(double value) {
  return static_cast<T>(value);
}

// To float by rounding to odd: what lies between two floats goes to the one whose last bit is 1. Rounded again to 16 bits, that
// gives what one rounding gives, because it never turns into the middle of two 16-bit numbers what was not in the middle.
float to_float_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  // The other neighbour of value has an odd last bit: away from zero if nearest is too small in size, else towards it.
  const bool too_small = std::abs(static_cast<double>(nearest)) < std::abs(value);
  return std::bit_cast<float>(too_small ? bits + 1 : bits - 1);
}

template <>
Float16 from_double<Float16>(double value) {
  return Float16(to_float_odd(value));
}
template <>
BFloat16 from_double<BFloat16>(double value) {
  return BFloat16(to_float_odd(value));
}

template <typename T>
void convert_into(const ConstTensorView& view, T* out) {
  for_each_element(view, [&](Index offset, Index position) { out[position] = from_double<T>(load_as_double(view, offset)); });
}

}  // namespace

Dims::Dims(std::span<const Index> values) {
  require(values.size() <= kMaxRank, "Dims: expected at most ", kMaxRank, " axes; got ", values.size());
  rank_ = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

Index Dims::product() const {
  Index product = 1;
  bool overflow = false;
  for (const Index extent : *this) {
    require(extent >= 0, "shape ", *this, ": expected no negative extent; got ", extent);
    overflow = __builtin_mul_overflow(product, extent, &product) || overflow;
  }
  if (overflow && std::find(begin(), end(), 0) != end()) return 0;
  require(!overflow, "shape ", *this, " has more elements than 63 bits count");
  return product;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(dims[axis]);
  }
  return text + "]";
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  Index stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    // Saturates instead of overflowing: such a shape is refused where its size is taken.
    if (__builtin_mul_overflow(stride, std::max<Index>(shape[axis], 1), &stride)) stride = INT64_MAX;
  }
  return strides;
}

namespace {

// Large tensors ask for large pages: what reads through caches and weights once, decoding above all, otherwise spends a part of
// its time on looking up 4 KiB pages (5 % of the read bandwidth on a virtual machine). A wish: where it is not granted nothing
// changes.
void* allocate(std::size_t bytes) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= 2 * kLargePage ? kLargePage : kAlignment;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, rounded) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (alignment == kLargePage) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace

void Tensor::Free::operator()(void* memory) const { std::free(memory); }

Tensor::Tensor(DType dtype, const Dims& shape) {
  *this = uninitialized(dtype, shape);
  std::memset(memory_.get(), 0, bytes_of(dtype, shape));
}

Tensor Tensor::uninitialized(DType dtype, const Dims& shape) {
  const std::size_t bytes = std::max(bytes_of(dtype, shape), std::size_t{1});
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.memory_.reset(allocate(bytes));
  if (tensor.memory_ == nullptr) throw std::bad_alloc();
  return tensor;
}

Tensor Tensor::copy_of(const ConstTensorView& view) {
  Tensor copy = uninitialized(view.dtype, view.shape);
  const std::size_t size = size_of(view.dtype);
  auto* out = copy.data<unsigned char>();
  if (view.size() == 0) return copy;
  if (view.is_contiguous()) {
    std::memcpy(out, view.data, size * static_cast<std::size_t>(view.size()));
    return copy;
  }
  const auto* in = static_cast<const unsigned char*>(view.data);
  for_each_element(view, [&](Index offset, Index position) {
    std::memcpy(out + position * static_cast<Index>(size), in + offset * static_cast<Index>(size), size);
  });
  return copy;
}

Tensor Tensor::converted(const ConstTensorView& view, DType dtype) {
  if (view.dtype == dtype) return copy_of(view);
  Tensor result = uninitialized(dtype, view.shape);
  switch (dtype) {
    case DType::kBool:
      convert_into(view, result.data<bool>());
      break;
    case DType::kU8:
      convert_into(view, result.data<std::uint8_t>());
      break;
    case DType::kI8:
      convert_into(view, result.data<std::int8_t>());
      break;
    case DType::kU16:
      convert_into(view, result.data<std::uint16_t>());
      break;
    case DType::kI16:
      convert_into(view, result.data<std::int16_t>());
      break;
    case DType::kU32:
      convert_into(view, result.data<std::uint32_t>());
      break;
    case DType::kI32:
      convert_into(view, result.data<std::int32_t>());
      break;
    case DType::kU64:
      convert_into(view, result.data<std::uint64_t>());
      break;
    case DType::kI64:
      convert_into(view, result.data<std::int64_t>());
      break;
    case DType::kF16:
      convert_into(view, result.data<Float16>());
      break;
    case DType::kBF16:
      convert_into(view, result.data<BFloat16>());
      break;
    case DType::kF32:
      convert_into(view, result.data<float>());
      break;
    case DType::kF64:
      convert_into(view, result.data<double>());
      break;
  }
  return result;
}

Tensor Tensor::reshaped(const Dims& shape) && {
  require(shape.product() == size(), "Tensor::reshaped: expected ", size(), " elements as in ", shape_, "; got ", shape);
  Tensor result = std::move(*this);
  result.shape_ = shape;
  return result;
}

double load_as_double(const ConstTensorView& view, Index offset) {
  switch (view.dtype) {
    case DType::kBool:
      return view.as<std::uint8_t>()[offset] != 0 ? 1.0 : 0.0;
    case DType::kU8:
      return view.as<std::uint8_t>()[offset];
    case DType::kI8:
      return view.as<std::int8_t>()[offset];
    case DType::kU16:
      return view.as<std::uint16_t>()[offset];
    case DType::kI16:
      return view.as<std::int16_t>()[offset];
    case DType::kU32:
      return view.as<std::uint32_t>()[offset];
    case DType::kI32:
      return view.as<std::int32_t>()[offset];
    case DType::kU64:
      return static_cast<double>(view.as<std::uint64_t>()[offset]);
    case DType::kI64:
      return static_cast<double>(view.as<std::int64_t>()[offset]);
    case DType::kF16:
      return static_cast<float>(view.as<Float16>()[offset]);
    case DType::kBF16:
      return static_cast<float>(view.as<BFloat16>()[offset]);
    case DType::kF32:
      return view.as<float>()[offset];
    case DType::kF64:
      return view.as<double>()[offset];
  }
  return 0;
}

}  // namespace multihead
