#include "picture/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "io/text.h"
#include "picture/stroke_font.h"

namespace multihead::picture {
namespace {

constexpr const char* kMinus = "−";

std::string formatted(const char* format, double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

// What tells tokens apart must be seen: " a" is not "a".
std::string visible(const std::string& label) {
  const std::size_t first = label.find_first_not_of(' '), last = label.find_last_not_of(' ');
  std::string text;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const bool at_end = first == std::string::npos || i < first || i > last;
    text += label[i] == ' ' && at_end ? "▁" : label[i] == '\n' ? "\\n" : label[i] == '\t' ? "\\t" : std::string(1, label[i]);
  }
  return printable(text);
}

}  // namespace

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  // A little slack: 0.2 / 0.1 may come out as 2.0000000000000004.
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least * (1 - 1e-9)) return step * power;
  }
  return 10 * power;
}

std::vector<Tick> ticks_of(const Axis& axis, double room) {
  std::vector<Tick> ticks;
  const auto size = static_cast<double>(axis.size());
  if (axis.existing_end() <= axis.begin) return ticks;
  const auto add = [&](Index position, std::string label) {
    ticks.push_back({(static_cast<double>(position - axis.begin) + 0.5) / size, std::move(label)});
  };
  if (!axis.labels.empty() && size <= room) {
    for (Index i = axis.begin; i < axis.existing_end(); ++i) {
      add(i, shortened(axis.labels[static_cast<std::size_t>(i - axis.begin)], 14));
    }
    return ticks;
  }
  const auto step = static_cast<Index>(round_step(std::max(1.0, size / std::max(1.0, room))));
  const Index first = (axis.begin + step - 1) / step * step;
  for (Index i = first; i < axis.existing_end(); i += step) add(i, grouped(i));
  if (ticks.empty()) add(axis.begin, grouped(axis.begin));
  return ticks;
}

std::vector<Tick> ticks_of(const ValueScale& scale) {
  const auto [low, high] = scale.domain;
  std::vector<Tick> ticks;
  if (!(high > low)) return {{0.5, label_of(scale.kind, low)}};
  double step = round_step((high - low) / 6);
  if (scale.kind != ScaleKind::kLinear && high - low >= 4) step = std::max(1.0, std::round(step));  // whole bits
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push_back({(i * step - low) / (high - low), label_of(scale.kind, i * step)});
  }
  return ticks;
}

std::string label_of(ScaleKind kind, double value) {
  const std::string digits = formatted("%.4g", std::abs(value));
  if (digits == "0") return digits;
  return concat(value < 0 ? kMinus : kind == ScaleKind::kLift ? "+" : "", digits);
}

std::string shortened(const std::string& label, std::size_t characters) {
  const std::string text = visible(label);
  std::size_t bytes = 0;
  for (std::size_t i = 0; bytes < text.size(); ++i) {
    const std::size_t next = bytes + std::max<std::size_t>(1, utf8_length(std::string_view(text).substr(bytes)));
    if (i + 1 == characters && next < text.size()) return text.substr(0, bytes) + "…";
    bytes = next;
  }
  return text;
}

std::string grouped(Index number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace multihead::picture
