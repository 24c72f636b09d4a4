// Figures: the plot's pixels are the values' colours, SVG is well-formed and says what the cells hold.
#include "picture/figure.h"

#include "multihead/error.h"
#include "picture/figure_layout.h"
#include "picture/picture_testing.h"
#include "picture/png.h"
#include "random_inputs.h"

namespace multihead::picture_test {
namespace {

std::vector<float> random_values(Index count, double low, double high) {
  test::Random random(5);
  std::vector<float> values;
  for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(low + (high - low) * random.uniform()));
  return values;
}

// Values with every state between them.
Figure mixed_figure(Index size, ScaleKind kind) {
  Figure figure = figure_of(size, size, random_values(size * size, -9, 1), kind);
  for (std::size_t i = 0; i < figure.cells.kinds.size(); ++i) {
    if (i % 7 == 3) figure.cells.kinds[i] = kCellKinds[2 + i % 4];
  }
  figure.scale.domain = kind == ScaleKind::kLift ? Domain{-3, 0.5} : Domain{-6, 0};
  return figure;
}

// All pixels of the plot of a map whose cells are too small for numbers and gaps.
void expect_plot_matches(const Figure& figure) {
  const FigureLayout layout = layout_of(figure);
  const Raster pixels = decoded(encode_png(render_pixels(figure)));
  ASSERT_EQ(pixels.width(), layout.width);
  ASSERT_EQ(pixels.height(), layout.height);
  const auto left = static_cast<Index>(layout.plot.x), top = static_cast<Index>(layout.plot.y);
  const auto cell_width = static_cast<Index>(layout.cell_width), cell_height = static_cast<Index>(layout.cell_height);
  for (Index y = 0; y < cell_height * figure.cells.height; ++y) {
    for (Index x = 0; x < cell_width * figure.cells.width; ++x) {
      const Paint paint = paint_of(figure.scale, figure.cells, y / cell_height, x / cell_width);
      ASSERT_EQ(pixels.at(left + x, top + y), color_at(paint, left + x, top + y))
          << "row " << y / cell_height << ", key " << x / cell_width;
    }
  }
}

TEST(FigurePixels, AreTheColorsOfTheValues) {
  for (const ScaleKind kind : {ScaleKind::kLog, ScaleKind::kLift}) {
    for (const Index size : {40, 97}) {
      Figure figure = mixed_figure(size, kind);
      figure.plot_size = 4 * size;
      expect_plot_matches(figure);
    }
  }
}

TEST(FigurePixels, OnePixelACellAndStrips) {
  Figure figure = figure_of(200, 200, random_values(40000, 0, 1));
  figure.plot_size = 200;
  expect_plot_matches(figure);
  Figure strip = figure_of(1, 300, random_values(300, 0, 1));
  strip.plot_size = 320;
  const FigureLayout layout = layout_of(strip);
  EXPECT_EQ(layout.cell_width, 1);
  EXPECT_GE(layout.plot.height, 20) << "a row of its own is no hair line";
  expect_plot_matches(strip);
}

// A large cell has its number in the middle, in ink that can be read, and its colour at the corners.
TEST(FigurePixels, LargeCellsHaveNumbers) {
  Figure figure = figure_of(2, 2, {0, 1, 0.25f, 0.5f});
  figure.plot_size = 200;
  const FigureLayout layout = layout_of(figure);
  const Raster pixels = render_pixels(figure);
  for (Index cell = 0; cell < 4; ++cell) {
    const auto left = static_cast<Index>(layout.plot.x) + cell % 2 * 100,
               top = static_cast<Index>(layout.plot.y) + cell / 2 * 100;
    const Rgb ground = paint_of(figure.scale, figure.cells, cell / 2, cell % 2).color;
    EXPECT_EQ(pixels.at(left + 3, top + 3), ground);
    Index ink = 0;
    for (Index y = 30; y < 70; ++y) {
      for (Index x = 20; x < 80; ++x) ink += distance(oklab_of(pixels.at(left + x, top + y)), oklab_of(ground)) > 0.2 ? 1 : 0;
    }
    EXPECT_GT(ink, 20) << "cell " << cell;
  }
}

TEST(FigurePixels, TextStaysInside) {
  Figure figure = mixed_figure(30, ScaleKind::kLog);
  figure.title = "A title that is much longer than the plot of this figure is wide, and which must not be cut off at its end";
  figure.notes = {"one", "two"};
  figure.plot_size = 120;
  const Raster pixels = render_pixels(figure);
  for (Index y = 0; y < pixels.height(); ++y) {
    for (const Index x : {Index{0}, Index{1}, pixels.width() - 2, pixels.width() - 1}) ASSERT_EQ(pixels.at(x, y), kWhite) << y;
  }
  for (Index x = 0; x < pixels.width(); ++x) {
    for (const Index y : {Index{0}, pixels.height() - 1}) ASSERT_EQ(pixels.at(x, y), kWhite) << x;
  }
}

TEST(FigureSvg, SmallMapsAreRectanglesWithTheirNumbers) {
  Figure figure = figure_of(2, 3, {0, 0.125f, 0.25f, 0.5f, 0.75f, 1});
  figure.rows.labels = {"<s>", "a&b"};
  figure.keys.labels = {"\x01", "\xFF\"'", "中文"};
  const std::string svg = render_svg(figure);
  const auto elements = elements_of(svg);
  EXPECT_EQ(elements.at("title"), 1 + 6) << "the document's and each cell's";
  EXPECT_EQ(elements.count("image"), 0U);
  for (const char* word : {"query 1 'a&amp;b', key 1 '\\xFF&quot;'': 0.75", "&lt;s&gt;", "\\x01", "中文", ">0.12<", "Head 0"}) {
    EXPECT_NE(svg.find(word), std::string::npos) << word << " in " << svg;
  }
}

TEST(FigureSvg, PooledCellsTellTheirRanges) {
  Figure figure = figure_of(2, 2, {0, 0.125f, 0.25f, 0.5f});
  figure.rows = {"query", 10, 15, {}};
  figure.keys = {"key", 1000, 1004, {}};
  const std::string svg = render_svg(figure);
  EXPECT_NE(svg.find("query 10–11, key 1,000–1,001: 0"), std::string::npos) << svg;
  EXPECT_NE(svg.find("query 12–14, key 1,002–1,003: 0.5"), std::string::npos);
}

TEST(FigureSvg, LargeMapsAreAnImageWithTheSamePixels) {
  Figure figure = mixed_figure(80, ScaleKind::kLog);
  figure.plot_size = 160;
  const std::string svg = render_svg(figure);
  EXPECT_EQ(elements_of(svg).at("image"), 1);
  const std::string start = "base64,";
  const std::size_t begin = svg.find(start) + start.size();
  const std::string text = svg.substr(begin, svg.find('"', begin) - begin);
  std::string bytes;
  unsigned bits = 0, filled = 0;
  for (const char c : text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    if ((filled += 6) >= 8) bytes += static_cast<char>(bits >> (filled -= 8) & 255U);
  }
  const Raster pixels = decoded(bytes);
  ASSERT_EQ(pixels.width(), 160);
  for (Index y = 0; y < 160; ++y) {
    for (Index x = 0; x < 160; ++x) {
      ASSERT_EQ(pixels.at(x, y), color_at(paint_of(figure.scale, figure.cells, y / 2, x / 2), x, y));
    }
  }
}

TEST(FigureSvg, EveryStateThatIsUsedIsDefined) {
  Figure figure = mixed_figure(12, ScaleKind::kLog);
  const std::string svg = render_svg(figure);
  EXPECT_EQ(elements_of(svg).at("pattern"), 5) << "below, masked, outside, pending, not finite";
  for (const CellKind kind : kCellKinds) {
    if (kind == CellKind::kValue) continue;
    EXPECT_NE(svg.find("id=\"kind" + std::to_string(static_cast<int>(kind)) + "\""), std::string::npos) << name_of(kind);
  }
}

TEST(FigureChecks, RefusesListsThatDoNotFit) {
  EXPECT_THROW(render_pixels(Figure()), InvalidArgument);
  Figure figure = figure_of(2, 2, {0, 0, 0, 0});
  figure.cells.values.pop_back();
  EXPECT_THROW(render_svg(figure), InvalidArgument);
  figure = figure_of(2, 2, {0, 0, 0, 0});
  figure.rows.labels = {"one"};
  EXPECT_THROW(render_pixels(figure), InvalidArgument);
  figure = figure_of(2, 2, {0, 0, 0, 0});
  figure.plot_size = 0;
  EXPECT_THROW(render_pixels(figure), InvalidArgument);
}

TEST(FigureTicks, RoundNumbersOrTokens) {
  const auto labels = [](const std::vector<Tick>& ticks) {
    std::vector<std::string> words;
    for (const Tick& tick : ticks) words.push_back(tick.label);
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(labels(ticks_of(Axis{"key", 0, 100, {}}, 5)), (Words{"0", "20", "40", "60", "80"}));
  EXPECT_EQ(labels(ticks_of(Axis{"key", 130000, 131072, {}}, 4)), (Words{"130,000", "130,500", "131,000"}));
  EXPECT_EQ(labels(ticks_of(Axis{"key", 21, 29, {}}, 0.5)), (Words{"21"})) << "one at least";
  EXPECT_EQ(labels(ticks_of(Axis{"key", 5, 7, {"a", "b"}}, 2)), (Words{"a", "b"}));
  EXPECT_EQ(labels(ticks_of(Axis{"key", 0, 102, {}, 100}, 10)), (Words{"0", "20", "40", "60", "80"})) << "100 does not exist";
  EXPECT_EQ(labels(ticks_of(Axis{"key", 5, 8, {"a", "b"}, 7}, 3)), (Words{"a", "b"}));
  EXPECT_DOUBLE_EQ(ticks_of(Axis{"key", 5, 7, {"a", "b"}}, 2)[1].at, 0.75) << "the middle of its position";
  EXPECT_EQ(labels(ticks_of(ValueScale{ScaleKind::kLinear, {0, 1}})), (Words{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(labels(ticks_of(ValueScale{ScaleKind::kLog, {-8, -2}})), (Words{"−8", "−7", "−6", "−5", "−4", "−3", "−2"}));
  EXPECT_EQ(labels(ticks_of(ValueScale{ScaleKind::kLift, {-4, 4}})), (Words{"−4", "−2", "0", "+2", "+4"}));
}

TEST(FigureTicks, LongTokensAreShortened) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "ab…");
  EXPECT_EQ(shortened("中文中文", 3), "中文…");
  EXPECT_EQ(shortened("a\nb\x01", 9), "a\\nb\\x01");
  EXPECT_EQ(shortened(" a b ", 9), "▁a b▁");
  EXPECT_EQ(shortened("  ", 9), "▁▁");
}

}  // namespace
}  // namespace multihead::picture_test
