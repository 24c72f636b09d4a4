#include "multihead/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "random_inputs.h"

namespace multihead::test {
namespace {

constexpr std::array kAll{DType::kBool, DType::kU8,  DType::kI8,  DType::kU16,  DType::kI16, DType::kU32, DType::kI32,
                          DType::kU64,  DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

TEST(DType, NamesAndSizes) {
  for (const DType dtype : kAll) EXPECT_EQ(parse_dtype(name_of(dtype)), dtype) << name_of(dtype);
  EXPECT_EQ(name_of(DType::kBF16), "bf16");
  EXPECT_EQ(size_of(DType::kBool), 1u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
  for (const char* unknown : {"", "F32", "f32 ", "float", "f8", "bf1"}) EXPECT_FALSE(parse_dtype(unknown)) << unknown;
  for (const DType dtype : kAll) {
    EXPECT_EQ(is_attention_dtype(dtype), dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16)
        << name_of(dtype);
  }
}

// The value of an f16 by the definition of binary16.
double half_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
  if (exponent == 0x1F) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryBitPatternToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half = Float16::from_bits(static_cast<std::uint16_t>(bits));
    const float value = static_cast<float>(half);
    const double right = half_value(half.bits);
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Float16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), right) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(Float16(value).bits, bits);
  }
}

// Between two neighbouring numbers: the middle goes to the even one, a hair beside it to the nearer one.
template <typename Narrow>
void expect_nearest_even(std::uint16_t lower_bits, float lower, float upper) {
  const float middle = static_cast<float>((static_cast<double>(lower) + static_cast<double>(upper)) / 2);
  const auto even = static_cast<std::uint16_t>(lower_bits + (lower_bits & 1u));
  const auto upper_bits = static_cast<std::uint16_t>(lower_bits + 1);
  ASSERT_EQ(Narrow(middle).bits, even) << middle;
  ASSERT_EQ(Narrow(std::nextafter(middle, 0.0f)).bits, lower_bits) << middle;
  ASSERT_EQ(Narrow(std::nextafter(middle, HUGE_VALF)).bits, upper_bits) << middle;
  ASSERT_EQ(Narrow(-middle).bits, even | 0x8000u) << middle;
}

TEST(Float16, RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    expect_nearest_even<Float16>(bits, static_cast<float>(Float16::from_bits(bits)),
                                 static_cast<float>(Float16::from_bits(next)));
  }
  EXPECT_EQ(Float16(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(Float16(std::nextafter(65520.0f, 0.0f)).bits, 0x7BFF);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(Float16(-HUGE_VALF).bits, 0xFC00);
  EXPECT_EQ(Float16(std::numeric_limits<float>::max()).bits, 0x7C00);
  EXPECT_EQ(Float16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(Float16(-0.0f).bits, 0x8000);
}

TEST(BFloat16, RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7F7F; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    expect_nearest_even<BFloat16>(bits, static_cast<float>(BFloat16::from_bits(bits)),
                                  static_cast<float>(BFloat16::from_bits(next)));
  }
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7F80) << "rounds up to infinity";
  EXPECT_EQ(BFloat16(HUGE_VALF).bits, 0x7F80);
  EXPECT_EQ(BFloat16(-0.0f).bits, 0x8000);
}

TEST(BFloat16, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7F80FFFFu, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(static_cast<float>(Float16(nan)))) << bits;
  }
}

}  // namespace
}  // namespace multihead::test
