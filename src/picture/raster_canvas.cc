#include "picture/raster_canvas.h"

#include <algorithm>
#include <cmath>

namespace multihead::picture {
namespace {

Index rounded(double x) { return static_cast<Index>(std::lround(x)); }

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, squared = dx * dx + dy * dy;
  const double t = squared > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / squared, 0.0, 1.0) : 0;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

double distance_to_path(Point p, const std::vector<Point>& path) {
  double nearest = std::hypot(p.x - path[0].x, p.y - path[0].y);
  for (std::size_t i = 1; i < path.size(); ++i) nearest = std::min(nearest, distance_to_segment(p, path[i - 1], path[i]));
  return nearest;
}

// Even-odd rule.
bool is_inside(Point p, const std::vector<Point>& corners) {
  bool inside = false;
  for (std::size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[i], b = corners[j];
    if ((a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside;
}

// The part of a pixel inside, from 4 x 4 points.
double coverage(Index x, Index y, const std::vector<Point>& corners) {
  int hits = 0;
  for (int i = 0; i < 16; ++i) {
    const Point p{static_cast<double>(x) + (i % 4 + 0.5) / 4, static_cast<double>(y) + (i / 4 + 0.5) / 4};
    hits += is_inside(p, corners) ? 1 : 0;
  }
  return hits / 16.0;
}

struct PixelRange {
  Index left, top, right, bottom;  // half open
};

PixelRange pixels_around(const std::vector<Point>& points, double margin, const Raster& within) {
  Point low = points[0], high = points[0];
  for (const Point& p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  const auto cut = [](double x, Index limit) { return std::clamp<Index>(static_cast<Index>(std::floor(x)), 0, limit); };
  return {cut(low.x - margin, within.width()), cut(low.y - margin, within.height()), cut(high.x + margin + 1, within.width()),
          cut(high.y + margin + 1, within.height())};
}

}  // namespace

void RasterCanvas::rectangle(const Box& box, const Paint& paint, const std::string&) {
  if (box.width <= 0 || box.height <= 0) return;
  const Index left = rounded(box.x), right = std::max(left + 1, rounded(box.right()));
  const Index top = rounded(box.y), bottom = std::max(top + 1, rounded(box.bottom()));
  for (Index y = std::max<Index>(top, 0); y < std::min(bottom, pixels_.height()); ++y) {
    for (Index x = std::max<Index>(left, 0); x < std::min(right, pixels_.width()); ++x)
      pixels_.at(x, y) = color_at(paint, x, y);
  }
}

void RasterCanvas::polygon(const std::vector<Point>& corners, const Paint& paint) {
  const PixelRange range = pixels_around(corners, 0, pixels_);
  for (Index y = range.top; y < range.bottom; ++y) {
    for (Index x = range.left; x < range.right; ++x) {
      Rgb& pixel = pixels_.at(x, y);
      pixel = mixed(pixel, color_at(paint, x, y), coverage(x, y, corners));
    }
  }
}

// A round pen: a pixel is covered as far as its centre is inside the pen's path, with a ramp one pixel wide at the edge.
void RasterCanvas::stroke(const std::vector<Point>& points, double thickness, Rgb color) {
  const PixelRange range = pixels_around(points, thickness / 2 + 1, pixels_);
  for (Index y = range.top; y < range.bottom; ++y) {
    for (Index x = range.left; x < range.right; ++x) {
      const Point centre{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      const double inside = thickness / 2 + 0.5 - distance_to_path(centre, points);
      if (inside > 0) pixels_.at(x, y) = mixed(pixels_.at(x, y), color, std::min(inside, 1.0));
    }
  }
}

void RasterCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  const double unit = style.size / kUnitsPerEm, width = text_width(text, style.size);
  const double start = style.anchor == Anchor::kStart ? 0 : style.anchor == Anchor::kMiddle ? -width / 2 : -width;
  const double thickness = std::max(1.0, style.size * (style.bold ? 0.125 : 0.08));
  // Whole pixels across the writing, and strokes of odd thickness through the middle of pixels: base lines stay crisp.
  const Point origin{std::floor(at.x) + 0.5, std::floor(at.y) - 0.5};
  double pen = start;
  for (const char32_t character : characters_of(text)) {
    const Glyph& glyph = glyph_of(character);
    for (const std::vector<Point>& shape : glyph.strokes) {
      std::vector<Point> points;
      for (const Point& p : shape) {
        const double along = pen + p.x * unit, up = p.y * unit;
        points.push_back(style.upwards ? Point{origin.x - up, origin.y - along} : Point{origin.x + along, origin.y - up});
      }
      stroke(points, thickness, style.color);
    }
    pen += glyph.advance * unit;
  }
}

void RasterCanvas::image(Point top_left, const Raster& pixels) {
  const Index left = rounded(top_left.x), top = rounded(top_left.y);
  for (Index y = 0; y < pixels.height(); ++y) {
    for (Index x = 0; x < pixels.width(); ++x) {
      if (pixels_.contains(left + x, top + y)) pixels_.at(left + x, top + y) = pixels.at(x, y);
    }
  }
}

}  // namespace multihead::picture
