#include "picture/cells.h"

#include <algorithm>
#include <cmath>

namespace multihead::picture {
namespace {

constexpr Rgb kPale{240, 240, 240}, kHatch{160, 160, 160}, kDot{120, 120, 120}, kStripe{200, 200, 200}, kAlarm{230, 40, 160};

std::vector<double> finite_values(const Cells& cells) {
  std::vector<double> values;
  for (std::size_t i = 0; i < cells.values.size(); ++i) {
    if (cells.kinds[i] == CellKind::kValue && std::isfinite(cells.values[i])) values.push_back(cells.values[i]);
  }
  return values;
}

// By position in the sorted list, without interpolation. The list is not empty.
double percentile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace

std::string_view name_of(CellKind kind) {
  switch (kind) {
    case CellKind::kValue:
      return "value";
    case CellKind::kBelow:
      return "below the scale";
    case CellKind::kMasked:
      return "masked";
    case CellKind::kOutside:
      return "outside";
    case CellKind::kPending:
      return "pending";
    case CellKind::kNonFinite:
      return "not finite";
  }
  return "";
}

Rgb pattern_color(CellKind kind, Index x, Index y) {
  const Index u = x % kPatternPeriod, v = y % kPatternPeriod;
  switch (kind) {
    case CellKind::kValue:
    case CellKind::kOutside:
      return kWhite;  // the page itself
    case CellKind::kBelow:
      return v % 3 == 1 && u % 6 == (v % 6 == 1 ? 1 : 4) ? kDot : kWhite;  // sparse dots
    case CellKind::kMasked:
      return (u + v) % 6 == 0 ? kHatch : kPale;  // diagonal hatching
    case CellKind::kPending:
      return u % 6 < 3 ? kStripe : kWhite;  // upright stripes
    case CellKind::kNonFinite:
      return u % 4 < 2 && v % 4 < 2 ? kBlack : kAlarm;  // loud, and a single pixel of it is loud too
  }
  return kWhite;
}

Rgb color_at(const Paint& paint, Index x, Index y) {
  return paint.kind == CellKind::kValue ? paint.color : pattern_color(paint.kind, x, y);
}

Paint paint_of(const ValueScale& scale, double value) {
  const auto [low, high] = scale.domain;
  if (!(value >= low)) return std::isnan(value) ? CellKind::kNonFinite : CellKind::kBelow;
  if (scale.is_above(value)) return scale.palette().over();
  return scale.palette().at(high > low ? std::min(1.0, (value - low) / (high - low)) : 0.5);
}

Paint paint_of(const ValueScale& scale, const Cells& cells, Index row, Index column) {
  const CellKind kind = cells.kind(row, column);
  return kind == CellKind::kValue ? paint_of(scale, cells.value(row, column)) : Paint(kind);
}

Domain domain_for(ScaleKind kind, const Cells& cells) {
  if (kind == ScaleKind::kLinear) return {0, 1};
  std::vector<double> values = finite_values(cells);
  if (kind == ScaleKind::kLog) {
    if (values.empty()) return {-16, 0};
    const double high = std::min(0.0, std::ceil(*std::max_element(values.begin(), values.end())));
    return {std::clamp(std::floor(percentile(std::move(values), 0.1)), high - 20, high - 4), high};
  }
  std::vector<double> sizes, positive;
  for (const double value : values) {
    sizes.push_back(std::abs(value));
    if (value > 0) positive.push_back(value);
  }
  const double all = sizes.empty() ? 0 : percentile(std::move(sizes), 0.75);
  const double high = positive.empty() ? 0 : percentile(std::move(positive), 0.99);
  const double size = std::clamp(std::ceil(std::max(all, high)), 1.0, 12.0);
  return {-size, size};
}

Census census_of(const ValueScale& scale, const Cells& cells) {
  Census census;
  for (Index row = 0; row < cells.height; ++row) {
    for (Index column = 0; column < cells.width; ++column) {
      const CellKind kind = paint_of(scale, cells, row, column).kind;
      ++census.of_kind[static_cast<std::size_t>(kind)];
      if (kind == CellKind::kValue && scale.is_above(cells.value(row, column))) ++census.above;
    }
  }
  return census;
}

}  // namespace multihead::picture
