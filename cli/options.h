// Options with strict values: the whole text must be the number, in range, and the complaint says what would be right. (CLI11's
// own conversions read "010" as octal and let "-1" and 10^20 wrap around.)
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "multihead/dtype.h"
#include "multihead/mask.h"

namespace multihead::cli {

/// The whole text as a number, or nothing.
template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// What is wrong with the value of an option.
CLI::ValidationError refusal(const std::string& name, const std::string& expected, const std::string& got);

struct IntegerRange {
  Index min = 0;
  Index max = std::numeric_limits<Index>::max();
};

CLI::Option* add_path(CLI::App& app, const std::string& name, std::optional<std::filesystem::path>& value,
                      const std::string& description);
CLI::Option* add_integer(CLI::App& app, const std::string& name, std::optional<Index>& value, const std::string& description,
                         IntegerRange range = {});
CLI::Option* add_real(CLI::App& app, const std::string& name, std::optional<float>& value, const std::string& description);
/// f32, f16 or bf16.
CLI::Option* add_dtype(CLI::App& app, const std::string& name, std::optional<DType>& value, const std::string& description);
/// LEFT,RIGHT where an empty side is unlimited.
CLI::Option* add_window(CLI::App& app, const std::string& name, std::optional<Window>& value, const std::string& description);

/// A complaint about the command line itself, for combinations that CLI11 cannot express.
CLI::ParseError usage_error(const std::string& text);

}  // namespace multihead::cli
