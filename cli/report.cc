#include "report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>

namespace multihead::cli {
namespace {

// Code points, not bytes: equations are written with √ and ·.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; }));
}

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return align == Table::Align::kLeft ? text + space : space + text;
}

struct Unit {
  double size;
  const char* name;
};

// The number in the largest unit that it reaches; units from large to small.
template <std::size_t N>
std::string in_units(double number, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (std::abs(number) >= unit.size) return formatted("%.4g", number / unit.size) + " " + unit.name;
  }
  return formatted("%.4g", number / units.back().size) + " " + units.back().name;
}

}  // namespace

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width_of(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      line += (c > 0 ? "  " : "") + padded(cell(c), widths[c], columns_[c].align);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line([&](std::size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) add_line([&](std::size_t c) { return row[c]; });
  return text;
}

void Report::print(bool json) const {
  if (json) return cli::print(json_);
  std::size_t width = 0;
  for (const auto& [name, line] : lines_) width = std::max(width, width_of(name));
  std::string text;
  for (auto [name, line] : lines_) {
    std::replace(name.begin(), name.end(), '_', ' ');
    text += padded(name, width + 2, Table::Align::kLeft) + line + "\n";
  }
  cli::print(text + tail_);
}

void print(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) throw IoError("cannot write to standard output");
}

void print(const Json& json) { print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }

void progress(const std::string& text) {
  if (isatty(STDERR_FILENO) != 0) std::cerr << "multihead: " << text << std::endl;
}

Json json_of(const Dims& dims) { return Json(std::vector<Index>(dims.begin(), dims.end())); }

std::string grouped(Index number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string with_prefix(double number) {
  static constexpr std::array<Unit, 6> kUnits{{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  std::string text = in_units(number, kUnits);
  if (text.back() == ' ') text.pop_back();
  return text;
}

std::string bytes_text(double bytes) {
  static constexpr std::array<Unit, 6> kUnits{
      {{0x1p50, "PiB"}, {0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}}};
  return in_units(bytes, kUnits);
}

std::string seconds_text(double seconds) {
  static constexpr std::array<Unit, 3> kUnits{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  return in_units(seconds, kUnits);
}

std::string formatted(const char* format, double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

std::string scientific(double number) { return formatted("%.2e", number); }

}  // namespace multihead::cli
