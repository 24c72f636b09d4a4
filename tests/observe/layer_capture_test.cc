// The layer fills captures: with the coefficients that it used, and without a change to its output.
#include <bit>

#include "layer/layer_test_util.h"
#include "multihead/kv_cache.h"
#include "multihead/observe.h"

namespace multihead {
namespace {

TEST(CaptureOfALayer, HasItsCoefficientsAndChangesNoBit) {
  LayerConfig config = config_of(24, 4, [](LayerConfig& c) {
    c.num_kv_heads = 2;
    c.causal = true;
    c.rotary = Rotary{};
    c.relative_bias = RelativeBias{};
  });
  LayerWeights weights = random_weights(config, 1, true);
  weights.relative_bias = RandomNumbers(2).tensor({32, 4});
  const MultiHeadAttention layer(config, std::move(weights));
  const Tensor x = RandomNumbers(3).tensor({2, 17, 24});
  Tensor probabilities(DType::kF32, {2, 4, 17, 17});
  Capture capture;
  capture.labels.name = "kept";
  ForwardObservation seen;
  seen.probabilities = probabilities.view();
  seen.capture = &capture;
  seen.capture_values = true;
  EXPECT_TRUE(same_bits(layer.forward(x, {}, seen), layer.forward(x)));
  EXPECT_EQ(capture.labels.name, "kept");
  EXPECT_TRUE(same_bits(capture.output_weight, layer.weights().output_weight));
  EXPECT_EQ(to_string(capture.value.shape()), "[2, 2, 17, 6]");
  EXPECT_EQ(to_string(capture.output.shape()), "[2, 4, 17, 6]");
  EXPECT_LT(capture.bias_memory.size(), 4 * 17 * 17 / 5) << "a line for each head, not a matrix";
  const AttentionMap map(std::make_shared<const Capture>(std::move(capture)), 1);
  for (Index h = 0; h < 4; ++h) {
    for (Index i = 0; i < 17; ++i) {
      const MapRow row = map.row(h, i);
      for (Index j = 0; j < 17; ++j) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(row.probability[static_cast<std::size_t>(j)]),
                  std::bit_cast<std::uint32_t>(probabilities.view().at<float>(1, h, i, j)));
      }
    }
  }
}

TEST(CaptureOfALayer, OverACacheHasTheRowsOfOnePass) {
  const LayerConfig config = config_of(16, 2, [](LayerConfig& c) {
    c.causal = true;
    c.rotary = Rotary{};
  });
  const MultiHeadAttention layer(config, random_weights(config, 1, false));
  const Tensor x = RandomNumbers(3).tensor({1, 10, 16});
  Capture whole, step;
  ForwardObservation seen;
  seen.capture = &whole;
  layer.forward(x, {}, seen);
  KvCache cache({.sequences = 1, .num_kv_heads = 2, .head_dim = 8, .capacity = 10});
  layer.forward(x.view().slice(1, 0, 9), cache);
  seen.capture = &step;
  layer.forward(x.view().slice(1, 9, 10), cache, {}, seen);
  EXPECT_TRUE(same_bits(step.key, whole.key));
  const AttentionMap all(std::make_shared<const Capture>(std::move(whole)));
  const AttentionMap last(std::make_shared<const Capture>(std::move(step)));
  EXPECT_EQ(all.row(1, 9).log2, last.row(1, 0).log2);
}

}  // namespace
}  // namespace multihead
