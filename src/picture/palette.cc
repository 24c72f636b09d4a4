#include "picture/palette.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace multihead::picture {
namespace {

constexpr double kPi = std::numbers::pi;

OkLab from_polar(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * kPi / 180;
  return {lightness, chroma * std::cos(hue), chroma * std::sin(hue)};
}

// Lightness falls evenly. The hue goes from 105 (yellow) through 200 (cyan) to 290 (violet): along this way sRGB is narrowest
// at cyan and blue, hue 200 to 235, where a lightness of 0.45 to 0.6 allows a chroma of 0.095; the bump stays below that, and
// the last term uses the room at the dark end.
OkLab sequential_path(double t) {
  const double t4 = t * t * t * t;
  return from_polar(0.975 - 0.735 * t, 0.03 + 0.06 * std::sin(kPi * t) + 0.05 * t4, 105 + 185 * t);
}

// Grey in the middle alone: chroma rises fast to both sides, and falls again towards the ends, where sRGB has less of it (0.09
// for a light blue, 0.11 for a dark red-brown). Both arms change lightness by the same amount.
OkLab diverging_path(double t) {
  const double signed_t = 2 * t - 1, size = std::abs(signed_t);
  const double rise = 1 - (1 - size) * (1 - size) * (1 - size), fall = size * size * size;
  const double chroma = signed_t < 0 ? 0.125 * rise - 0.05 * fall : 0.15 * rise - 0.045 * fall;
  return from_polar(0.62 - 0.26 * signed_t, chroma, signed_t < 0 ? 225 : 40);
}

// `count` parameters in [from, to] whose points divide the path into pieces of equal length: equal steps of the value then look
// equally large, which is what perceptually uniform means.
std::vector<double> even_parameters(const std::function<OkLab(double)>& path, double from, double to, int count) {
  constexpr int kPieces = 2048;
  const auto parameter = [&](double piece) { return from + (to - from) * piece / kPieces; };
  std::vector<double> length{0};
  for (int i = 0; i < kPieces; ++i) length.push_back(length.back() + distance(path(parameter(i)), path(parameter(i + 1))));
  std::vector<double> parameters;
  for (int i = 0; i < count; ++i) {
    const double wanted = length.back() * i / (count - 1);
    const auto after =
        std::clamp<std::ptrdiff_t>(std::lower_bound(length.begin(), length.end(), wanted) - length.begin(), 1, kPieces);
    const double low = length[static_cast<std::size_t>(after) - 1], high = length[static_cast<std::size_t>(after)];
    parameters.push_back(parameter(static_cast<double>(after) - 1 + (wanted - low) / (high - low)));
  }
  return parameters;
}

}  // namespace

Palette::Palette(const Path& path, bool has_middle, const OkLab& under, const OkLab& over)
    : under_(srgb_of(under)), over_(srgb_of(over)) {
  std::vector<double> parameters;
  if (has_middle) {
    // Each half is even on its own, and the two steps in the middle lie half a step beside 0: of kSteps points in a half every
    // other one is a step, 0, 2, … from the low end and 0, 2, … from the high end.
    for (const double end : {0.0, 1.0}) {
      std::vector<double> half = even_parameters(path, end, 0.5, kSteps);
      for (int i = 0; i < kSteps / 2; ++i) parameters.push_back(half[static_cast<std::size_t>(2 * i)]);
      if (end == 1) std::reverse(parameters.begin() + kSteps / 2, parameters.end());
    }
  } else {
    parameters = even_parameters(path, 0, 1, kSteps);
  }
  std::transform(parameters.begin(), parameters.end(), steps_.begin(), [&](double t) { return srgb_of(path(t)); });
}

const Palette& Palette::sequential() {
  static const Palette palette(sequential_path, false, {1, 0, 0}, {0.12, 0, 0});
  return palette;
}

const Palette& Palette::diverging() {
  static const Palette palette(diverging_path, true, from_polar(0.965, 0.015, 225), from_polar(0.2, 0.05, 30));
  return palette;
}

Rgb Palette::at(double position) const {
  return step(static_cast<int>(std::lround(std::clamp(position, 0.0, 1.0) * (kSteps - 1))));
}

}  // namespace multihead::picture
