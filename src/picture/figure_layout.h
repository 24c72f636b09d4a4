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

// The steps, for figures of several maps.

/// The size of cells and plot. Whole pixels a cell, so that equal cells are equally large; a side that would be a thin line is
/// stretched.
void size_cells(const Figure& figure, FigureLayout& layout);
/// Marks of both axes and of the colour bar, and the room that their labels take. After size_cells().
void choose_ticks(const Figure& figure, FigureLayout& layout);
/// Everything in a picture that the colour bar does not explain.
std::vector<LegendEntry> legend_of(const ValueScale& scale, const Census& census);
/// Puts the colour bar right of the plots, with room for the triangles at both ends, which stand for what is beyond the domain.
/// Returns the right end of its words.
double place_bar(FigureLayout& layout, const Box& beside);
/// The height that it takes, triangles and all: that of the plots, or more where they are very low.
double bar_room(const FigureLayout& layout, const Box& beside);
/// Puts the legend's entries from left to right, on a new line where the figure ends. Returns the height.
double place_legend(FigureLayout& layout, double left, double top, double right);

}  // namespace multihead::picture
