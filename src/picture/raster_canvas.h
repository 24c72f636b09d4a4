// Drawing on pixels.
#pragma once

#include "picture/canvas.h"

namespace multihead::picture {

/// White at first. What lies beyond the edges is cut off.
class RasterCanvas final : public Canvas {
 public:
  RasterCanvas(Index width, Index height) : pixels_(width, height, kWhite) {}

  /// Edges are rounded to whole pixels; a box that is not empty covers one at least in each direction.
  void rectangle(const Box& box, const Paint& paint, const std::string& hint = {}) override;
  void polygon(const std::vector<Point>& corners, const Paint& paint) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  void image(Point top_left, const Raster& pixels) override;

  const Raster& pixels() const { return pixels_; }

 private:
  void stroke(const std::vector<Point>& points, double thickness, Rgb color);

  Raster pixels_;
};

}  // namespace multihead::picture
