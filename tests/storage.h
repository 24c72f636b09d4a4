// The same values in other memory: every kind of strides, surrounded by poison, or up against a page that must not be touched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::test {

enum class Layout {
  kDense,
  kTransposed,     ///< last two axes exchanged in memory
  kSequenceMajor,  ///< [batch, length, heads, dim] in memory (rank 4), [batch, length, heads] (rank 3)
  kReversed,       ///< all strides negative
  kPaddedRows,     ///< 3 foreign elements behind every row, 5 behind every plane
  kEverySecond,    ///< last stride 2
  kShifted,        ///< dense, but begins one element behind an aligned address
};

inline constexpr std::array<std::pair<Layout, const char*>, 7> kLayouts{{{Layout::kDense, "dense"},
                                                                         {Layout::kTransposed, "transposed"},
                                                                         {Layout::kSequenceMajor, "sequence major"},
                                                                         {Layout::kReversed, "reversed"},
                                                                         {Layout::kPaddedRows, "padded rows"},
                                                                         {Layout::kEverySecond, "every second"},
                                                                         {Layout::kShifted, "shifted"}}};

/// Values laid out in one of these ways. Every other byte of the buffer, also in front and behind, is 0xFF: NaN in each
/// floating type, "true" in a mask.
class Stored {
 public:
  Stored(const ConstTensorView& values, Layout layout) {
    const int rank = values.rank();
    std::vector<int> order(static_cast<std::size_t>(rank));  // axes from the outermost to the innermost
    for (int axis = 0; axis < rank; ++axis) order[static_cast<std::size_t>(axis)] = axis;
    if (layout == Layout::kTransposed && rank >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
    if (layout == Layout::kSequenceMajor && rank >= 3) std::swap(order[1], order[2]);

    Dims strides = values.shape;
    Index stride = layout == Layout::kEverySecond ? 2 : 1;
    for (std::size_t at = order.size(); at-- > 0;) {
      strides[order[at]] = stride;
      stride *= std::max<Index>(values.shape[order[at]], 1);
      if (layout == Layout::kPaddedRows) stride += at + 1 == order.size() ? 3 : 5;
    }
    Index first = layout == Layout::kShifted ? kMargin + 1 : kMargin;
    const Index count = stride + 2 * kMargin + 1;
    if (layout == Layout::kReversed) {
      for (int axis = 0; axis < rank; ++axis) {
        first += strides[axis] * (std::max<Index>(values.shape[axis], 1) - 1);
        strides[axis] = -strides[axis];
      }
    }
    memory_ = Tensor::uninitialized(values.dtype, {count});
    std::memset(memory_.data<unsigned char>(), kPoison, static_cast<std::size_t>(count) * size_of(values.dtype));
    view_ = TensorView(memory_.view().offset_by(first), values.dtype, values.shape, strides);
    copy_elements(values);
  }

  const TensorView& view() const { return view_; }
  operator TensorView() const { return view_; }       // NOLINT: implicit on purpose
  operator ConstTensorView() const { return view_; }  // NOLINT: implicit on purpose

  /// Whether all bytes that are not elements still hold the poison.
  bool surroundings_intact() const {
    const std::size_t size = size_of(view_.dtype);
    const auto* bytes = memory_.data<unsigned char>();
    std::vector<bool> is_element(static_cast<std::size_t>(memory_.size()), false);
    for (const Index offset : offsets_of(view_)) {
      is_element[static_cast<std::size_t>((static_cast<const unsigned char*>(view_.data) - bytes)) / size +
                 static_cast<std::size_t>(offset)] = true;
    }
    for (std::size_t n = 0; n < is_element.size() * size; ++n) {
      if (!is_element[n / size] && bytes[n] != kPoison) return false;
    }
    return true;
  }

  /// Offsets of all elements in row-major order.
  template <typename View>
  static std::vector<Index> offsets_of(const View& view) {
    std::vector<Index> offsets{0};
    for (int axis = 0; axis < view.rank(); ++axis) {
      std::vector<Index> next;
      for (const Index base : offsets) {
        for (Index i = 0; i < view.shape[axis]; ++i) next.push_back(base + i * view.strides[axis]);
      }
      offsets = std::move(next);
    }
    return offsets;
  }

 private:
  static constexpr Index kMargin = 64;
  static constexpr unsigned char kPoison = 0xFF;

  void copy_elements(const ConstTensorView& values) {
    const std::size_t size = size_of(values.dtype);
    const std::vector<Index> from = offsets_of(values), to = offsets_of(view_);
    for (std::size_t n = 0; n < from.size(); ++n) std::memcpy(view_.offset_by(to[n]), values.offset_by(from[n]), size);
  }

  Tensor memory_;
  TensorView view_;
};

/// Memory between two pages that cannot be read.
class GuardedMemory {
 public:
  enum class Side { kBehind, kBefore };

  explicit GuardedMemory(std::size_t capacity) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    capacity_ = (capacity + page_ - 1) / page_ * page_;
    memory_ = mmap(nullptr, capacity_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED || mprotect(first(), capacity_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(memory_, capacity_ + 2 * page_); }

  /// A dense copy of the values (at most the capacity) that ends where the page behind begins, or begins where the page before
  /// ends. Replaces what was placed earlier.
  TensorView place(const ConstTensorView& values, Side side = Side::kBehind) {
    const Tensor dense = Tensor::copy_of(values);
    const std::size_t bytes = static_cast<std::size_t>(values.size()) * size_of(values.dtype);
    std::memset(first(), 0xFF, capacity_);
    unsigned char* data = side == Side::kBehind ? first() + (capacity_ - bytes) : first();
    if (bytes > 0) std::memcpy(data, dense.data<unsigned char>(), bytes);
    return {data, values.dtype, values.shape};
  }

 private:
  unsigned char* first() const { return static_cast<unsigned char*>(memory_) + page_; }

  std::size_t page_, capacity_ = 0;
  void* memory_ = nullptr;
};

}  // namespace multihead::test
