// Colours: OKLab against values worked out by its author, and what a colour scale promises to the eye.
#include "picture/palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "picture/color.h"

namespace multihead::picture {
namespace {

TEST(OkLabColor, KnownColors) {
  const struct {
    Rgb color;
    OkLab lab;
  } kCases[] = {{{0, 0, 0}, {0, 0, 0}},
                {{255, 255, 255}, {1, 0, 0}},
                {{255, 0, 0}, {0.62796, 0.22486, 0.12585}},
                {{0, 255, 0}, {0.86644, -0.23389, 0.17950}},
                {{0, 0, 255}, {0.45201, -0.03246, -0.31153}}};
  for (const auto& [color, lab] : kCases) {
    const OkLab got = oklab_of(color);
    EXPECT_NEAR(got.lightness, lab.lightness, 2e-4) << hex(color);
    EXPECT_NEAR(got.a, lab.a, 2e-4) << hex(color);
    EXPECT_NEAR(got.b, lab.b, 2e-4) << hex(color);
  }
}

TEST(OkLabColor, EveryColorComesBack) {
  for (int r = 0; r < 256; r += 15) {
    for (int g = 0; g < 256; g += 15) {
      for (int b = 0; b < 256; b += 15) {
        const Rgb color{static_cast<std::uint8_t>(r), static_cast<std::uint8_t>(g), static_cast<std::uint8_t>(b)};
        EXPECT_EQ(srgb_of(oklab_of(color)), color) << hex(color);
      }
    }
  }
}

TEST(OkLabColor, HexAndInk) {
  EXPECT_EQ(hex({1, 171, 255}), "#01abff");
  EXPECT_EQ(ink_on(kWhite), kBlack);
  EXPECT_EQ(ink_on(kBlack), kWhite);
}

class PaletteTest : public testing::TestWithParam<bool> {
 protected:
  const Palette& palette() const { return GetParam() ? Palette::diverging() : Palette::sequential(); }
  double lightness(int i) const { return oklab_of(palette().step(i)).lightness; }
};

TEST_P(PaletteTest, LightnessFallsAllTheWayAndBeyondBothEnds) {
  EXPECT_GT(oklab_of(palette().under()).lightness, lightness(0));
  EXPECT_LT(oklab_of(palette().over()).lightness, lightness(Palette::kSteps - 1) - 0.05);
  // 8 bits a channel round single steps; over four of them it must show.
  for (int i = 4; i < Palette::kSteps; ++i) EXPECT_LT(lightness(i), lightness(i - 4)) << i;
  for (int i = 1; i < Palette::kSteps; ++i) EXPECT_LT(lightness(i), lightness(i - 1) + 0.002) << i;
}

TEST_P(PaletteTest, StepsLookEquallyLarge) {
  double shortest = 1, longest = 0;
  for (int i = 8; i < Palette::kSteps; i += 8) {
    const double step = distance(oklab_of(palette().step(i)), oklab_of(palette().step(i - 8)));
    shortest = std::min(shortest, step);
    longest = std::max(longest, step);
  }
  EXPECT_LT(longest / shortest, 1.25);
}

TEST_P(PaletteTest, AGreyCopyKeepsTheOrder) {
  for (int i = 8; i < Palette::kSteps; ++i) EXPECT_LT(grey_of(palette().step(i)).r, grey_of(palette().step(i - 8)).r) << i;
}

TEST_P(PaletteTest, PositionsAreSteps) {
  EXPECT_EQ(palette().at(0), palette().step(0));
  EXPECT_EQ(palette().at(1), palette().step(255));
  EXPECT_EQ(palette().at(-3), palette().step(0));
  EXPECT_EQ(palette().at(3), palette().step(255));
  EXPECT_EQ(palette().at(100 / 255.0), palette().step(100));
}

INSTANTIATE_TEST_SUITE_P(Both, PaletteTest, testing::Values(false, true));

TEST(DivergingPalette, GreyInTheMiddleAndOppositeHuesBesideIt) {
  const auto chroma = [](const OkLab& lab) { return std::hypot(lab.a, lab.b); };
  for (const int middle : {127, 128}) EXPECT_LT(chroma(oklab_of(Palette::diverging().step(middle))), 0.01);
  const OkLab less = oklab_of(Palette::diverging().step(64)), more = oklab_of(Palette::diverging().step(191));
  EXPECT_GT(chroma(less), 0.08);
  EXPECT_GT(chroma(more), 0.08);
  EXPECT_LT(less.b, -0.04) << "blue";
  EXPECT_GT(more.b, 0.04) << "orange";
}

TEST(SequentialPalette, StartsPaleAndEndsDark) {
  const OkLab first = oklab_of(Palette::sequential().step(0)), last = oklab_of(Palette::sequential().step(255));
  EXPECT_GT(first.lightness, 0.95);
  EXPECT_LT(last.lightness, 0.27);
}

}  // namespace
}  // namespace multihead::picture
