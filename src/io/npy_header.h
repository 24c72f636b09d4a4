// The header of a .npy file: a Python dict literal with the keys descr, fortran_order and shape.
// Source: NumPy, numpy/lib/_format_impl.py and NEP 1; https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"
#include "multihead/tensor.h"

namespace multihead {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool swapped = false;  ///< elements lie in the other byte order than this machine's
  bool fortran_order = false;
  Dims shape;
  std::uint64_t data_begin = 0;
  std::uint64_t data_bytes = 0;  ///< exactly the rest of the file
};

/// Parses and checks the header against the size of the file; reads no data. Throws FormatError.
NpyHeader read_npy_header(const ByteSource& source);

/// Everything before the data, version 1.0, padded so that data begin at a multiple of 64. kBF16 has no code: throws
/// InvalidArgument.
std::string npy_header(DType dtype, const Dims& shape);

}  // namespace multihead
