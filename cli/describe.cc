// multihead describe: every step of a layer as shapes, parameters, operations and bytes.
#include <memory>

#include "command.h"
#include "layers.h"
#include "multihead/layer.h"
#include "options.h"
#include "report.h"

namespace multihead::cli {
namespace {

struct DescribeOptions {
  std::string preset;
  std::optional<Index> model_dim, num_heads, num_kv_heads, head_dim, length, key_length;
  bool json = false;
};

LayerConfig config_of(const DescribeOptions& options) {
  if (!options.preset.empty()) return find_preset(options.preset).config;
  LayerConfig config;
  config.model_dim = *options.model_dim;
  config.num_heads = *options.num_heads;
  config.num_kv_heads = options.num_kv_heads.value_or(0);
  config.head_dim = options.head_dim.value_or(0);
  return config;
}

Json description_json(const LayerDescription& description) {
  Json steps = Json::array();
  for (const LayerStep& step : description.steps) {
    steps.push_back({{"name", step.name},
                     {"equation", step.equation},
                     {"shape", json_of(step.shape)},
                     {"parameters", step.parameters},
                     {"operations", step.operations},
                     {"bytes", step.bytes},
                     {"stored", step.stored}});
  }
  return {{"config", json_of(description.config)},
          {"query_len", description.query_len},
          {"key_len", description.key_len},
          {"steps", steps},
          {"parameters", description.parameters},
          {"operations", description.operations},
          {"bytes_not_stored", description.bytes_not_stored}};
}

std::string to_text(const LayerDescription& description) {
  constexpr auto kRight = Table::Align::kRight;
  Table table(
      {{"step"}, {"equation"}, {"shape"}, {"parameters", kRight}, {"operations", kRight}, {"bytes (f32)", kRight}, {""}});
  for (const LayerStep& step : description.steps) {
    table.add_row({step.name, step.equation, to_string(step.shape), step.parameters != 0 ? grouped(step.parameters) : "",
                   step.operations != 0 ? with_prefix(step.operations) : "", bytes_text(step.bytes),
                   step.stored ? "" : "never stored"});
  }
  const LayerConfig& config = description.config;
  return "model_dim " + std::to_string(config.model_dim) + ", " + std::to_string(config.num_heads) + " heads over " +
         std::to_string(config.num_kv_heads) + " key/value heads of " + std::to_string(config.head_dim) + ", " +
         grouped(description.query_len) + " queries, " + grouped(description.key_len) + " keys, " + visibility_text(config) +
         "\n\n" + table.text() + "\n" + grouped(description.parameters) + " parameters, " +
         with_prefix(description.operations) + " operations; the " + bytes_text(description.bytes_not_stored) +
         " of coefficients are never stored\n";
}

void describe_layer(const DescribeOptions& options) {
  const bool has_preset = !options.preset.empty();
  if (!has_preset && (!options.model_dim || !options.num_heads)) {
    throw usage_error("describe: expected --preset NAME, or --model-dim D with --heads H");
  }
  if (!has_preset && !options.length) throw usage_error("--length is required without --preset");
  const LayerConfig config = config_of(options);
  const Index length = options.length ? *options.length : find_preset(options.preset).default_length;
  const LayerDescription description = describe(config, length, options.key_length.value_or(length));
  if (options.json) {
    print(description_json(description));
  } else {
    print(to_text(description));
  }
}

}  // namespace

void add_describe(CLI::App& app) {
  auto* command = app.add_subcommand("describe", "Shapes, parameters, operations and bytes of every step of a layer");
  auto options = std::make_shared<DescribeOptions>();
  auto* preset = command->add_option("--preset", options->preset, "a named layer: " + preset_names())->type_name("NAME");
  const IntegerRange positive{1};
  add_integer(*command, "--model-dim", options->model_dim, "width of the input and output", positive)->excludes(preset);
  add_integer(*command, "--heads", options->num_heads, "query heads", positive)->excludes(preset);
  add_integer(*command, "--kv-heads", options->num_kv_heads, "key and value heads; default: as many as query heads", positive)
      ->excludes(preset);
  add_integer(*command, "--head-dim", options->head_dim, "width of a head; default: model_dim / heads, which must be exact",
              positive)
      ->excludes(preset);
  add_integer(*command, "--length", options->length, "number of queries; default: the preset's");
  add_integer(*command, "--key-length", options->key_length, "number of keys; default: as many as queries");
  command->add_flag("--json", options->json, "print one JSON object instead of text");
  command->footer("Example:\n  multihead describe --preset llama-7b --length 4096");
  command->callback([options] { describe_layer(*options); });
}

}  // namespace multihead::cli
