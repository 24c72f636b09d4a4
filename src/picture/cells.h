// What a map shows: numbers on a scale, and cells that have none, each for a reason of its own.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/tensor.h"
#include "picture/color.h"
#include "picture/palette.h"

namespace multihead::picture {

/// Everything that a cell can be. All six look different without colours.
enum class CellKind : std::uint8_t {
  kValue,      ///< a number, in the palette's colours
  kBelow,      ///< a number below the domain; an exact 0 on a logarithmic scale is one
  kMasked,     ///< no query of the cell may see any key of it
  kOutside,    ///< beyond the matrix
  kPending,    ///< not computed yet
  kNonFinite,  ///< NaN or infinity
};
constexpr std::array kCellKinds{CellKind::kValue,   CellKind::kBelow,   CellKind::kMasked,
                                CellKind::kOutside, CellKind::kPending, CellKind::kNonFinite};
/// "masked".
std::string_view name_of(CellKind kind);

/// A colour, or the pattern of a kind.
struct Paint {
  CellKind kind = CellKind::kValue;
  Rgb color;  ///< of a value

  Paint(Rgb plain) : color(plain) {}          // NOLINT: implicit on purpose
  Paint(CellKind pattern) : kind(pattern) {}  // NOLINT: implicit on purpose
};

/// The pattern's colour at a pixel. Patterns repeat every kPatternPeriod pixels and are fixed to the page, so that regions of
/// cells as small as a pixel show them too.
constexpr Index kPatternPeriod = 12;
Rgb pattern_color(CellKind kind, Index x, Index y);
/// The paint's colour at a pixel.
Rgb color_at(const Paint& paint, Index x, Index y);

/// What the numbers are.
enum class ScaleKind {
  kLinear,  ///< p, from 0 to 1
  kLog,     ///< log2 p
  kLift,    ///< log2 of p over the coefficient that attention without preferences would have: 0 = uniform
};

/// Numbers of a scale that have colours; both ends belong to it.
struct Domain {
  double low = 0, high = 1;
};

struct ValueScale {
  ScaleKind kind = ScaleKind::kLinear;
  Domain domain;

  const Palette& palette() const { return kind == ScaleKind::kLift ? Palette::diverging() : Palette::sequential(); }
  /// Whether there are numbers beyond the domain's end at all: no p exceeds 1.
  bool has_below() const { return kind != ScaleKind::kLinear || domain.low > 0; }
  bool has_above() const { return kind == ScaleKind::kLift || domain.high < (kind == ScaleKind::kLinear ? 1 : 0); }
  /// Where no number can be above, one that is came out of rounding (log2 of a p that is 1): it belongs to the end.
  bool is_above(double value) const { return has_above() && value > domain.high; }
};

/// A rectangle of cells in units of the scale, row-major: [height, width].
struct Cells {
  Index height = 0, width = 0;
  std::vector<float> values;    ///< meaningful where the kind is kValue
  std::vector<CellKind> kinds;  ///< never kBelow: that is for the domain to say

  float value(Index row, Index column) const { return values[static_cast<std::size_t>(row * width + column)]; }
  CellKind kind(Index row, Index column) const { return kinds[static_cast<std::size_t>(row * width + column)]; }
};

/// How a number of the scale is drawn: its colour, the palette's colour beyond the domain's high end, or kBelow.
Paint paint_of(const ValueScale& scale, double value);
/// The same for a cell in any kind.
Paint paint_of(const ValueScale& scale, const Cells& cells, Index row, Index column);

/// The whole range for p. For log2 p whole bits from the 10th percentile (at most 20 bits deep, at least 4) to the largest
/// value. For lift symmetric, as far as three quarters of all and 99 % of the positive ones reach, at least 1 and at most 12
/// bits: most pairs lie far below uniform in a head that knows what it wants, and must not take the colours from the others.
Domain domain_for(ScaleKind kind, const Cells& cells);

/// How many cells are in each kind once the domain is known, and how many values lie above it.
struct Census {
  std::array<Index, kCellKinds.size()> of_kind{};
  Index above = 0;
};
Census census_of(const ValueScale& scale, const Cells& cells);

}  // namespace multihead::picture
