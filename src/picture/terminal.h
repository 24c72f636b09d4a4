// A map in a terminal: two cells a character in colours, or shades made of plain characters.
#pragma once

#include <string>

#include "picture/figure.h"

namespace multihead::picture {

enum class TerminalColors {
  kNone,       ///< plain ASCII, also for files and pipes
  k256,        ///< the 6 x 6 x 6 cube and the greys of xterm
  kTrueColor,  ///< 24 bits
};

struct TerminalStyle {
  TerminalColors colors = TerminalColors::kNone;
  Index columns = 80;
  bool light_background = false;  ///< then more is darker, as on paper; otherwise more is brighter
};

/// Cells that fit side by side beside the row labels, at least 1. `largest_row` is the largest number that labels a row.
Index cells_across(const TerminalStyle& style, Index largest_row);

/// Title, notes, map with positions at its sides, scale and legend; ends with a newline and no colour switched on. Lines are at
/// most `columns` wide as long as the cells are no more than cells_across. Where cells are single positions whose labels are
/// single characters, and there is room, the characters stand at both sides as well, so that the text can be read along the
/// map. Errors as render_pixels.
std::string render_terminal(const Figure& figure, const TerminalStyle& style);

/// The index in xterm's 256 colours that looks nearest.
int nearest_of_256(Rgb color);

}  // namespace multihead::picture
