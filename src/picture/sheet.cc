#include "picture/sheet.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"
#include "picture/figure_parts.h"
#include "picture/raster_canvas.h"

namespace multihead::picture {
namespace {

// The figure of one panel: what they share, with its cells.
Figure figure_of(const Sheet& sheet, const Panel& panel) {
  Figure figure = sheet.common;
  figure.cells = panel.cells;
  return figure;
}

void check_panels(const Sheet& sheet) {
  require(!sheet.panels.empty(), "sheet: expected panels; got none");
  const Cells& first = sheet.panels.front().cells;
  for (const Panel& panel : sheet.panels) {
    require(panel.cells.height == first.height && panel.cells.width == first.width, "sheet: expected panels of ", first.height,
            " x ", first.width, " cells like the first; got ", panel.cells.height, " x ", panel.cells.width);
    check(figure_of(sheet, panel));
  }
}

Census census_of(const Sheet& sheet) {
  Census sum;
  for (const Panel& panel : sheet.panels) {
    const Census one = picture::census_of(sheet.common.scale, panel.cells);
    for (std::size_t kind = 0; kind < sum.of_kind.size(); ++kind) sum.of_kind[kind] += one.of_kind[kind];
    sum.above += one.above;
  }
  return sum;
}

double text_size_of(const Sheet& sheet, Index columns) {
  if (sheet.common.text_size > 0) return static_cast<double>(sheet.common.text_size);
  return std::clamp(std::round(static_cast<double>(columns * sheet.common.plot_size) / 72), 11.0, 24.0);
}

// A name above each panel; labels of the keys stand below the lowest of each column, and may be as wide as they are.
void place_panels(const Sheet& sheet, Point corner, SheetLayout& layout) {
  const FigureLayout& common = layout.common;
  const double em = common.em, name = std::round(1.5 * em), below = std::round(0.5 * em);
  double widest = 0;
  for (const Tick& tick : common.key_ticks) widest = std::max(widest, text_width(tick.label, em));
  const double beside = std::round(std::max(0.8 * em, common.upright_key_labels ? 0 : 0.6 * widest + 0.3 * em));
  for (std::size_t i = 0; i < sheet.panels.size(); ++i) {
    const Index row = static_cast<Index>(i) / layout.columns, column = static_cast<Index>(i) % layout.columns;
    layout.plots.push_back({corner.x + static_cast<double>(column) * (common.plot.width + beside),
                            corner.y + name + static_cast<double>(row) * (common.plot.height + name + below), common.plot.width,
                            common.plot.height});
  }
  const Box& last_of_row = layout.plots[static_cast<std::size_t>(layout.columns) - 1];
  layout.around = {corner.x, corner.y + name, last_of_row.right() - corner.x, layout.plots.back().bottom() - corner.y - name};
}

}  // namespace

Index columns_of(Index panels) {
  const double root = std::sqrt(static_cast<double>(panels));
  auto best = static_cast<Index>(std::ceil(root));
  const auto empty = [panels](Index columns) { return (columns - panels % columns) % columns; };
  for (Index columns = best + 1; columns <= static_cast<Index>(2 * root); ++columns) {
    if (empty(columns) < empty(best)) best = columns;
  }
  return best;
}

SheetLayout layout_of(const Sheet& sheet) {
  check_panels(sheet);
  SheetLayout layout;
  FigureLayout& common = layout.common;
  layout.columns = columns_of(static_cast<Index>(sheet.panels.size()));
  common.em = text_size_of(sheet, layout.columns);
  const Figure first = figure_of(sheet, sheet.panels.front());
  size_cells(first, common);
  choose_ticks(first, common);
  common.legend = legend_of(sheet.common.scale, census_of(sheet));

  place_panels(sheet, plot_corner(first, common), layout);
  common.plot = layout.plots.front();
  place_surroundings(first, layout.around, common);
  return layout;
}

Raster render_pixels(const Sheet& sheet) {
  const SheetLayout layout = layout_of(sheet);
  const auto count = static_cast<Index>(sheet.panels.size());
  RasterCanvas canvas(layout.common.width, layout.common.height);
  FigureLayout panel = layout.common;
  for (Index i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    panel.plot = layout.plots[at];
    draw_cells(figure_of(sheet, sheet.panels[at]), panel, canvas);
    draw_frame(panel, canvas);
    canvas.text({panel.plot.x, panel.plot.y - 0.45 * panel.em}, sheet.panels[at].name,
                {panel.em, Anchor::kStart, false, false, kInk});
    if (i % layout.columns == 0) draw_row_ticks(panel, canvas);
    if (i + layout.columns >= count) draw_key_ticks(panel, canvas);
  }
  draw_axis_names(sheet.common, layout.common, layout.around, canvas);
  draw_bar(sheet.common, layout.common, canvas);
  draw_text(sheet.common, layout.common, canvas);
  return canvas.pixels();
}

std::string render_png(const Sheet& sheet) { return encode_png(render_pixels(sheet), text_of(sheet.common)); }

}  // namespace multihead::picture
