#include "io/npy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/atomic_file.h"
#include "io/dense.h"
#include "io/npy_header.h"
#include "multihead/io.h"

namespace multihead {
namespace {

void swap_bytes(unsigned char* data, std::size_t bytes, std::size_t size) {
  for (std::size_t at = 0; at < bytes; at += size) std::reverse(data + at, data + at + size);
}

// The view that shows column-major memory in logical order. Not for empty shapes: their strides could overflow.
ConstTensorView fortran_view(const void* data, DType dtype, const Dims& shape) {
  Dims strides = shape;
  Index stride = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return {data, dtype, shape, strides};
}

// bf16 is the upper half of an f32, so widening is exact.
void write_widened(AtomicFile& file, const void* data, std::size_t bytes) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  const auto* from = static_cast<const unsigned char*>(data);
  const std::size_t count = bytes / sizeof(BFloat16);
  std::vector<float> wide(std::min(count, kBlock));
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t part = std::min(count - begin, kBlock);
    for (std::size_t i = 0; i < part; ++i) {
      BFloat16 narrow;
      std::memcpy(&narrow, from + (begin + i) * sizeof(narrow), sizeof(narrow));
      wide[i] = static_cast<float>(narrow);
    }
    file.write(wide.data(), part * sizeof(float));
  }
}

}  // namespace

Tensor read_npy(const ByteSource& source) {
  const NpyHeader header = read_npy_header(source);
  Tensor tensor = Tensor::uninitialized(header.dtype, header.shape);
  auto* data = tensor.data<unsigned char>();
  const auto bytes = static_cast<std::size_t>(header.data_bytes);
  source.read(header.data_begin, data, bytes);
  if (header.swapped) swap_bytes(data, bytes, size_of(header.dtype));
  // A bool that is neither 0 nor 1 in memory is undefined behaviour; NumPy takes every other byte for true, too.
  if (header.dtype == DType::kBool) std::transform(data, data + bytes, data, [](unsigned char byte) { return byte != 0; });
  if (!header.fortran_order || bytes == 0) return tensor;
  return Tensor::copy_of(fortran_view(data, header.dtype, header.shape));
}

Tensor read_npy(const std::filesystem::path& path) { return read_npy(File(path)); }

void write_npy(const std::filesystem::path& path, const ConstTensorView& view) {
  require_readable("write_npy", view);
  const bool widen = view.dtype == DType::kBF16;
  AtomicFile file(path);
  const std::string header = npy_header(widen ? DType::kF32 : view.dtype, view.shape);
  file.write(header.data(), header.size());
  for_each_block(view, [&](const void* data, std::size_t bytes) {
    if (widen) {
      write_widened(file, data, bytes);
    } else {
      file.write(data, bytes);
    }
  });
  file.commit();
}

}  // namespace multihead
