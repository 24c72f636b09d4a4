// What a figure is drawn on: pixels or SVG. Units are pixels, the origin is top left, y points down.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "picture/cells.h"
#include "picture/raster.h"
#include "picture/stroke_font.h"

namespace multihead::picture {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 16;  ///< of the em
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  bool upwards = false;  ///< turned by a quarter, read from below
  Rgb color = kBlack;
};

class Canvas {
 public:
  virtual ~Canvas() = default;

  /// `hint` is shown when the reader points at it, where there is pointing.
  virtual void rectangle(const Box& box, const Paint& paint, const std::string& hint = {}) = 0;
  virtual void polygon(const std::vector<Point>& corners, const Paint& paint) = 0;
  /// `at` is the anchor on the base line.
  virtual void text(Point at, std::string_view text, const TextStyle& style) = 0;
  /// Pixel by pixel.
  virtual void image(Point top_left, const Raster& pixels) = 0;

  /// The outline of a box, `thickness` wide, just outside it.
  void frame(const Box& box, double thickness, Rgb color) {
    const double t = thickness;
    rectangle({box.x - t, box.y - t, box.width + 2 * t, t}, color);
    rectangle({box.x - t, box.bottom(), box.width + 2 * t, t}, color);
    rectangle({box.x - t, box.y, t, box.height}, color);
    rectangle({box.right(), box.y, t, box.height}, color);
  }
};

}  // namespace multihead::picture
