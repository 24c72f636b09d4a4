// Element types: what a tensor may hold, and the two 16-bit floating types as plain structs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "multihead/export.h"

namespace multihead {

/// Element type of a tensor. Attention computes on kF32, kF16 and kBF16; the others exist for files, masks and lengths.
enum class DType : std::uint8_t { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBF16, kF32, kF64 };

/// Bytes of one element.
MULTIHEAD_API std::size_t size_of(DType dtype);

/// Short name: "f32", "bf16", "bool", "i64" …
MULTIHEAD_API std::string_view name_of(DType dtype);

/// The inverse of name_of; nothing for an unknown name.
MULTIHEAD_API std::optional<DType> parse_dtype(std::string_view name);

/// True for the types that attention computes on: f32, f16, bf16.
constexpr bool is_attention_dtype(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

/// IEEE binary16. Converts to float exactly, from float by round to nearest even.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  MULTIHEAD_API explicit Float16(float value);
  MULTIHEAD_API explicit operator float() const;
  static constexpr Float16 from_bits(std::uint16_t bits) {
    Float16 value;
    value.bits = bits;
    return value;
  }
};

/// The upper half of an IEEE binary32. Converts to float exactly, from float by round to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & 0x7FFFFFFFu) > 0x7F800000u) {
      bits = static_cast<std::uint16_t>((wide >> 16) | 0x40u);  // truncation alone could turn a NaN into Inf
    } else {
      bits = static_cast<std::uint16_t>((wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 value;
    value.bits = bits;
    return value;
  }
};

namespace detail {
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
}  // namespace detail

/// The DType of a C++ element type.
template <typename T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

}  // namespace multihead
