// Named configurations, and reproducible numbers to fill them with.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "base/message.h"
#include "multihead/layer.h"

namespace multihead {
namespace {

constexpr std::string_view kLab = "lab";

// Tokens 1 and 3 agree in the first half, 1 and 2 in the second: two heads see both, one head has to compromise.
constexpr Index kLabLength = 3, kLabDim = 4;
constexpr float kLabInput[kLabLength][kLabDim] = {{2, 0, 2, 0}, {0, 2, 2, 0}, {2, 0, 0, 2}};

// The generator's numbers are fixed by the C++ standard; the standard's distributions are not, so the mapping is our own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  /// In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }
  /// Standard normal (Box and Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::mt19937_64 generator_;
};

// Uniform in ±sqrt(3 / in): outputs keep the variance of the inputs.
Tensor random_weight(Index out, Index in, Random& random) {
  Tensor weight = Tensor::uninitialized(DType::kF32, {out, in});
  const double bound = std::sqrt(3.0 / static_cast<double>(in));
  std::generate_n(weight.data<float>(), weight.size(), [&] { return static_cast<float>((2 * random.uniform() - 1) * bound); });
  return weight;
}

Tensor identity(Index out, Index in) {
  Tensor weight(DType::kF32, {out, in});
  for (Index i = 0; i < std::min(out, in); ++i) weight.data<float>()[i * in + i] = 1;
  return weight;
}

LayerConfig config_of(Index model_dim, Index num_heads) {
  LayerConfig config;
  config.model_dim = model_dim;
  config.num_heads = num_heads;
  return config;
}

}  // namespace

std::vector<Preset> presets() {
  LayerConfig llama = config_of(4096, 32);
  llama.causal = true;
  llama.rotary.emplace();
  return {
      {"vaswani-base", "the base model of Vaswani et al. 2017: width 512, 8 heads of 64", config_of(512, 8), 128},
      {"llama-7b", "one layer of Llama 7B: width 4096, 32 heads of 128, causal, rotary positions", llama, 2048},
      {std::string(kLab), "small enough to read: width 4, 2 heads of 2, 3 tokens, identity matrices", config_of(kLabDim, 2),
       kLabLength},
  };
}

Preset find_preset(std::string_view name) {
  std::string names;
  for (Preset& preset : presets()) {
    if (preset.name == name) return std::move(preset);
    names += (names.empty() ? "" : ", ") + preset.name;
  }
  throw InvalidArgument(concat("find_preset: expected one of ", names, "; got \"", name, "\""));
}

LayerWeights preset_weights(const Preset& preset, std::uint64_t seed) {
  const LayerConfig config = preset.config.resolved();
  Random random(seed);
  const auto weight = [&](Index out, Index in) {
    return preset.name == kLab ? identity(out, in) : random_weight(out, in, random);
  };
  LayerWeights weights;
  weights.query_weight = weight(config.num_heads * config.head_dim, config.model_dim);
  weights.key_weight = weight(config.num_kv_heads * config.head_dim, config.key_input_dim);
  weights.value_weight = weight(config.num_kv_heads * config.value_dim, config.value_input_dim);
  weights.output_weight = weight(config.output_dim, config.num_heads * config.value_dim);
  return weights;
}

Tensor preset_input(const Preset& preset, Index length, std::uint64_t seed) {
  require(length >= 0, "preset_input: expected a length of 0 or more; got ", length);
  const Index model_dim = preset.config.resolved().model_dim;
  Tensor input = Tensor::uninitialized(DType::kF32, {length, model_dim});
  if (preset.name == kLab && length == kLabLength && model_dim == kLabDim) {
    std::copy_n(&kLabInput[0][0], input.size(), input.data<float>());
    return input;
  }
  Random random(seed);
  std::generate_n(input.data<float>(), input.size(), [&] { return static_cast<float>(random.normal()); });
  return input;
}

}  // namespace multihead
