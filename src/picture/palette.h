// The two colour scales of maps. Both get darker from low to high in even steps, so that they survive a copy without colours,
// and turn from warm to cold (or back), never from red to green.
#pragma once

#include <array>
#include <functional>

#include "picture/color.h"

namespace multihead::picture {

/// Colours from the low end to the high end of a domain, and marked ones beyond both.
class Palette {
 public:
  static constexpr int kSteps = 256;

  /// Pale yellow over green and blue to a dark indigo: how much.
  static const Palette& sequential();
  /// Pale blue over a neutral grey, which is 0, to a dark red-brown: less or more. Lightness falls all the way, so that the
  /// sign survives a grey copy, too.
  static const Palette& diverging();

  /// `position` in [0, 1]: the domain.
  Rgb at(double position) const;
  Rgb step(int index) const { return steps_[static_cast<std::size_t>(index)]; }
  /// Lighter than the low end, and darker than the high end.
  Rgb under() const { return under_; }
  Rgb over() const { return over_; }

 private:
  using Path = std::function<OkLab(double)>;
  Palette(const Path& path, bool has_middle, const OkLab& under, const OkLab& over);

  std::array<Rgb, kSteps> steps_{};
  Rgb under_, over_;
};

}  // namespace multihead::picture
