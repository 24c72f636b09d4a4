// Several maps side by side, small, on one scale: what differs between them is what the eye finds.
#pragma once

#include <string>
#include <vector>

#include "picture/figure.h"
#include "picture/figure_layout.h"

namespace multihead::picture {

struct Panel {
  std::string name;  ///< above it: "head 3"
  Cells cells;
};

struct Sheet {
  /// What the panels share: title, notes, axes, scale. plot_size is that of one panel; text_size 0: as fits the sheet. Its
  /// cells stay empty.
  Figure common;
  std::vector<Panel> panels;  ///< equally large, in reading order
};

/// Columns of a sheet: wider than high, with as few empty places as that allows.
Index columns_of(Index panels);

/// Where everything goes. The layout of panel i is the common one with another plot.
struct SheetLayout {
  FigureLayout common;  ///< width, height, bar and legend of the sheet; cell size, ticks and `plot` of the first panel
  Index columns = 1;
  std::vector<Box> plots;
  Box around;  ///< all panels
};
/// Throws InvalidArgument for a sheet without panels, panels of different sizes, and as check(Figure).
SheetLayout layout_of(const Sheet& sheet);

/// Throw as layout_of().
Raster render_pixels(const Sheet& sheet);
/// The bytes of a PNG file with the sheet and its words.
std::string render_png(const Sheet& sheet);

}  // namespace multihead::picture
