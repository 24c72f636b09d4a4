#include "picture/figure_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace multihead::picture {
namespace {

// SVG's readers may have wider letters than ours.
double widest(const std::vector<Tick>& ticks, double em) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, 1.08 * text_width(tick.label, em));
  return width;
}

// "12.5 %", or a count where a percentage would say 0.0.
std::string share_of(Index count, Index all) {
  const double percent = 100 * static_cast<double>(count) / static_cast<double>(all);
  if (percent < 0.1) return grouped(count) + (count == 1 ? " cell" : " cells");
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", percent);
  return text;
}

// Puts the legend's entries from left to right, on a new line where the figure ends. Returns the height.
double place_legend(FigureLayout& layout, double left, double top, double right) {
  double x = left, y = top;
  for (LegendEntry& entry : layout.legend) {
    const double width = 2.2 * layout.em + text_width(entry.text, layout.em);
    if (x > left && x + width > right) {
      x = left;
      y += 1.8 * layout.em;
    }
    entry.at = {x, y};
    x += width + 1.8 * layout.em;
  }
  return layout.legend.empty() ? 0 : y + 1.8 * layout.em - top;
}

// The height that the colour bar takes, triangles and all: that of the plots, or more where they are very low.
double bar_room(const FigureLayout& layout, const Box& beside) { return std::max(beside.height, 9 * layout.em); }

// Puts the colour bar right of the plots, with room for the triangles at both ends, which stand for what is beyond the domain.
// Returns the right end of its words.
double place_bar(FigureLayout& layout, const Box& beside) {
  const double em = layout.em, height = bar_room(layout, beside);
  layout.bar = {std::round(beside.right() + 1.6 * em), beside.y + std::round(1.3 * em), std::round(1.2 * em),
                std::round(height - 2.6 * em)};
  return layout.bar.right() + 0.8 * em + layout.scale_label_width + 2.2 * em;
}

}  // namespace

std::vector<LegendEntry> legend_of(const ValueScale& scale, const Census& census) {
  const Index all = std::accumulate(census.of_kind.begin(), census.of_kind.end(), Index{0});
  std::vector<LegendEntry> entries;
  if (census.above > 0) {
    const std::string bound = label_of(scale.kind, scale.domain.high);
    entries.push_back({scale.palette().over(), "above " + bound + ": " + share_of(census.above, all), {}});
  }
  for (const CellKind kind : kCellKinds) {
    const Index count = census.of_kind[static_cast<std::size_t>(kind)];
    if (kind == CellKind::kValue || count == 0) continue;
    std::string words(name_of(kind));
    if (kind == CellKind::kBelow) words = "below " + label_of(scale.kind, scale.domain.low);
    entries.push_back({kind, words + ": " + share_of(count, all), {}});
  }
  return entries;
}

void size_cells(const Figure& figure, FigureLayout& layout) {
  const auto size = static_cast<double>(figure.plot_size);
  const auto height = static_cast<double>(figure.cells.height), width = static_cast<double>(figure.cells.width);
  const double common = std::max(1.0, std::floor(size / std::max(height, width)));
  const double thinnest = size / 16;
  layout.cell_height = std::max(common, std::ceil(thinnest / height));
  layout.cell_width = std::max(common, std::ceil(thinnest / width));
  layout.plot.height = layout.cell_height * height;
  layout.plot.width = layout.cell_width * width;
}

void choose_ticks(const Figure& figure, FigureLayout& layout) {
  const double em = layout.em;
  layout.row_ticks = ticks_of(figure.rows, layout.plot.height / (1.15 * em));
  if (figure.rows.labels.empty() || layout.row_ticks.size() < figure.rows.labels.size()) {
    Axis numbered = figure.rows;
    numbered.labels.clear();
    layout.row_ticks = ticks_of(numbered, layout.plot.height / (3 * em));
  }
  layout.key_ticks = ticks_of(figure.keys, layout.plot.width / (1.15 * em));
  const bool all_labels = !figure.keys.labels.empty() && layout.key_ticks.size() == figure.keys.labels.size();
  if (all_labels) {
    layout.upright_key_labels =
        widest(layout.key_ticks, em) > layout.plot.width / static_cast<double>(figure.keys.size()) - 0.4 * em;
  } else {
    Axis numbered = figure.keys;
    numbered.labels.clear();
    const double label = text_width(grouped(figure.keys.end), em) + 1.6 * em;
    layout.key_ticks = ticks_of(numbered, layout.plot.width / label);
  }
  layout.scale_ticks = ticks_of(figure.scale);
  layout.row_label_width = widest(layout.row_ticks, em);
  layout.key_label_height = layout.upright_key_labels ? widest(layout.key_ticks, em) : em;
  layout.scale_label_width = widest(layout.scale_ticks, em);
}

Point plot_corner(const Figure& figure, const FigureLayout& layout) {
  const double em = layout.em, margin = em;
  return {std::round(margin + 1.7 * em + layout.row_label_width + 0.9 * em),
          std::round(margin + 1.7 * em + 1.5 * em * static_cast<double>(figure.notes.size()) + 0.5 * em)};
}

void place_surroundings(const Figure& figure, const Box& plots, FigureLayout& layout) {
  const double em = layout.em, margin = em;
  double right = place_bar(layout, plots) + margin;
  right = std::max(right, margin + text_width(figure.title, 1.25 * em) * 1.06 + margin);
  for (const std::string& note : figure.notes) right = std::max(right, 2 * margin + text_width(note, em));
  layout.width = static_cast<Index>(std::ceil(right));
  double bottom = std::max(plots.bottom() + 0.6 * em + layout.key_label_height + 2 * em, plots.y + bar_room(layout, plots));
  bottom += layout.legend.empty() ? 0 : 0.8 * em;
  bottom += place_legend(layout, plots.x, bottom, right - margin);
  layout.height = static_cast<Index>(std::ceil(bottom + margin * 0.6));
}

FigureLayout layout_of(const Figure& figure) {
  FigureLayout layout;
  layout.em = figure.text_size > 0 ? static_cast<double>(figure.text_size)
                                   : std::clamp(std::round(static_cast<double>(figure.plot_size) / 44), 11.0, 40.0);
  size_cells(figure, layout);
  choose_ticks(figure, layout);
  layout.legend = legend_of(figure.scale, census_of(figure.scale, figure.cells));

  const Point corner = plot_corner(figure, layout);
  layout.plot.x = corner.x;
  layout.plot.y = corner.y;
  place_surroundings(figure, layout.plot, layout);
  return layout;
}

}  // namespace multihead::picture
