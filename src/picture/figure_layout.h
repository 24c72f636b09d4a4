// Where everything of a figure goes.
#pragma once

#include "picture/figure.h"

namespace multihead::picture {

/// A swatch and its words.
struct LegendEntry {
  Paint paint;
  std::string text;
  Point at;  ///< top left of the swatch
};

/// All in pixels. Text sizes follow `em`, which follows the plot's size.
struct FigureLayout {
  double em = 16;
  Index width = 0, height = 0;
  double cell_width = 1, cell_height = 1;
  Box plot, bar;
  std::vector<Tick> row_ticks, key_ticks, scale_ticks;
  double row_label_width = 0, scale_label_width = 0;
  double key_label_height = 0;
  bool upright_key_labels = false;  ///< too wide to stand beside each other: turned upwards
  std::vector<LegendEntry> legend;
};

FigureLayout layout_of(const Figure& figure);

}  // namespace multihead::picture
