#include <array>

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

template <std::size_t n>
void expect_row(const float* actual, const std::array<double, n>& expected, double tolerance) {
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << i;
}

struct Lab {
  Tensor probabilities, output;
};

Lab run_lab(Index heads, bool causal) {
  Preset preset = find_preset("lab");
  preset.config.num_heads = heads;
  preset.config.causal = causal;
  const MultiHeadAttention layer(preset.config, preset_weights(preset, 0));
  Lab lab{Tensor(DType::kF32, {1, heads, 3, 3}), {}};
  lab.output = layer.forward(preset_input(preset, 3, 0).reshaped({1, 3, 4}), {}, {{}, lab.probabilities});
  return lab;
}

// Tokens 1 and 3 agree in the first half, 1 and 2 in the second: two heads say both, one head has to compromise.
TEST(Presets, TheLabShowsWhatOneHeadCannotSay) {
  const Lab two = run_lab(2, false), one = run_lab(1, false);
  expect_row<3>(&two.probabilities.view().at<float>(0, 0, 0, 0), {0.486, 0.029, 0.486}, 5e-4);
  expect_row<3>(&two.probabilities.view().at<float>(0, 1, 0, 0), {0.486, 0.486, 0.029}, 5e-4);
  expect_row<3>(&one.probabilities.view().at<float>(0, 0, 0, 0), {0.787, 0.107, 0.107}, 5e-4);
  expect_row<4>(two.output.data<float>(), {1.943, 0.057, 1.943, 0.057}, 5e-4);
  expect_row<4>(one.output.data<float>(), {1.787, 0.213, 1.787, 0.213}, 5e-4);
  for (const Index heads : {1, 2}) {
    const Lab causal = run_lab(heads, true);
    for (Index head = 0; head < heads; ++head) {
      expect_row<3>(&causal.probabilities.view().at<float>(0, head, 0, 0), {1, 0, 0}, 0);
    }
  }
}

TEST(Presets, AreValidAndNamed) {
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    const LayerConfig config = preset.config.resolved();
    EXPECT_EQ(find_preset(preset.name).config.model_dim, preset.config.model_dim);
    EXPECT_GT(preset.default_length, 0);
    EXPECT_FALSE(preset.summary.empty());
    EXPECT_EQ(config.num_heads * config.head_dim, config.model_dim);
  }
  EXPECT_EQ(find_preset("vaswani-base").config.resolved().head_dim, 64);
  EXPECT_EQ(find_preset("llama-7b").config.resolved().head_dim, 128);
  EXPECT_EQ(error_of([] { find_preset("gpt"); }), "find_preset: expected one of vaswani-base, llama-7b, lab; got \"gpt\"");
}

TEST(Presets, NumbersComeFromTheSeed) {
  const Preset preset = find_preset("vaswani-base");
  const LayerWeights a = preset_weights(preset, 7), b = preset_weights(preset, 7), c = preset_weights(preset, 8);
  EXPECT_TRUE(same_bits(a.value_weight, b.value_weight));
  EXPECT_FALSE(same_bits(a.value_weight, c.value_weight));
  EXPECT_FALSE(same_bits(a.query_weight, a.key_weight));
  EXPECT_TRUE(same_bits(preset_input(preset, 9, 1), preset_input(preset, 9, 1)));
  EXPECT_FALSE(same_bits(preset_input(preset, 9, 1), preset_input(preset, 9, 2)));
  // The mapping from seeds to numbers is part of the interface: the first uniform of mt19937_64(7), as ±sqrt(3 / 512).
  const double first = static_cast<double>(std::mt19937_64(7)() >> 11) * 0x1p-53;
  EXPECT_EQ(a.query_weight.data<float>()[0], static_cast<float>((2 * first - 1) * std::sqrt(3.0 / 512)));
}

TEST(Presets, MomentsAreAsPromised) {
  const Preset preset = find_preset("vaswani-base");
  const auto moments = [](const Tensor& numbers) {
    double sum = 0, squares = 0, largest = 0;
    for (Index i = 0; i < numbers.size(); ++i) {
      const auto x = static_cast<double>(numbers.data<float>()[i]);
      sum += x, squares += x * x, largest = std::max(largest, std::abs(x));
    }
    const auto count = static_cast<double>(numbers.size());
    return std::array<double, 3>{sum / count, squares / count, largest};
  };
  const auto weight = moments(preset_weights(preset, 1).output_weight);
  EXPECT_NEAR(weight[0], 0, 1e-3);
  EXPECT_NEAR(weight[1] * 512, 1, 0.02);
  EXPECT_LE(weight[2], std::sqrt(3.0 / 512));
  const auto input = moments(preset_input(preset, 500, 1));
  EXPECT_NEAR(input[0], 0, 0.01);
  EXPECT_NEAR(input[1], 1, 0.02);
  EXPECT_GT(input[2], 3.5);
  // Outputs keep the scale of the inputs: one projection of standard normals has variance 1.
  EXPECT_EQ(preset_input(preset, 0, 1).shape(), (Dims{0, 512}));
  EXPECT_NE(error_of([&] { preset_input(preset, -1, 1); }).find("got -1"), std::string::npos);
}

}  // namespace
}  // namespace multihead
