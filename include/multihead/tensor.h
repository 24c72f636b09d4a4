// Tensors: views that never own, with a shape and strides in elements, and one owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "multihead/dtype.h"
#include "multihead/error.h"
#include "multihead/export.h"

namespace multihead {

/// Signed 64-bit everywhere: 24,000 positions of 700 heads of 128 already pass 2^31 elements.
using Index = std::int64_t;

/// A short list of extents or strides, at most kMaxRank of them.
class MULTIHEAD_API Dims {
 public:
  static constexpr int kMaxRank = 8;

  Dims() = default;
  Dims(std::initializer_list<Index> values) : Dims(std::span<const Index>(values.begin(), values.size())) {}
  /// Throws InvalidArgument for more than kMaxRank values.
  explicit Dims(std::span<const Index> values);

  int rank() const { return rank_; }
  Index operator[](int axis) const { return values_[static_cast<std::size_t>(axis)]; }
  Index& operator[](int axis) { return values_[static_cast<std::size_t>(axis)]; }
  const Index* begin() const { return values_.data(); }
  const Index* end() const { return values_.data() + rank_; }

  /// Number of elements (1 for rank 0). Throws InvalidArgument when an extent is negative or the product overflows.
  Index product() const;

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  std::array<Index, kMaxRank> values_{};
  int rank_ = 0;
};

/// "[2, 3, 4]".
MULTIHEAD_API std::string to_string(const Dims& dims);

/// Strides of a dense row-major tensor of this shape.
MULTIHEAD_API Dims contiguous_strides(const Dims& shape);

/// A non-owning view: pointer, element type, shape, strides in elements. Strides may be 0 (broadcast) or negative.
/// `Void` is `void` for views that may be written through and `const void` for those that may not.
template <typename Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  Dims shape;
  Dims strides;

  BasicTensorView() = default;
  BasicTensorView(Void* memory, DType type, const Dims& dims) : BasicTensorView(memory, type, dims, contiguous_strides(dims)) {}
  BasicTensorView(Void* memory, DType type, const Dims& dims, const Dims& steps)
      : data(memory), dtype(type), shape(dims), strides(steps) {}
  /// A dense view of typed memory, e.g. `TensorView(pointer, {batch, num_heads, length, head_dim})`.
  template <typename T>
  requires(!std::is_void_v<T> && std::is_convertible_v<T*, Void*>) BasicTensorView(T* memory, const Dims& dims)
      : BasicTensorView(memory, dtype_of<std::remove_const_t<T>>, dims) {}
  /// Writable views convert to read-only ones.
  template <typename Other>
  requires(std::is_const_v<Void> && !std::is_const_v<Other>)
      BasicTensorView(const BasicTensorView<Other>& other)  // NOLINT: implicit on purpose
      : BasicTensorView(other.data, other.dtype, other.shape, other.strides) {}

  int rank() const { return shape.rank(); }
  Index size() const { return shape.product(); }
  bool is_contiguous() const {
    if (size() == 0) return true;
    const Dims dense = contiguous_strides(shape);
    for (int axis = 0; axis < rank(); ++axis) {
      if (shape[axis] != 1 && strides[axis] != dense[axis]) return false;
    }
    return true;
  }

  /// The element type's pointer. The caller vouches for T.
  template <typename T>
  auto* as() const {
    return static_cast<std::conditional_t<std::is_const_v<Void>, const T*, T*>>(data);
  }
  /// One element; no bounds check.
  template <typename T, typename... Indices>
  auto& at(Indices... indices) const {
    const std::array<Index, sizeof...(Indices)> where{static_cast<Index>(indices)...};
    Index offset = 0;
    for (std::size_t axis = 0; axis < where.size(); ++axis) offset += where[axis] * strides[static_cast<int>(axis)];
    return as<T>()[offset];
  }
  /// The same elements with two axes exchanged; no copy.
  BasicTensorView transposed(int a, int b) const {
    BasicTensorView view = *this;
    std::swap(view.shape[a], view.shape[b]);
    std::swap(view.strides[a], view.strides[b]);
    return view;
  }
  /// Positions [begin, end) of one axis; no copy, no bounds check.
  BasicTensorView slice(int axis, Index begin, Index end) const {
    BasicTensorView view = *this;
    view.data = offset_by(begin * strides[axis]);
    view.shape[axis] = end - begin;
    return view;
  }
  /// The view moved by `elements` elements, as a pointer.
  Void* offset_by(Index elements) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const unsigned char, unsigned char>;
    if (data == nullptr) return nullptr;
    return static_cast<Byte*>(data) + elements * static_cast<Index>(size_of(dtype));
  }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

/// A dense row-major tensor that owns its memory, aligned to 64 bytes. Move-only; copy with `copy()`.
class MULTIHEAD_API Tensor {
 public:
  Tensor() = default;
  /// All elements zero. Throws InvalidArgument for a negative extent or an overflowing size, std::bad_alloc without memory.
  Tensor(DType dtype, const Dims& shape);
  /// Same without touching the memory, for results that are about to be written whole.
  static Tensor uninitialized(DType dtype, const Dims& shape);
  /// Dense copy of any view, strides and all.
  static Tensor copy_of(const ConstTensorView& view);
  /// Dense copy converted to another floating type (bool, integers and f64 convert too), rounding to nearest even.
  static Tensor converted(const ConstTensorView& view, DType dtype);

  Tensor copy() const { return copy_of(*this); }
  DType dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index size() const { return shape_.product(); }
  bool empty() const { return memory_ == nullptr; }
  template <typename T>
  T* data() {
    return static_cast<T*>(memory_.get());
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(memory_.get());
  }
  /// The same memory under another shape of equal size. Throws InvalidArgument otherwise.
  Tensor reshaped(const Dims& shape) &&;

  TensorView view() { return {memory_.get(), dtype_, shape_}; }
  ConstTensorView view() const { return {memory_.get(), dtype_, shape_}; }
  operator TensorView() { return view(); }             // NOLINT: implicit on purpose
  operator ConstTensorView() const { return view(); }  // NOLINT: implicit on purpose

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  DType dtype_ = DType::kF32;
  Dims shape_;
};

/// Reads one element of any dtype as double. `offset` in elements. For references and tests, not for loops that matter.
MULTIHEAD_API double load_as_double(const ConstTensorView& view, Index offset);

}  // namespace multihead
