#include "io/safetensors_types.h"

#include <algorithm>
#include <array>

namespace multihead {
namespace {

constexpr std::array<SafetensorsType, 22> kTypes{{
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"BOOL", 8, DType::kBool},
    {"U8", 8, DType::kU8},
    {"I8", 8, DType::kI8},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, DType::kI16},
    {"U16", 16, DType::kU16},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"U32", 32, DType::kU32},
    {"F32", 32, DType::kF32},
    {"C64", 64, {}},
    {"F64", 64, DType::kF64},
    {"I64", 64, DType::kI64},
    {"U64", 64, DType::kU64},
}};

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(), [&](const SafetensorsType& type) { return type.name == name; });
  return row == kTypes.end() ? nullptr : row;
}

std::string_view safetensors_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const SafetensorsType& type) { return type.dtype == dtype; })->name;
}

}  // namespace multihead
