#include "picture/stroke_font.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <numbers>

#include "io/text.h"
#include "picture/stroke_glyphs.h"
#include "picture/stroke_glyphs_letters.h"

namespace multihead::picture {
namespace {

constexpr double kBearing = 1.7;  // space on each side of a character

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

double number_of(std::string_view text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Straight pieces so short that no size in use shows their corners.
void add_arc(std::vector<Point>& stroke, const std::vector<double>& arc) {
  constexpr double kDegrees = 12;
  const int pieces = std::max(2, static_cast<int>(std::ceil(std::abs(arc[5] - arc[4]) / kDegrees)));
  for (int i = 0; i <= pieces; ++i) {
    const double angle = (arc[4] + (arc[5] - arc[4]) * i / pieces) * std::numbers::pi / 180;
    stroke.push_back({arc[0] + arc[2] * std::cos(angle), arc[1] + arc[3] * std::sin(angle)});
  }
}

Glyph parsed(const GlyphText& text) {
  Glyph glyph{text.width + 2 * kBearing, {}};
  for (const std::string_view stroke_text : split(text.strokes, '|')) {
    std::vector<Point> stroke;
    for (const std::string_view part : split(stroke_text, ' ')) {
      std::vector<double> numbers;
      for (const std::string_view number : split(part, ',')) numbers.push_back(number_of(number));
      if (numbers.size() == 6) {
        add_arc(stroke, numbers);
      } else {
        stroke.push_back({numbers[0], numbers[1]});
      }
    }
    for (Point& point : stroke) point.x += kBearing;
    glyph.strokes.push_back(std::move(stroke));
  }
  return glyph;
}

// The accent over the middle of its letter, higher over a capital.
Glyph accented(const Glyph& base, const char* accent, bool raised) {
  Glyph glyph = base;
  for (std::vector<Point> stroke : parsed({0, 0, accent}).strokes) {
    for (Point& point : stroke) point = {point.x - kBearing + base.advance / 2, point.y + (raised ? 3.2 : 0)};
    glyph.strokes.push_back(std::move(stroke));
  }
  return glyph;
}

std::map<char32_t, Glyph> all_glyphs() {
  std::map<char32_t, Glyph> glyphs;
  for (const GlyphText& text : kGlyphs) glyphs.emplace(text.character, parsed(text));
  for (const GlyphText& text : kCyrillic) glyphs.emplace(text.character, parsed(text));
  for (std::size_t i = 0; i + 1 < std::size(kCyrillicTwins); ++i) glyphs.emplace(kCyrillicTwins[i], glyphs.at(kLatinTwins[i]));
  std::map<char32_t, const char*> accents;
  for (const AccentText& text : kAccents) accents.emplace(text.accent, text.strokes);
  for (std::size_t i = 0; i + 1 < std::size(kAccented); ++i) {
    const bool raised = kBases[i] >= U'A' && kBases[i] <= U'Z' && kMarks[i] != U'¸';
    glyphs.emplace(kAccented[i], accented(glyphs.at(kBases[i]), accents.at(kMarks[i]), raised));
  }
  return glyphs;
}

const std::map<char32_t, Glyph>& font() {
  static const std::map<char32_t, Glyph> glyphs = all_glyphs();
  return glyphs;
}

// A frame with the code point in two rows of digits at 45 % of their size.
Glyph box_with_code(char32_t character) {
  constexpr double kScale = 0.45;
  std::string digits;
  for (int shift = character > 0xFFFF ? 20 : 12; shift >= 0; shift -= 4) {
    digits += "0123456789ABCDEF"[(static_cast<std::uint32_t>(character) >> static_cast<unsigned>(shift)) & 15U];
  }
  const std::size_t columns = digits.size() / 2;
  const double width = 1 + 5.6 * static_cast<double>(columns);
  Glyph box{width + 2 * kBearing,
            {{{kBearing, -1.5}, {kBearing, 15.5}, {kBearing + width, 15.5}, {kBearing + width, -1.5}, {kBearing, -1.5}}}};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const double x = kBearing + 0.6 + 5.6 * static_cast<double>(i % columns), y = i < columns ? 8 : 0;
    for (std::vector<Point> stroke : font().at(static_cast<char32_t>(digits[i])).strokes) {
      for (Point& point : stroke) point = {x + kScale * point.x, y + kScale * point.y};
      box.strokes.push_back(std::move(stroke));
    }
  }
  return box;
}

}  // namespace

bool has_glyph(char32_t character) { return font().count(character) > 0; }

const Glyph& glyph_of(char32_t character) {
  const auto found = font().find(character);
  if (found != font().end()) return found->second;
  static std::map<char32_t, Glyph> boxes;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto [box, is_new] = boxes.try_emplace(character);
  if (is_new) box->second = box_with_code(character);
  return box->second;
}

std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t length = utf8_length(text);
    // The leading byte of n > 1 bytes has 7 - n bits of the character, each further one 6.
    char32_t character = length == 0 ? 0xFFFD : length == 1 ? byte(0) : byte(0) & ((1U << (7 - length)) - 1);
    for (std::size_t i = 1; i < length; ++i) character = (character << 6) | (byte(i) & 63U);
    characters += character;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return characters;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  for (const char32_t character : characters_of(text)) width += glyph_of(character).advance;
  return width * size / kUnitsPerEm;
}

}  // namespace multihead::picture
