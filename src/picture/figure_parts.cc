#include "picture/figure_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace multihead::picture {
namespace {

std::string formatted(const char* format, double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

Box cell_box(const FigureLayout& layout, Index row, Index column) {
  return {layout.plot.x + layout.cell_width * static_cast<double>(column),
          layout.plot.y + layout.cell_height * static_cast<double>(row), layout.cell_width, layout.cell_height};
}

// "query 3" or "queries 4–7".
std::string place_of(const Axis& axis, Index cell, Index cells) {
  const Index begin = axis.begin + cell * axis.size() / cells,
              end = std::min(axis.begin + (cell + 1) * axis.size() / cells, axis.length);
  if (end - begin > 1) return axis.name + " " + grouped(begin) + "–" + grouped(end - 1);
  const std::string label = axis.labels.empty() ? "" : " '" + axis.labels[static_cast<std::size_t>(begin - axis.begin)] + "'";
  return axis.name + " " + grouped(begin) + label;
}

std::string value_text(const Figure& figure, double value) {
  if (figure.scale.kind == ScaleKind::kLinear) return formatted("%.2f", value);
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  return label_of(figure.scale.kind, std::round(10 * value) / 10);
}

double line_width(double em) { return std::max(1.0, std::round(em / 16)); }

}  // namespace

void draw_cells(const Figure& figure, const FigureLayout& layout, Canvas& canvas) {
  const Cells& cells = figure.cells;
  const double smaller = std::min(layout.cell_width, layout.cell_height), gap = smaller >= 14 ? 1 : 0;
  const bool with_numbers = smaller >= 3.2 * layout.em;
  for (Index row = 0; row < cells.height; ++row) {
    for (Index column = 0; column < cells.width; ++column) {
      const Paint paint = paint_of(figure.scale, cells, row, column);
      Box box = cell_box(layout, row, column);
      if (paint.kind == CellKind::kValue) {
        box.width -= column + 1 < cells.width ? gap : 0;
        box.height -= row + 1 < cells.height ? gap : 0;
      }
      const bool has_number = cells.kind(row, column) == CellKind::kValue;
      const std::string number = has_number ? value_text(figure, cells.value(row, column)) : "";
      canvas.rectangle(box, paint,
                       place_of(figure.rows, row, cells.height) + ", " + place_of(figure.keys, column, cells.width) + ": " +
                           (has_number ? formatted("%.6g", cells.value(row, column)) : std::string(name_of(paint.kind))));
      if (!with_numbers || !has_number) continue;
      const Rgb ink = paint.kind == CellKind::kValue ? ink_on(paint.color) : kFaint;
      if (paint.kind == CellKind::kBelow) {
        const double width = text_width(number, layout.em) + 0.6 * layout.em;
        canvas.rectangle({box.x + (box.width - width) / 2, box.y + box.height / 2 - 0.8 * layout.em, width, 1.6 * layout.em},
                         kWhite);
      }
      canvas.text({box.x + box.width / 2, box.y + box.height / 2 + 0.35 * layout.em}, number,
                  {layout.em, Anchor::kMiddle, false, false, ink});
    }
  }
}

void draw_row_ticks(const FigureLayout& layout, Canvas& canvas) {
  const double em = layout.em, line = line_width(em), length = std::round(0.35 * em);
  const Box& plot = layout.plot;
  for (const Tick& tick : layout.row_ticks) {
    const double y = std::floor(plot.y + tick.at * plot.height);
    canvas.rectangle({plot.x - line - length, y, length, line}, kInk);
    canvas.text({plot.x - line - length - 0.35 * em, y + 0.35 * em}, tick.label, {em, Anchor::kEnd, false, false, kInk});
  }
}

void draw_key_ticks(const FigureLayout& layout, Canvas& canvas) {
  const double em = layout.em, line = line_width(em), length = std::round(0.35 * em);
  const Box& plot = layout.plot;
  const double below = plot.bottom() + line + length;
  for (const Tick& tick : layout.key_ticks) {
    const double x = std::floor(plot.x + tick.at * plot.width);
    canvas.rectangle({x, plot.bottom() + line, line, length}, kInk);
    if (layout.upright_key_labels) {
      canvas.text({x + 0.35 * em, below + 0.35 * em}, tick.label, {em, Anchor::kEnd, false, true, kInk});
    } else {
      canvas.text({x, below + 1.1 * em}, tick.label, {em, Anchor::kMiddle, false, false, kInk});
    }
  }
}

void draw_axis_names(const Figure& figure, const FigureLayout& layout, const Box& around, Canvas& canvas) {
  const double em = layout.em, below = around.bottom() + line_width(em) + std::round(0.35 * em);
  const TextStyle name{em, Anchor::kMiddle, false, false, kInk};
  canvas.text({around.x + around.width / 2, below + 0.5 * em + layout.key_label_height + 1.3 * em}, figure.keys.name, name);
  TextStyle upwards = name;
  upwards.upwards = true;
  canvas.text({1.9 * em, around.y + around.height / 2}, figure.rows.name, upwards);
}

void draw_frame(const FigureLayout& layout, Canvas& canvas) { canvas.frame(layout.plot, line_width(layout.em), kInk); }

void draw_bar(const Figure& figure, const FigureLayout& layout, Canvas& canvas) {
  const double em = layout.em, line = line_width(em);
  const Box& bar = layout.bar;
  const Palette& palette = figure.scale.palette();
  // From rounded edge to rounded edge, so that no gap shines through.
  for (int i = 0; i < Palette::kSteps; ++i) {
    const double top = std::floor(bar.bottom() - bar.height * (i + 1) / Palette::kSteps);
    const double bottom = std::floor(bar.bottom() - bar.height * i / Palette::kSteps);
    canvas.rectangle({bar.x, top, bar.width, bottom - top}, palette.step(i));
  }
  canvas.frame(bar, line, kInk);
  const double middle = bar.x + bar.width / 2, length = 0.95 * em;
  const auto end = [&](double edge, double tip, const Paint& paint) {
    canvas.polygon({{bar.x - line, edge}, {bar.right() + line, edge}, {middle, tip}}, kInk);
    const double inwards = edge < tip ? 1 : -1;
    canvas.polygon({{bar.x + line, edge + inwards * line},
                    {bar.right() - line, edge + inwards * line},
                    {middle, tip - inwards * 2 * line}},
                   paint);
  };
  if (figure.scale.has_above()) end(bar.y - line - 1, bar.y - line - 1 - length, palette.over());
  if (figure.scale.has_below()) end(bar.bottom() + line + 1, bar.bottom() + line + 1 + length, CellKind::kBelow);
  for (const Tick& tick : layout.scale_ticks) {
    const double y = std::floor(std::min(bar.bottom() - tick.at * bar.height, bar.bottom() - 1));
    canvas.rectangle({bar.right() + line, y, std::round(0.35 * em), line}, kInk);
    canvas.text({bar.right() + 0.8 * em, y + 0.35 * em}, tick.label, {em, Anchor::kStart, false, false, kInk});
  }
  canvas.text({bar.right() + 0.8 * em + layout.scale_label_width + 1.7 * em, bar.y + bar.height / 2}, figure.scale_name,
              {em, Anchor::kMiddle, false, true, kInk});
}

void draw_text(const Figure& figure, const FigureLayout& layout, Canvas& canvas) {
  const double em = layout.em;
  double y = 2.2 * em;
  canvas.text({em, y}, figure.title, {1.25 * em, Anchor::kStart, true, false, kInk});
  for (const std::string& note : figure.notes) {
    y += 1.5 * em;
    canvas.text({em, y}, note, {em, Anchor::kStart, false, false, kFaint});
  }
  for (const LegendEntry& entry : layout.legend) {
    const Box swatch{std::round(entry.at.x), std::round(entry.at.y), std::round(1.5 * em), std::round(1.2 * em)};
    canvas.rectangle(swatch, entry.paint);
    canvas.frame(swatch, 1, kInk);
    canvas.text({swatch.right() + 0.6 * em, swatch.bottom() - 0.25 * em}, entry.text, {em, Anchor::kStart, false, false, kInk});
  }
}

}  // namespace multihead::picture
