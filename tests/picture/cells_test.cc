// Cells: domains from values, paint at and beyond their ends, and states that a grey copy keeps apart.
#include "picture/cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "picture/picture_testing.h"

namespace multihead::picture_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Cells cells_with(std::vector<float> values) {
  const auto count = static_cast<Index>(values.size());
  return {1, count, std::move(values), std::vector<CellKind>(static_cast<std::size_t>(count))};
}

TEST(CellsDomain, LinearIsAllOfP) {
  const Domain domain = domain_for(ScaleKind::kLinear, cells_with({0.2f, 0.3f}));
  EXPECT_EQ(domain.low, 0);
  EXPECT_EQ(domain.high, 1);
}

TEST(CellsDomain, LogIsWholeBitsFromThePercentile) {
  // 91 values from -10.05 up, and ten far below, which are no more than a tenth.
  std::vector<float> values(10, -200);
  for (int i = 0; i < 91; ++i) values.push_back(-10.05f + 0.11f * static_cast<float>(i));
  Domain domain = domain_for(ScaleKind::kLog, cells_with(values));
  EXPECT_EQ(domain.low, -11);
  EXPECT_EQ(domain.high, 0);
  domain = domain_for(ScaleKind::kLog, cells_with({-7.5f, -7.4f, -7.3f}));
  EXPECT_EQ(domain.low, -11) << "at least four bits";
  EXPECT_EQ(domain.high, -7);
  domain = domain_for(ScaleKind::kLog, cells_with({-100, -90, -80, -2.5f}));
  EXPECT_EQ(domain.low, -22) << "at most 20 bits";
  EXPECT_EQ(domain.high, -2);
}

TEST(CellsDomain, LiftIsSymmetric) {
  const Domain domain = domain_for(ScaleKind::kLift, cells_with({-30, -3.2f, -2, -1, 2.5f}));
  EXPECT_EQ(domain.low, -domain.high);
  EXPECT_EQ(domain.high, 4) << "three quarters of the sizes 1, 2, 2.5, 3.2, 30 reach 3.2";
  EXPECT_EQ(domain_for(ScaleKind::kLift, cells_with({-1, -1, -1, 5.5f})).high, 6) << "the positive ones keep their colours";
  EXPECT_EQ(domain_for(ScaleKind::kLift, cells_with({0.1f})).high, 1);
  EXPECT_EQ(domain_for(ScaleKind::kLift, cells_with({-90, -90})).high, 12);
}

TEST(CellsDomain, IgnoresWhatIsNoValue) {
  Cells cells = cells_with({-3, -kInfinity, -900, std::nanf("")});
  cells.kinds[2] = CellKind::kMasked;
  cells.kinds[3] = CellKind::kNonFinite;
  const Domain domain = domain_for(ScaleKind::kLog, cells);
  EXPECT_EQ(domain.low, -7);
  EXPECT_EQ(domain.high, -3);
  EXPECT_LT(domain_for(ScaleKind::kLog, cells_with({-kInfinity})).low, 0) << "no finite value at all";
}

TEST(CellsPaint, EndsOfTheDomain) {
  const ValueScale scale{ScaleKind::kLog, {-8, -2}};
  const Palette& palette = scale.palette();
  EXPECT_EQ(paint_of(scale, -8).color, palette.step(0));
  EXPECT_EQ(paint_of(scale, -2).color, palette.step(255));
  EXPECT_EQ(paint_of(scale, -5).color, palette.at(0.5));
  EXPECT_EQ(paint_of(scale, -1.99).color, palette.over());
  EXPECT_EQ(paint_of(scale, -8.01).kind, CellKind::kBelow);
  EXPECT_EQ(paint_of(scale, -kInfinity).kind, CellKind::kBelow) << "an exact zero";
  EXPECT_EQ(paint_of(scale, std::nan("")).kind, CellKind::kNonFinite);
  EXPECT_TRUE(scale.has_below() && scale.has_above());
  EXPECT_FALSE((ValueScale{ScaleKind::kLinear, {0, 1}}.has_above()));
  EXPECT_FALSE((ValueScale{ScaleKind::kLinear, {0, 1}}.has_below()));
  EXPECT_FALSE((ValueScale{ScaleKind::kLog, {-8, 0}}.has_above()));
}

// log2 of a coefficient that is 1 can be a little more than 0.
TEST(CellsPaint, NothingIsAboveTheEndOfAllNumbers) {
  const ValueScale log{ScaleKind::kLog, {-4, 0}}, linear{ScaleKind::kLinear, {0, 1}};
  EXPECT_EQ(paint_of(log, 1e-6).color, log.palette().at(1));
  EXPECT_EQ(paint_of(linear, 1 + 1e-6).color, linear.palette().at(1));
  EXPECT_EQ(census_of(log, cells_with({1e-6f, -1})).above, 0);
  EXPECT_EQ(census_of({ScaleKind::kLog, {-4, -1}}, cells_with({1e-6f, -1})).above, 1);
}

TEST(CellsCensus, CountsEveryCellOnce) {
  Cells cells = cells_with({-9, -5, -1, 0, 0, 0});
  cells.kinds = {CellKind::kValue,  CellKind::kValue,   CellKind::kValue,
                 CellKind::kMasked, CellKind::kPending, CellKind::kNonFinite};
  const Census census = census_of({ScaleKind::kLog, {-8, -2}}, cells);
  const std::array<Index, 6> expected{2, 1, 1, 0, 1, 1};  // value, below, masked, outside, pending, not finite
  EXPECT_EQ(census.of_kind, expected);
  EXPECT_EQ(census.above, 1);
}

// Two patterns look different without colours when their pixels differ in many places however they are shifted, or when their
// mean does: a hatching is not a plain grey, and no pattern is another one moved.
double grey_difference(CellKind a, CellKind b) {
  double least = 255;
  for (Index dy = 0; dy < kPatternPeriod; ++dy) {
    for (Index dx = 0; dx < kPatternPeriod; ++dx) {
      double sum = 0;
      for (Index y = 0; y < kPatternPeriod; ++y) {
        for (Index x = 0; x < kPatternPeriod; ++x) {
          sum += std::abs(grey_of(pattern_color(a, x, y)).r - grey_of(pattern_color(b, x + dx, y + dy)).r);
        }
      }
      least = std::min(least, sum / (kPatternPeriod * kPatternPeriod));
    }
  }
  return least;
}

TEST(CellsPattern, EveryTwoStatesDifferInGrey) {
  for (const CellKind a : kCellKinds) {
    for (const CellKind b : kCellKinds) {
      if (a >= b || a == CellKind::kValue) continue;
      EXPECT_GT(grey_difference(a, b), 5) << name_of(a) << " and " << name_of(b);
    }
  }
}

TEST(CellsPattern, NoValueLooksLikeAPattern) {
  for (const CellKind kind : kCellKinds) {
    if (kind == CellKind::kValue) continue;
    bool is_flat = true;
    for (Index i = 0; i < kPatternPeriod * kPatternPeriod; ++i) {
      is_flat = is_flat && pattern_color(kind, i % kPatternPeriod, i / kPatternPeriod) == pattern_color(kind, 0, 0);
    }
    // The page itself is the only flat one, and lighter than every value.
    EXPECT_EQ(is_flat, kind == CellKind::kOutside) << name_of(kind);
  }
  EXPECT_NE(Palette::sequential().step(0), kWhite);
  EXPECT_LT(grey_of(Palette::sequential().step(0)).r, 250);
  EXPECT_LT(grey_of(Palette::diverging().step(0)).r, 250);
}

TEST(CellsPattern, RepeatsOnItsPeriod) {
  for (const CellKind kind : kCellKinds) {
    for (Index y = 0; y < 2 * kPatternPeriod; ++y) {
      for (Index x = 0; x < 2 * kPatternPeriod; ++x) {
        EXPECT_EQ(pattern_color(kind, x, y), pattern_color(kind, x % kPatternPeriod, y % kPatternPeriod));
      }
    }
  }
}

}  // namespace
}  // namespace multihead::picture_test
