// The element types of safetensors files.
#pragma once

#include <optional>
#include <string_view>

#include "multihead/dtype.h"

namespace multihead {

struct SafetensorsType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;  ///< absent for those that a Tensor cannot hold
};

/// Null for an unknown name.
const SafetensorsType* find_safetensors_type(std::string_view name);

/// "F32", "BF16" …
std::string_view safetensors_name(DType dtype);

}  // namespace multihead
