// Letters as strokes: a font of our own for pictures made of pixels. It needs no font file, so the same command gives the same
// pixels on every machine, at any size and angle. (SVG leaves letters to the reader's fonts.)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace multihead::picture {

struct Point {
  double x = 0, y = 0;
};

/// Capital letters are 14 units high, small ones 10, an em is 20. y points up from the base line.
constexpr double kUnitsPerEm = 20, kCapHeight = 14;

/// What a pen draws for one character: lines of one or more points.
struct Glyph {
  double advance = 0;  ///< units to the next character
  std::vector<std::vector<Point>> strokes;
};

/// A character that the font has not is a box with its code point in hexadecimal digits. The reference lives as long as the
/// program.
const Glyph& glyph_of(char32_t character);
bool has_glyph(char32_t character);

/// Characters of UTF-8 text; bytes that are none become U+FFFD.
std::u32string characters_of(std::string_view text);

/// Width in units of the em times `size`: pixels when `size` is the em in pixels.
double text_width(std::string_view text, double size);

}  // namespace multihead::picture
