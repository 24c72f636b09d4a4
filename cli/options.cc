#include "options.h"

namespace multihead::cli {

CLI::ValidationError refusal(const std::string& name, const std::string& expected, const std::string& got) {
  return CLI::ValidationError(name, "expected " + expected + "; got '" + got + "'");
}

namespace {

std::string words_of(const IntegerRange& range) {
  if (range.max != std::numeric_limits<Index>::max()) {
    return "an integer from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  }
  if (range.min == std::numeric_limits<Index>::min()) return "a 64-bit integer";
  return "an integer of " + std::to_string(range.min) + " or more";
}

std::optional<Window> parse_window(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos || text == ",") return std::nullopt;
  Window window;
  for (const auto& [side, part] : {std::pair{&window.left, text.substr(0, comma)}, {&window.right, text.substr(comma + 1)}}) {
    if (part.empty()) continue;
    *side = parse_number<Index>(part);
    if (!*side || **side < 0) return std::nullopt;
  }
  return window;
}

}  // namespace

CLI::Option* add_path(CLI::App& app, const std::string& name, std::optional<std::filesystem::path>& value,
                      const std::string& description) {
  return app
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { value = text; }, description)
      ->type_name("PATH");
}

CLI::Option* add_integer(CLI::App& app, const std::string& name, std::optional<Index>& value, const std::string& description,
                         IntegerRange range) {
  const auto parse = [&value, name, range](const std::string& text) {
    value = parse_number<Index>(text);
    if (!value || *value < range.min || *value > range.max) throw refusal(name, words_of(range), text);
  };
  return app.add_option_function<std::string>(name, parse, description)->type_name("N");
}

CLI::Option* add_real(CLI::App& app, const std::string& name, std::optional<float>& value, const std::string& description) {
  const auto parse = [&value, name](const std::string& text) {
    value = parse_number<float>(text);
    if (!value) throw refusal(name, "a number that f32 can hold", text);
  };
  return app.add_option_function<std::string>(name, parse, description)->type_name("X");
}

CLI::Option* add_dtype(CLI::App& app, const std::string& name, std::optional<DType>& value, const std::string& description) {
  const auto parse = [&value, name](const std::string& text) {
    value = parse_dtype(text);
    if (!value || !is_attention_dtype(*value)) throw refusal(name, "f32, f16 or bf16", text);
  };
  return app.add_option_function<std::string>(name, parse, description)->type_name("f32|f16|bf16");
}

CLI::Option* add_window(CLI::App& app, const std::string& name, std::optional<Window>& value, const std::string& description) {
  const auto parse = [&value, name](const std::string& text) {
    value = parse_window(text);
    if (!value) throw refusal(name, "LEFT,RIGHT with distances of 0 or more, one of them may be empty (5, or ,0)", text);
  };
  return app.add_option_function<std::string>(name, parse, description)->type_name("LEFT,RIGHT");
}

CLI::ParseError usage_error(const std::string& text) { return CLI::ValidationError(text); }

}  // namespace multihead::cli
