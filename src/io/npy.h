// .npy from any source of bytes; the public functions add the file.
#pragma once

#include "io/file.h"
#include "multihead/tensor.h"

namespace multihead {

/// As the public function. Throws FormatError; IoError from the source.
Tensor read_npy(const ByteSource& source);

}  // namespace multihead
