// Maps in a terminal: what each depth of colour may send, and that plain text is plain.
#include "picture/terminal.h"

#include "picture/picture_testing.h"

namespace multihead::picture_test {
namespace {

// 4 x 6, masked above the diagonal, with one cell of every other state that a capture can have.
Figure small_figure() {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(-static_cast<float>(i % 6));
  Figure figure = figure_of(4, 6, values, ScaleKind::kLog);
  for (Index row = 0; row < 4; ++row) {
    for (Index key = row + 3; key < 6; ++key) figure.cells.kinds[static_cast<std::size_t>(6 * row + key)] = CellKind::kMasked;
  }
  figure.cells.kinds[6 * 2] = CellKind::kNonFinite;
  figure.scale.domain = {-4, 0};
  figure.scale_name = "log2 p";
  figure.notes = {"a note"};
  return figure;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string without_colors(const std::string& text) {
  std::string rest;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      rest += text[i];
    }
  }
  return rest;
}

TEST(TerminalMap, PlainTextIsShades) {
  const std::vector<std::string> expected{"Head 0",
                                          "a note",
                                          "  key 0      5",
                                          "0 @@##**",
                                          "  @@##**==",
                                          "  !!##**==::",
                                          "  @@##**==::..",
                                          "log2 p  −4 :-=+*#%@ 0",
                                          ". below the scale   (blank) masked   ! not finite"};
  const std::string text = render_terminal(small_figure(), {TerminalColors::kNone, 80, false});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(lines_of(text), expected);
}

TEST(TerminalMap, HalfBlocksCarryTwoRows) {
  const std::string text = render_terminal(small_figure(), {TerminalColors::kTrueColor, 80, false});
  const std::vector<std::string> lines = lines_of(without_colors(text));
  ASSERT_GE(lines.size(), 5U);
  EXPECT_EQ(lines[3], "0 ▀▀▀▄╱╱");
  EXPECT_EQ(lines[4], "  ▀▀▀▀▀╱") << "upper value below the map's scale would be a sign; masked beside it is blank";
}

TEST(TerminalMap, ColorsAreThePalettesFromTheOtherEndOnDarkGrounds) {
  Figure figure = figure_of(2, 1, {0, 1});
  const auto code = [](const char* kind, Rgb color) {
    return std::string("\x1b[") + kind + ";2;" + std::to_string(color.r) + ";" + std::to_string(color.g) + ";" +
           std::to_string(color.b) + "m";
  };
  const Rgb pale = Palette::sequential().step(0), dark = Palette::sequential().step(255);
  const std::string on_dark = render_terminal(figure, {TerminalColors::kTrueColor, 80, false});
  EXPECT_NE(on_dark.find(code("38", dark) + code("48", pale) + "▀"), std::string::npos) << "more is brighter";
  const std::string on_light = render_terminal(figure, {TerminalColors::kTrueColor, 80, true});
  EXPECT_NE(on_light.find(code("38", pale) + code("48", dark) + "▀"), std::string::npos) << "more is darker";
}

TEST(TerminalMap, Depth256SendsIndexedColorsOnly) {
  const std::string text = render_terminal(small_figure(), {TerminalColors::k256, 80, false});
  EXPECT_NE(text.find(";5;"), std::string::npos);
  EXPECT_EQ(text.find("38;2;"), std::string::npos);
  EXPECT_EQ(text.find("48;2;"), std::string::npos);
  EXPECT_EQ(nearest_of_256({0, 0, 0}), 16);
  EXPECT_EQ(nearest_of_256({255, 255, 255}), 231);
  EXPECT_EQ(nearest_of_256({95, 135, 255}), 16 + 36 * 1 + 6 * 2 + 5);
  EXPECT_EQ(nearest_of_256({128, 128, 128}), 244);
}

TEST(TerminalMap, EveryLineEndsWithoutColor) {
  for (const TerminalColors colors : {TerminalColors::k256, TerminalColors::kTrueColor}) {
    for (const std::string& line : lines_of(render_terminal(small_figure(), {colors, 80, false}))) {
      const std::size_t last = line.rfind("\x1b[");
      EXPECT_TRUE(last == std::string::npos || line.compare(last, 4, "\x1b[0m") == 0) << line;
    }
  }
}

TEST(TerminalMap, FitsItsColumns) {
  for (const TerminalColors colors : {TerminalColors::kNone, TerminalColors::k256, TerminalColors::kTrueColor}) {
    for (const Index columns : {40, 80, 133}) {
      const TerminalStyle style{colors, columns, false};
      const Index across = cells_across(style, 1000);
      EXPECT_GE(across, columns / 2 - 4);
      Figure figure = figure_of(9, across, std::vector<float>(static_cast<std::size_t>(9 * across), 0.5f));
      figure.rows = {"query", 0, 1000, {}};
      figure.keys = {"key", 0, 1000, {}};
      figure.notes = {std::string(300, 'x')};
      for (const std::string& line : lines_of(without_colors(render_terminal(figure, style)))) {
        EXPECT_LE(static_cast<Index>(characters_of(line).size()), columns) << line;
      }
    }
  }
  EXPECT_EQ(cells_across({TerminalColors::kNone, 1, false}, 5), 1);
}

// Five positions with labels, two of which are no plain characters.
Figure lettered_figure(const std::vector<std::string>& labels) {
  const auto n = static_cast<Index>(labels.size());
  Figure figure = figure_of(n, n, std::vector<float>(static_cast<std::size_t>(n * n), 1.0f));
  figure.rows = {"query", 0, n, labels};
  figure.keys = {"key", 0, n, labels};
  return figure;
}

TEST(TerminalMap, ATextOfSingleCharactersStandsAlongBothSides) {
  const Figure figure = lettered_figure({"a", "\n", "é", " ", "b"});
  EXPECT_EQ(lines_of(render_terminal(figure, {TerminalColors::kNone, 80, false}))[2], "    a ↵ é   b");
  EXPECT_EQ(lines_of(render_terminal(figure, {TerminalColors::kNone, 80, false}))[3], "0 a @@@@@@@@@@");
  const std::vector<std::string> lines = lines_of(without_colors(render_terminal(figure, {TerminalColors::k256, 80, false})));
  EXPECT_EQ(lines[2], "     a↵é b");
  EXPECT_EQ(lines[3], "0 a↵ ▀▀▀▀▀");
  EXPECT_EQ(lines[5], "  b  ▀▀▀▀▀") << "no row below the last";
}

TEST(TerminalMap, LettersGiveWay) {
  const auto has_letters = [](const Figure& figure, Index columns) {
    const std::string text = render_terminal(figure, {TerminalColors::k256, columns, false});
    for (const std::string& line : lines_of(text)) {
      if (line.find("abcd") != std::string::npos) return true;
    }
    return false;
  };
  const std::vector<std::string> letters{"a", "b", "c", "d", "e", "f", "g", "h"};
  EXPECT_TRUE(has_letters(lettered_figure(letters), 13));
  EXPECT_FALSE(has_letters(lettered_figure(letters), 12)) << "no room";
  EXPECT_TRUE(has_letters(lettered_figure({"a", "b", "c", "d", "word", "漢", "g", "h"}), 80)) << "two of eight stand as ~";
  EXPECT_FALSE(has_letters(lettered_figure({"a", "b", "c", "d", "word", "more", "words", "h"}), 80)) << "mostly words";
  Figure pooled = lettered_figure(letters);
  pooled.rows.end = pooled.keys.end = 16;  // two positions a cell
  pooled.rows.labels.resize(16, "x");
  pooled.keys.labels.resize(16, "x");
  EXPECT_FALSE(has_letters(pooled, 80));
}

}  // namespace
}  // namespace multihead::picture_test
