#include "checkpoint/position.h"

#include <cmath>

#include "io/text.h"

namespace multihead::checkpoint {
namespace {

// YaRN's factor on cos and sin when it is not given: (0.1 m ln factor + 1), of mscale over mscale_all_dim if both are there.
std::optional<double> yarn_attention_factor(const Config& dict, double factor) {
  if (const auto given = dict.number({"attention_factor"})) return given;
  const double mscale = dict.number({"mscale"}).value_or(0);
  const double mscale_all_dim = dict.number({"mscale_all_dim"}).value_or(0);
  if (mscale == 0 || mscale_all_dim == 0) return std::nullopt;
  const auto magnitude = [factor](double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; };
  return magnitude(mscale) / magnitude(mscale_all_dim);
}

RotaryScaling scaling_from(const Config& config, const Config& dict) {
  const std::string type = dict.text({"rope_type", "type"}).value_or("default");
  if (type == "default") {
    if (dict.has("factor")) fail("config.json: a rotary scaling with a factor but without a rope_type");
    return {};
  }
  if (type == "linear") return LinearRotaryScaling{dict.need_number({"factor"})};
  if (type == "llama3") {
    return Llama3RotaryScaling{dict.need_number({"factor"}), dict.need_number({"low_freq_factor"}),
                               dict.need_number({"high_freq_factor"}), dict.need_number({"original_max_position_embeddings"})};
  }
  if (type == "yarn") {
    YarnRotaryScaling yarn;
    yarn.factor = dict.need_number({"factor"});
    const auto original = dict.number({"original_max_position_embeddings"});
    yarn.original_max_positions =
        original ? *original : config.need_number({"original_max_position_embeddings", "max_position_embeddings"});
    yarn.beta_fast = dict.number({"beta_fast"}).value_or(yarn.beta_fast);
    yarn.beta_slow = dict.number({"beta_slow"}).value_or(yarn.beta_slow);
    yarn.truncate = dict.flag({"truncate"}).value_or(true);
    yarn.attention_factor = yarn_attention_factor(dict, yarn.factor);
    return yarn;
  }
  fail("config.json: expected a rotary scaling of type default, linear, llama3 or yarn; got ", quote(type));
}

}  // namespace

Rotary rotary_from(const Context& context, Index head_dim, const RotaryDefaults& defaults) {
  const Config& config = context.config;
  const char* layer_type = defaults.local ? "sliding_attention" : "full_attention";
  Config dict = config.object({"rope_parameters", "rope_scaling"});
  if (dict.is_object(layer_type)) {
    dict = dict.object({layer_type});
  } else if (defaults.local) {
    dict = {};
  }

  Rotary rotary;
  rotary.pairing = defaults.pairing;
  rotary.theta = defaults.theta;
  const Keys theta_keys = defaults.local ? Keys{"rope_local_base_freq"} : Keys{"rope_theta", "rotary_emb_base"};
  if (const auto theta = config.number(theta_keys)) rotary.theta = *theta;
  if (const auto theta = dict.number({"rope_theta"})) rotary.theta = *theta;

  double partial = defaults.partial;
  if (const auto given = config.number({"partial_rotary_factor", "rotary_pct", "rope_pct"})) partial = *given;
  if (const auto given = dict.number({"partial_rotary_factor"})) partial = *given;
  if (!(partial > 0 && partial <= 1)) fail("config.json: partial_rotary_factor: expected 0 to 1; got ", partial);
  rotary.rotary_dim = static_cast<Index>(partial * static_cast<double>(head_dim));
  if (const auto given = config.count({"rotary_dim"})) rotary.rotary_dim = *given;
  if (rotary.rotary_dim == 0) fail("config.json: partial_rotary_factor: expected at least 1 / ", head_dim, "; got ", partial);
  rotary.scaling = scaling_from(config, dict);
  return rotary;
}

bool slides(const Context& context, bool by_rule) {
  const auto type = context.config.text_at("layer_types", context.block.depth);
  if (!type) return by_rule;
  if (*type != "sliding_attention" && *type != "full_attention") {
    fail("config.json: layer_types: expected full_attention or sliding_attention; got ", quote(*type));
  }
  return *type == "sliding_attention";
}

std::optional<Window> sliding_window(const Context& context, std::optional<Index> class_default) {
  if (const auto keys = context.config.count({"sliding_window"})) return last_keys(*keys);
  if (context.config.has("sliding_window")) return std::nullopt;
  if (class_default) return last_keys(*class_default);
  return std::nullopt;
}

}  // namespace multihead::checkpoint
