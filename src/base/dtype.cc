#include "multihead/dtype.h"

#include <array>
#include <cmath>

namespace multihead {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DTypeRow, 13> kDTypes{{
    {DType::kBool, "bool", 1},
    {DType::kU8, "u8", 1},
    {DType::kI8, "i8", 1},
    {DType::kU16, "u16", 2},
    {DType::kI16, "i16", 2},
    {DType::kU32, "u32", 4},
    {DType::kI32, "i32", 4},
    {DType::kU64, "u64", 8},
    {DType::kI64, "i64", 8},
    {DType::kF16, "f16", 2},
    {DType::kBF16, "bf16", 2},
    {DType::kF32, "f32", 4},
    {DType::kF64, "f64", 8},
}};

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

Float16::Float16(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (wide >> 16) & 0x8000u;
  const std::uint32_t magnitude = wide & 0x7FFFFFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);  // quiet NaN, payload kept as far as it fits
  } else if (magnitude >= 0x477FF000u) {
    half = 0x7C00u;  // 65520 and more round to infinity
  } else if (magnitude < 0x38800000u) {
    // Below the smallest normal, 2^-14: the result counts units of 2^-24. Adding 0.5 puts that unit at the end of the
    // float's significand, so the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    half = (rounded - 0x38000000u) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

Float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  const float subnormal = std::ldexp(static_cast<float>(fraction), -24);
  return sign != 0 ? -subnormal : subnormal;
}

}  // namespace multihead
