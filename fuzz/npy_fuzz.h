// What must hold for any bytes given to the .npy reader. Throws when it does not; the fuzzer and the tests both call it.
#pragma once

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "io/npy.h"
#include "io/npy_header.h"
#include "io/text.h"

namespace multihead {

/// Any bytes are read or refused with FormatError; what was read survives being written and read again.
/// Returns whether they were read.
inline bool fuzz_npy(std::span<const unsigned char> bytes) {
  Tensor tensor;
  try {
    tensor = read_npy(MemoryBytes(bytes, "fuzz.npy"));
  } catch (const FormatError& error) {
    const std::string_view text = error.what();
    if (!is_utf8(text) || text.find('\n') != std::string_view::npos)
      throw std::logic_error("the error is not one line of UTF-8");
    return false;
  }
  const std::size_t size = static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
  if (size > bytes.size()) throw std::logic_error("more data than the file has");
  std::string written = npy_header(tensor.dtype(), tensor.shape());
  written.append(tensor.data<char>(), size);
  const Tensor again =
      read_npy(MemoryBytes({reinterpret_cast<const unsigned char*>(written.data()), written.size()}, "again.npy"));
  if (again.dtype() != tensor.dtype() || !(again.shape() == tensor.shape()) ||
      std::memcmp(again.data<void>(), tensor.data<void>(), size) != 0) {
    throw std::logic_error("another tensor after writing and reading");
  }
  return true;
}

}  // namespace multihead
