// A rectangle of pixels.
#pragma once

#include <vector>

#include "multihead/tensor.h"
#include "picture/color.h"

namespace multihead::picture {

/// Row-major, first row on top.
class Raster {
 public:
  Raster() = default;
  Raster(Index width, Index height, Rgb ground) : width_(width), height_(height) {
    pixels_.resize(static_cast<std::size_t>(width * height), ground);
  }

  Index width() const { return width_; }
  Index height() const { return height_; }
  Rgb& at(Index x, Index y) { return pixels_[static_cast<std::size_t>(y * width_ + x)]; }
  Rgb at(Index x, Index y) const { return pixels_[static_cast<std::size_t>(y * width_ + x)]; }
  const Rgb* row(Index y) const { return pixels_.data() + y * width_; }
  bool contains(Index x, Index y) const { return x >= 0 && x < width_ && y >= 0 && y < height_; }

 private:
  Index width_ = 0, height_ = 0;
  std::vector<Rgb> pixels_;
};

}  // namespace multihead::picture
