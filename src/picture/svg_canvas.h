// Drawing as SVG 1.1: text stays text, cells stay rectangles, large maps are a PNG inside.
#pragma once

#include <array>

#include "picture/canvas.h"

namespace multihead::picture {

class SvgCanvas final : public Canvas {
 public:
  SvgCanvas(Index width, Index height) : width_(width), height_(height) {}

  void rectangle(const Box& box, const Paint& paint, const std::string& hint = {}) override;
  void polygon(const std::vector<Point>& corners, const Paint& paint) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  void image(Point top_left, const Raster& pixels) override;

  /// The whole file. `title` and `description` are for readers who do not see it.
  std::string document(const std::string& title, const std::string& description) const;

 private:
  std::string fill(const Paint& paint);

  Index width_, height_;
  std::string body_;
  std::array<bool, kCellKinds.size()> used_patterns_{};
};

}  // namespace multihead::picture
