// LayerConfig::resolved: every rule about a configuration, in one place.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/message.h"
#include "multihead/layer.h"

namespace multihead {
namespace {

// Products of two widths, and sums of four such products, stay within 63 bits.
constexpr Index kMaxWidth = Index{1} << 30;

void require_width(const char* name, Index value) {
  require(value >= 1 && value <= kMaxWidth, "LayerConfig: ", name, ": expected 1 … ", kMaxWidth, "; got ", value);
}

void fill(const char* name, Index& value, Index default_value) {
  if (value == 0) value = default_value;
  require_width(name, value);
}

// "1, 2, 4" for 4.
std::string divisors_of(Index number) {
  std::string lower, upper;
  for (Index divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    lower += (lower.empty() ? "" : ", ") + std::to_string(divisor);
    const Index partner = number / divisor;
    if (partner != divisor) upper = ", " + std::to_string(partner) + upper;
  }
  return lower + upper;
}

void require_positive(const char* name, double value) {
  require(std::isfinite(value) && value > 0, "LayerConfig: ", name, ": expected a positive number; got ", value);
}

void check(const LinearRotaryScaling& scaling) { require_positive("rotary.scaling.factor", scaling.factor); }

void check(const Llama3RotaryScaling& scaling) {
  require_positive("rotary.scaling.factor", scaling.factor);
  require_positive("rotary.scaling.low_freq_factor", scaling.low_freq_factor);
  require_positive("rotary.scaling.original_max_positions", scaling.original_max_positions);
  require(std::isfinite(scaling.high_freq_factor) && scaling.high_freq_factor > scaling.low_freq_factor,
          "LayerConfig: rotary.scaling.high_freq_factor: expected more than low_freq_factor ", scaling.low_freq_factor,
          "; got ", scaling.high_freq_factor);
}

void check(const YarnRotaryScaling& scaling) {
  require_positive("rotary.scaling.factor", scaling.factor);
  require_positive("rotary.scaling.original_max_positions", scaling.original_max_positions);
  require_positive("rotary.scaling.beta_fast", scaling.beta_fast);
  require_positive("rotary.scaling.beta_slow", scaling.beta_slow);
  require_positive("rotary.scaling.attention_factor", scaling.attention_factor.value_or(1));
}

void check(std::monostate) {}

void resolve(Rotary& rotary, Index head_dim) {
  if (rotary.rotary_dim == 0) rotary.rotary_dim = head_dim;
  require(rotary.rotary_dim >= 2 && rotary.rotary_dim <= head_dim && rotary.rotary_dim % 2 == 0,
          "LayerConfig: rotary.rotary_dim: expected an even number from 2 to head_dim ", head_dim, "; got ", rotary.rotary_dim);
  require(std::isfinite(rotary.theta) && rotary.theta > 1, "LayerConfig: rotary.theta: expected more than 1; got ",
          rotary.theta);
  std::visit([](const auto& scaling) { check(scaling); }, rotary.scaling);
}

void check_options(const LayerConfig& config) {
  const float scale = config.scale.value_or(1), softcap = config.softcap.value_or(0);
  require(std::isfinite(scale), "LayerConfig: scale: expected a finite number; got ", scale);
  require(std::isfinite(softcap) && softcap >= 0,
          "LayerConfig: softcap: expected a positive number, or 0 or absent for none; got ", softcap);
  require_positive("clip", static_cast<double>(config.clip.value_or(1)));
  const Window window = config.window.value_or(Window{});
  for (const auto& distance : {window.left, window.right}) {
    require(distance.value_or(0) >= 0, "LayerConfig: window: expected distances of 0 or more, or absent for unlimited; got ",
            distance.value_or(0));
  }
  if (config.query_key_norm) {
    const double epsilon = config.query_key_norm->epsilon;
    require(std::isfinite(epsilon) && epsilon >= 0, "LayerConfig: query_key_norm.epsilon: expected 0 or more; got ", epsilon);
  }
  if (config.relative_bias) {
    const Index distance = config.relative_bias->max_distance;
    require(distance >= 1 && distance <= kMaxWidth, "LayerConfig: relative_bias.max_distance: expected 1 … ", kMaxWidth,
            "; got ", distance);
  }
}

}  // namespace

LayerConfig LayerConfig::resolved() const {
  LayerConfig full = *this;
  require_width("model_dim", model_dim);
  require_width("num_heads", num_heads);
  if (num_kv_heads == 0) full.num_kv_heads = num_heads;
  require(full.num_kv_heads > 0 && num_heads % full.num_kv_heads == 0,
          "LayerConfig: num_kv_heads: expected a divisor of num_heads ", num_heads, "; got ", num_kv_heads);
  if (head_dim == 0) {
    require(model_dim % num_heads == 0, "LayerConfig: num_heads ", num_heads, " does not divide model_dim ", model_dim,
            "; expected one of its divisors ", divisors_of(model_dim), ", or an explicit head_dim");
    full.head_dim = model_dim / num_heads;
  }
  require_width("head_dim", full.head_dim);
  fill("value_dim", full.value_dim, full.head_dim);
  fill("key_input_dim", full.key_input_dim, model_dim);
  fill("value_input_dim", full.value_input_dim, full.key_input_dim);
  fill("output_dim", full.output_dim, model_dim);
  require_width("num_heads * head_dim", num_heads * full.head_dim);
  require_width("num_heads * value_dim", num_heads * full.value_dim);
  if (full.rotary) resolve(*full.rotary, full.head_dim);
  check_options(full);
  return full;
}

}  // namespace multihead
