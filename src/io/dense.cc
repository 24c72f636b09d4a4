#include "io/dense.h"

#include <cstring>
#include <vector>

#include "base/message.h"

namespace multihead {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;

// `count` elements that lie `stride` elements apart, packed. memcpy: nobody promises that a view is aligned.
template <std::size_t kSize>
void pack(const unsigned char* from, Index stride, Index count, unsigned char* to) {
  const Index step = stride * static_cast<Index>(kSize);
  for (Index i = 0; i < count; ++i) std::memcpy(to + i * static_cast<Index>(kSize), from + i * step, kSize);
}

void pack(const unsigned char* from, Index stride, Index count, std::size_t size, unsigned char* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  switch (size) {
    case 1:
      return pack<1>(from, stride, count, to);
    case 2:
      return pack<2>(from, stride, count, to);
    case 4:
      return pack<4>(from, stride, count, to);
    default:
      return pack<8>(from, stride, count, to);
  }
}

}  // namespace

std::optional<std::uint64_t> bits_of(const Dims& shape, unsigned bits_per_element) {
  for (const Index extent : shape) {
    if (extent == 0) return 0;
  }
  std::uint64_t bits = bits_per_element;
  for (const Index extent : shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits)) return std::nullopt;
  }
  return bits;
}

void require_readable(const std::string& where, const ConstTensorView& view) {
  for (const Index extent : view.shape) {
    require(extent >= 0, where, ": expected no negative extent; got shape ", to_string(view.shape));
  }
  const auto bits = bits_of(view.shape, 8 * static_cast<unsigned>(size_of(view.dtype)));
  require(bits.has_value() && *bits / 8 <= INT64_MAX / 2, where, ": shape ", to_string(view.shape), " has too many bytes");
  require(view.data != nullptr || *bits == 0, where, ": expected memory for shape ", to_string(view.shape),
          "; got a null pointer");
}

void for_each_block(const ConstTensorView& view, const std::function<void(const void* data, std::size_t bytes)>& visit) {
  const Index total = view.size();
  const std::size_t size = size_of(view.dtype);
  if (total == 0) return;
  if (view.is_contiguous()) return visit(view.data, static_cast<std::size_t>(total) * size);

  const int last = view.rank() - 1;  // a view of rank 0 is contiguous
  const Index row = view.shape[last];
  const auto capacity = static_cast<Index>(std::min(kBlockBytes, static_cast<std::size_t>(total) * size) / size);
  std::vector<unsigned char> block(static_cast<std::size_t>(capacity) * size);
  Index filled = 0;
  Dims at = view.shape;
  std::fill_n(&at[0], at.rank(), 0);
  Index offset = 0;
  for (Index rows = total / row; rows > 0; --rows) {
    for (Index i = 0; i < row;) {
      const Index count = std::min(row - i, capacity - filled);
      pack(static_cast<const unsigned char*>(view.offset_by(offset + i * view.strides[last])), view.strides[last], count, size,
           block.data() + filled * static_cast<Index>(size));
      i += count;
      filled += count;
      if (filled == capacity) {
        visit(block.data(), block.size());
        filled = 0;
      }
    }
    for (int axis = last - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++at[axis] < view.shape[axis]) break;
      offset -= view.strides[axis] * view.shape[axis];
      at[axis] = 0;
    }
  }
  if (filled > 0) visit(block.data(), static_cast<std::size_t>(filled) * size);
}

}  // namespace multihead
