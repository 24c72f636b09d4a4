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
/// Where the plots begin: below title and notes, right of the rows' labels. After choose_ticks().
Point plot_corner(const Figure& figure, const FigureLayout& layout);
/// Colour bar and legend around the plots, and the picture's size.
void place_surroundings(const Figure& figure, const Box& plots, FigureLayout& layout);

}  // namespace multihead::picture
