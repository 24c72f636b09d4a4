#include "picture/color.h"

#include <algorithm>
#include <cmath>

namespace multihead::picture {
namespace {

// The transfer curve of IEC 61966-2-1.
double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

std::uint8_t channel(double linear_value) {
  const double c = std::clamp(linear_value, 0.0, 1.0);
  const double curved = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * curved));
}

}  // namespace

OkLab oklab_of(Rgb color) {
  const double r = linear(color.r), g = linear(color.g), b = linear(color.b);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s, 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

std::array<double, 3> linear_rgb_of(const OkLab& color) {
  const auto cubed = [](double x) { return x * x * x; };
  const double l = cubed(color.lightness + 0.3963377774 * color.a + 0.2158037573 * color.b);
  const double m = cubed(color.lightness - 0.1055613458 * color.a - 0.0638541728 * color.b);
  const double s = cubed(color.lightness - 0.0894841775 * color.a - 1.2914855480 * color.b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

Rgb srgb_of(const OkLab& color) {
  const auto [r, g, b] = linear_rgb_of(color);
  return {channel(r), channel(g), channel(b)};
}

double distance(const OkLab& a, const OkLab& b) { return std::hypot(a.lightness - b.lightness, a.a - b.a, a.b - b.b); }

Rgb grey_of(Rgb color) {
  const std::uint8_t grey = channel(0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b));
  return {grey, grey, grey};
}

Rgb mixed(Rgb bottom, Rgb top, double weight) {
  const auto mix = [weight](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + weight * (to - from)));
  };
  return {mix(bottom.r, top.r), mix(bottom.g, top.g), mix(bottom.b, top.b)};
}

std::string hex(Rgb color) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "#";
  for (const std::uint8_t c : {color.r, color.g, color.b}) {
    text += kDigits[c >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

Rgb ink_on(Rgb ground) { return oklab_of(ground).lightness > 0.62 ? kBlack : kWhite; }

}  // namespace multihead::picture
