// Where an axis or a colour bar has marks, and what is written beside them.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "picture/cells.h"

namespace multihead::picture {

/// Positions begin … end - 1 of a map's side. Those from `length` on do not exist: the last cell reaches beyond the map.
struct Axis {
  std::string name;  ///< "query"
  Index begin = 0, end = 0;
  std::vector<std::string> labels;                   ///< one a position that exists, or none
  Index length = std::numeric_limits<Index>::max();  ///< of the whole side

  Index existing_end() const { return std::min(end, length); }
  Index size() const { return end - begin; }
};

struct Tick {
  double at = 0;  ///< part of the length, 0 … 1
  std::string label;
};

/// 1, 2 or 5 times a power of ten, the smallest that is at least `least`.
double round_step(double least);

/// Marks in the middle of positions. `room` is the number of labels that fit. Every position has its own label when they all
/// fit and there are any; otherwise round numbers, at least one as long as the axis has positions.
std::vector<Tick> ticks_of(const Axis& axis, double room);

/// Marks of a colour bar, about six.
std::vector<Tick> ticks_of(const ValueScale& scale);

/// A number as the scale is labelled: "0.25", "−4", "+2".
std::string label_of(ScaleKind kind, double value);

/// Shortened to `characters` with "…" at the end. Spaces at the ends become ▁, line ends \\n, other control characters \\xHH.
std::string shortened(const std::string& label, std::size_t characters);

/// 131,072.
std::string grouped(Index number);

}  // namespace multihead::picture
