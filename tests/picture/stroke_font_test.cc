// The font: every character that a figure writes, inside its cell, and boxes for the rest.
#include "picture/stroke_font.h"

#include <gtest/gtest.h>

#include <set>

#include "picture/raster_canvas.h"

namespace multihead::picture {
namespace {

TEST(StrokeFont, HasAllOfAsciiAndTheSignsInUse) {
  for (char32_t c = U' '; c <= U'~'; ++c) EXPECT_TRUE(has_glyph(c)) << static_cast<unsigned>(c);
  for (const char32_t c : std::u32string_view(U"·×−–…₂→∞≤≥▁ĠЁЖЩюящёÀÉñöüçß"))
    EXPECT_TRUE(has_glyph(c)) << static_cast<unsigned>(c);
}

TEST(StrokeFont, StrokesStayWithinTheirLine) {
  for (char32_t c = U' '; c <= U'~'; ++c) {
    const Glyph& glyph = glyph_of(c);
    EXPECT_GT(glyph.advance, 3);
    for (const auto& stroke : glyph.strokes) {
      EXPECT_FALSE(stroke.empty());
      for (const Point& p : stroke) {
        EXPECT_GE(p.x, 0.5) << static_cast<char>(c);
        EXPECT_LE(p.x, glyph.advance - 0.5) << static_cast<char>(c);
        EXPECT_GE(p.y, -5) << static_cast<char>(c);
        EXPECT_LE(p.y, 17) << static_cast<char>(c);
      }
    }
  }
}

TEST(StrokeFont, DigitsAreEquallyWide) {
  for (char32_t c = U'0'; c <= U'9'; ++c) EXPECT_EQ(glyph_of(c).advance, glyph_of(U'0').advance);
}

TEST(StrokeFont, UnknownCharactersAreBoxesThatTellTheCode) {
  EXPECT_FALSE(has_glyph(U'中'));
  EXPECT_EQ(glyph_of(U'中').strokes.size(), 1U + glyph_of(U'4').strokes.size() + glyph_of(U'E').strokes.size() +
                                                glyph_of(U'2').strokes.size() + glyph_of(U'D').strokes.size());
  EXPECT_GT(glyph_of(U'😀').advance, glyph_of(U'中').advance) << "six digits";
  EXPECT_EQ(&glyph_of(U'中'), &glyph_of(U'中'));
}

TEST(StrokeFont, CyrillicIsWhole) {
  for (char32_t c = U'А'; c <= U'я'; ++c) EXPECT_TRUE(has_glyph(c)) << static_cast<unsigned>(c);
}

TEST(StrokeFont, AccentsAreTheLetterAndMore) {
  EXPECT_EQ(glyph_of(U'é').advance, glyph_of(U'e').advance);
  EXPECT_EQ(glyph_of(U'é').strokes.size(), glyph_of(U'e').strokes.size() + 1);
  EXPECT_GT(glyph_of(U'É').strokes.back().back().y, kCapHeight);
}

TEST(StrokeFont, DecodesUtf8AndSurvivesWhatIsNone) {
  EXPECT_EQ(characters_of("a−€😀"), U"a−€😀");
  EXPECT_EQ(characters_of("\xFF"
                          "a\xE2\x88"),
            U"\uFFFDa\uFFFD\uFFFD");
  EXPECT_EQ(characters_of(""), U"");
}

TEST(StrokeFont, WidthIsTheSumOfAdvances) {
  EXPECT_DOUBLE_EQ(text_width("iW", 40), 2 * (glyph_of(U'i').advance + glyph_of(U'W').advance));
  EXPECT_EQ(text_width("", 10), 0);
}

// Every character leaves other pixels than every other one, at the smallest size in use.
TEST(StrokeFont, CharactersAreDistinguishableWhenSmall) {
  std::set<std::string> seen;
  for (char32_t c = U'!'; c <= U'~'; ++c) {
    RasterCanvas canvas(20, 24);
    canvas.text({3, 16}, std::string(1, static_cast<char>(c)), {11, Anchor::kStart, false, false, kBlack});
    std::string pixels;
    for (Index i = 0; i < 20 * 24; ++i) pixels += static_cast<char>(canvas.pixels().at(i % 20, i / 20).r / 64);
    EXPECT_TRUE(seen.insert(pixels).second) << static_cast<char>(c);
  }
}

}  // namespace
}  // namespace multihead::picture
