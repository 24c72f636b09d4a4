// What figures of maps are drawn from, piece by piece, where a layout says.
#pragma once

#include "picture/canvas.h"
#include "picture/figure.h"
#include "picture/figure_layout.h"
#include "picture/png.h"

namespace multihead::picture {

constexpr Rgb kInk{30, 30, 30}, kFaint{110, 110, 110};

/// Numbers where they fit, a white line between cells where they are large.
void draw_cells(const Figure& figure, const FigureLayout& layout, Canvas& canvas);
/// The line around the plot.
void draw_frame(const FigureLayout& layout, Canvas& canvas);
/// Marks and their labels left of the plot, and below it.
void draw_row_ticks(const FigureLayout& layout, Canvas& canvas);
void draw_key_ticks(const FigureLayout& layout, Canvas& canvas);
/// The axes' names, in the middle of all plots.
void draw_axis_names(const Figure& figure, const FigureLayout& layout, const Box& around, Canvas& canvas);
void draw_bar(const Figure& figure, const FigureLayout& layout, Canvas& canvas);
/// Title, notes, legend.
void draw_text(const Figure& figure, const FigureLayout& layout, Canvas& canvas);

/// The words that go into the figure's file.
PngText text_of(const Figure& figure);

}  // namespace multihead::picture
