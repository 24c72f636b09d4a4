#include "picture/figure.h"

#include <algorithm>

#include "base/message.h"
#include "picture/figure_layout.h"
#include "picture/figure_parts.h"
#include "picture/png.h"
#include "picture/raster_canvas.h"
#include "picture/svg_canvas.h"

namespace multihead::picture {
namespace {

constexpr Index kMostVectorCells = 4096;

Raster cell_pixels(const Figure& figure, const FigureLayout& layout) {
  Raster pixels(static_cast<Index>(layout.plot.width), static_cast<Index>(layout.plot.height), kWhite);
  const auto cell_width = static_cast<Index>(layout.cell_width), cell_height = static_cast<Index>(layout.cell_height);
  for (Index y = 0; y < pixels.height(); ++y) {
    for (Index x = 0; x < pixels.width(); ++x) {
      pixels.at(x, y) = color_at(paint_of(figure.scale, figure.cells, y / cell_height, x / cell_width), x, y);
    }
  }
  return pixels;
}

void draw_all_but_cells(const Figure& figure, const FigureLayout& layout, Canvas& canvas) {
  draw_frame(layout, canvas);
  draw_row_ticks(layout, canvas);
  draw_key_ticks(layout, canvas);
  draw_axis_names(figure, layout, layout.plot, canvas);
  draw_bar(figure, layout, canvas);
  draw_text(figure, layout, canvas);
}

}  // namespace

PngText text_of(const Figure& figure) {
  PngText text{{"Title", figure.title}, {"Software", "multihead"}};
  for (const std::string& note : figure.notes) text.emplace_back("Comment", note);
  return text;
}

void check(const Figure& figure) {
  const Cells& cells = figure.cells;
  const auto size = static_cast<std::size_t>(std::max<Index>(0, cells.height) * std::max<Index>(0, cells.width));
  require(cells.height > 0 && cells.width > 0, "figure: expected cells; got ", cells.height, " x ", cells.width);
  require(cells.values.size() == size && cells.kinds.size() == size, "figure: expected ", size, " values and kinds; got ",
          cells.values.size(), " and ", cells.kinds.size());
  for (const Axis* axis : {&figure.rows, &figure.keys}) {
    const Index existing = axis->existing_end() - axis->begin;
    require(axis->labels.empty() || static_cast<Index>(axis->labels.size()) == existing, "figure: expected ", existing,
            " labels or none; got ", axis->labels.size());
  }
  require(figure.plot_size > 0, "figure: expected a size in pixels; got ", figure.plot_size);
}

Raster render_pixels(const Figure& figure) {
  check(figure);
  const FigureLayout layout = layout_of(figure);
  RasterCanvas canvas(layout.width, layout.height);
  draw_cells(figure, layout, canvas);
  draw_all_but_cells(figure, layout, canvas);
  return canvas.pixels();
}

std::string render_png(const Figure& figure) { return encode_png(render_pixels(figure), text_of(figure)); }

std::string render_svg(const Figure& figure) {
  check(figure);
  const FigureLayout layout = layout_of(figure);
  SvgCanvas canvas(layout.width, layout.height);
  if (figure.cells.height * figure.cells.width <= kMostVectorCells) {
    draw_cells(figure, layout, canvas);
  } else {
    canvas.image({layout.plot.x, layout.plot.y}, cell_pixels(figure, layout));
  }
  draw_all_but_cells(figure, layout, canvas);
  std::string description;
  for (const std::string& note : figure.notes) description += (description.empty() ? "" : "; ") + note;
  return canvas.document(figure.title, description);
}

}  // namespace multihead::picture
