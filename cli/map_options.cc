#include "map_options.h"

#include <cmath>
#include <map>

#include "options.h"

namespace multihead::cli {
namespace {

std::optional<std::pair<std::string, std::string>> halves_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  return std::pair{text.substr(0, colon), text.substr(colon + 1)};
}

void add_range(CLI::App& app, const std::string& name, OpenRange& value, const std::string& description) {
  const auto parse = [&value, name](const std::string& text) {
    const auto halves = halves_of(text);
    bool right = halves.has_value();
    const auto read = [&](const std::string& part, std::optional<Index>& to) {
      if (part.empty()) return;
      to = parse_number<Index>(part);
      right = right && to && *to >= 0;
    };
    if (right) read(halves->first, value.begin);
    if (right) read(halves->second, value.end);
    if (!right || (value.begin && value.end && *value.begin >= *value.end)) {
      throw refusal(name, "FIRST:END with END beyond FIRST, counted from 0, one of them may be empty (100:200, or :50)", text);
    }
  };
  app.add_option_function<std::string>(name, parse, description)->type_name("FIRST:END");
}

void add_domain(CLI::App& app, const std::string& name, std::optional<picture::Domain>& value, const std::string& description) {
  const auto parse = [&value, name](const std::string& text) {
    const auto halves = halves_of(text);
    const auto low = halves ? parse_number<double>(halves->first) : std::nullopt;
    const auto high = halves ? parse_number<double>(halves->second) : std::nullopt;
    if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high) || *low >= *high) {
      throw refusal(name, "LOW:HIGH, two numbers, the second larger (-12:0)", text);
    }
    value = picture::Domain{*low, *high};
  };
  app.add_option_function<std::string>(name, parse, description)->type_name("LOW:HIGH");
}

template <typename Choice>
void add_choice(CLI::App& app, const std::string& name, Choice& value, const std::map<std::string, Choice>& choices,
                const std::string& words, const std::string& description) {
  const auto parse = [&value, name, choices, words](const std::string& text) {
    const auto found = choices.find(text);
    if (found == choices.end()) throw refusal(name, words, text);
    value = found->second;
  };
  app.add_option_function<std::string>(name, parse, description)->type_name(words);
}

}  // namespace

IndexRange OpenRange::within(const std::string& name, Index length) const {
  const IndexRange range{begin.value_or(0), end.value_or(length)};
  if (range.begin >= range.end || range.end > length) {
    throw InvalidArgument(name + ": expected a part of 0:" + std::to_string(length) + "; got " + std::to_string(range.begin) +
                          ":" + std::to_string(range.end));
  }
  return range;
}

void add_map_options(CLI::App& command, MapOptions& options) {
  using picture::ScaleKind;
  const std::string part = "What is shown", look = "How", result = "Where to";
  add_path(command, "CAPTURE", options.capture, "file that `multihead capture` wrote")->required();
  add_integer(command, "--head", options.head, "query head, from 0")->required()->group(part);
  add_integer(command, "--batch", options.batch, "batch entry, from 0; default 0")->group(part);
  add_range(command, "--rows", options.rows, "queries to show; default all");
  add_range(command, "--keys", options.keys, "keys to show; default all");
  add_choice<Pooling>(
      command, "--pool", options.pooling, {{"max", Pooling::kMax}, {"mean", Pooling::kMean}, {"mass", Pooling::kMass}},
      "max|mean|mass",
      "what a cell of many coefficients shows: the largest; their mean over visible pairs; their sum over keys, "
      "averaged over queries. Default max");
  add_choice<ScaleKind>(
      command, "--scale", options.scale, {{"linear", ScaleKind::kLinear}, {"log", ScaleKind::kLog}, {"lift", ScaleKind::kLift}},
      "linear|log|lift", "p; log2 p; or log2 of p times the number of visible keys, 0 where attention is uniform. Default log");
  add_domain(command, "--domain", options.domain,
             "values of the scale that get colours of their own; default 0:1 for linear, else from the values");
  add_integer(command, "--size", options.size, "pixels and most cells of the longer side, 16 to 8192; default 768", {16, 8192});
  for (const char* name : {"--rows", "--keys"}) command.get_option(name)->group(part);
  for (const char* name : {"--pool", "--scale", "--domain", "--size"}) command.get_option(name)->group(look);
  add_path(command, "--output", options.output, "a figure as .png or .svg, or the values as .npy")->group(result);
  command.add_flag("--terminal", options.terminal, "print the map, in colours where the terminal has them")->group(result);
  command.add_flag("--json", options.json, "print one JSON object instead of text")->group(result);
  add_machine_options(command, options.machine, look);
}

}  // namespace multihead::cli
