#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "base/message.h"
#include "io/file.h"
#include "io/text.h"
#include "multihead/training.h"

namespace multihead {
namespace {

constexpr std::uint64_t kMaxBytes = 1 << 20;

// One name of the file and the number behind it.
struct Entry {
  const char* name;
  std::variant<Index*, double*, std::uint64_t*> value;
};

std::vector<Entry> entries_of(TrainingConfig& c) {
  OptimizerConfig& o = c.optimizer;
  return {{"num_layers", &c.num_layers},
          {"num_heads", &c.num_heads},
          {"num_kv_heads", &c.num_kv_heads},
          {"model_dim", &c.model_dim},
          {"hidden_dim", &c.hidden_dim},
          {"rope_theta", &c.rope_theta},
          {"context", &c.context},
          {"batch", &c.batch},
          {"held_out", &c.held_out},
          {"seed", &c.seed},
          {"steps", &o.steps},
          {"warmup", &o.warmup},
          {"learning_rate", &o.learning_rate},
          {"final_rate", &o.final_rate},
          {"beta1", &o.beta1},
          {"beta2", &o.beta2},
          {"epsilon", &o.epsilon},
          {"weight_decay", &o.weight_decay},
          {"clip", &o.clip}};
}

void set(const std::string& file, const Entry& entry, const nlohmann::json& json) {
  const auto refuse_type = [&](const char* expected) { refuse(file, entry.name, ": expected ", expected); };
  if (const auto* real = std::get_if<double*>(&entry.value)) {
    if (!json.is_number()) refuse_type("a number");
    **real = json.get<double>();
  } else if (const auto* seed = std::get_if<std::uint64_t*>(&entry.value)) {
    if (!json.is_number_unsigned()) refuse_type("an integer from 0");
    **seed = json.get<std::uint64_t>();
  } else {
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() ||
                       json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()));
    if (!fits || json.get<Index>() < 0) refuse_type("an integer from 0, below 2^31");
    *std::get<Index*>(entry.value) = json.get<Index>();
  }
}

}  // namespace

TrainingConfig TrainingConfig::read(const std::filesystem::path& path) {
  const File file(path);
  if (file.size() > kMaxBytes) refuse(file.name(), "expected at most ", kMaxBytes, " bytes; got ", file.size());
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse(file.name(), "expected a JSON object");
  TrainingConfig config;
  const std::vector<Entry> entries = entries_of(config);
  for (const auto& [name, value] : json.items()) {
    const Entry* entry = nullptr;
    std::string names;
    for (const Entry& candidate : entries) {
      if (name == candidate.name) entry = &candidate;
      names += concat(names.empty() ? "" : ", ", candidate.name);
    }
    if (entry == nullptr) refuse(file.name(), "expected only ", names, "; found ", quote(name));
    set(file.name(), *entry, value);
  }
  return config;
}

std::string TrainingConfig::text() const {
  TrainingConfig copy = *this;
  nlohmann::ordered_json json;
  for (const Entry& entry : entries_of(copy)) std::visit([&](const auto* value) { json[entry.name] = *value; }, entry.value);
  return json.dump(1) + "\n";
}

DecoderConfig TrainingConfig::decoder() const {
  constexpr Index kMultiple = 16, kNewline = 10;
  DecoderConfig result;
  result.vocab_size = 256;
  result.model_dim = model_dim;
  result.hidden_dim = hidden_dim > 0 ? hidden_dim : (8 * model_dim / 3 + kMultiple - 1) / kMultiple * kMultiple;
  result.max_positions = context;
  result.begin_id = kNewline;  // there is no byte for the beginning of a text; lines begin behind this one
  LayerConfig layer;
  layer.model_dim = model_dim;
  layer.num_heads = num_heads;
  layer.num_kv_heads = num_kv_heads;
  layer.causal = true;
  layer.rotary = Rotary{.theta = rope_theta};
  result.layers.assign(static_cast<std::size_t>(num_layers), layer);
  return result;
}

}  // namespace multihead
