// Colours as screens have them (sRGB, 8 bits a channel) and as eyes have them (OKLab: equal distances look equally large).
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace multihead::picture {

/// sRGB with its transfer curve, as PNG, SVG and terminals take it.
struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

constexpr Rgb kBlack{0, 0, 0}, kWhite{255, 255, 255};

/// B. Ottosson's OKLab (2020): lightness from 0 (black) to 1 (white), a from green to red, b from blue to yellow.
struct OkLab {
  double lightness = 0, a = 0, b = 0;
};

OkLab oklab_of(Rgb color);
/// The nearest 8-bit colour, channels beyond the gamut cut off.
Rgb srgb_of(const OkLab& color);
/// Linear red, green, blue, each in [0, 1] exactly when a screen can show the colour.
std::array<double, 3> linear_rgb_of(const OkLab& color);

/// Distance that the eye sees.
double distance(const OkLab& a, const OkLab& b);
/// The grey that a printer without colours would use, by luminance (0.2126 R + 0.7152 G + 0.0722 B, linear).
Rgb grey_of(Rgb color);

/// `weight` of `top` over the rest of `bottom`.
Rgb mixed(Rgb bottom, Rgb top, double weight);
/// "#rrggbb".
std::string hex(Rgb color);
/// Black or white, whichever is easier to read on `ground`.
Rgb ink_on(Rgb ground);

}  // namespace multihead::picture
