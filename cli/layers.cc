#include "layers.h"

namespace multihead::cli {
namespace {

Json window_json(const std::optional<Window>& window) {
  if (!window) return nullptr;
  const auto side = [](const std::optional<Index>& distance) { return distance ? Json(*distance) : Json(); };
  return {{"left", side(window->left)}, {"right", side(window->right)}};
}

std::string text_of(const Window& window) {
  const auto side = [](const std::optional<Index>& distance) { return distance ? std::to_string(*distance) : std::string(); };
  return side(window.left) + "," + side(window.right);
}

}  // namespace

std::string visibility_text(const LayerConfig& config) {
  if (!config.causal && !config.window) return "all keys";
  const std::string window = config.window ? "window " + text_of(*config.window) : "";
  return config.causal ? (config.window ? "causal, " + window : "causal") : window;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + preset.name;
  return names;
}

Json json_of(const LayerConfig& config) {
  const auto optional = [](const std::optional<float>& value) { return value ? Json(*value) : Json(); };
  return {{"model_dim", config.model_dim},
          {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"value_dim", config.value_dim},
          {"key_input_dim", config.key_input_dim},
          {"value_input_dim", config.value_input_dim},
          {"output_dim", config.output_dim},
          {"causal", config.causal},
          {"window", window_json(config.window)},
          {"scale", optional(config.scale)},
          {"softcap", optional(config.softcap)}};
}

Json json_of(const FoundLayer& layer, std::size_t index) {
  Json json{{"layer", index}, {"name", layer.name}, {"family", layer.family}, {"role", layer.role}};
  json.update(json_of(layer.config));
  json["has_bias"] = layer.has_bias;
  json["positions"] = layer.positions;
  return json;
}

}  // namespace multihead::cli
