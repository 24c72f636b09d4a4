// A map as a figure: title, axes, cells, colour bar, legend of the cells that have no number.
#pragma once

#include <string>
#include <vector>

#include "picture/canvas.h"
#include "picture/cells.h"
#include "picture/ticks.h"

namespace multihead::picture {

struct Figure {
  std::string title;
  std::vector<std::string> notes;  ///< lines below the title
  Axis rows, keys;                 ///< positions that the cells cover; a cell covers an equal share
  Cells cells;
  ValueScale scale;
  std::string scale_name;  ///< beside the colour bar: "log₂ p"
  Index plot_size = 768;   ///< pixels of the cells' longer side, about: cells are whole pixels
  Index text_size = 0;     ///< pixels of the letters' height; 0: as fits the plot
};

/// Throws InvalidArgument for a figure without cells, or with lists whose lengths do not fit.
void check(const Figure& figure);

/// The figure as pixels. Throws as check().
Raster render_pixels(const Figure& figure);
/// The bytes of a PNG file with the figure and, as text chunks, its title and notes.
std::string render_png(const Figure& figure);
/// The figure as an SVG document. Up to 4,096 cells are rectangles that tell their numbers, more are an image.
std::string render_svg(const Figure& figure);

}  // namespace multihead::picture
