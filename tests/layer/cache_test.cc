// The layer over a cache: a prompt in one call, in chunks or token by token is one causal pass, bit for bit.
#include <gtest/gtest.h>

#include <cstring>

#include "each_target.h"
#include "multihead/kv_cache.h"
#include "multihead/layer.h"
#include "random_inputs.h"

namespace multihead::test {
namespace {

Tensor random_tensor(const Dims& shape, Random& random, double size = 1) {
  return filled(DType::kF32, shape, [&](Index) { return size * random.normal(); });
}

LayerWeights random_weights(const LayerConfig& config, Random& random) {
  const LayerConfig c = config.resolved();
  LayerWeights weights;
  weights.query_weight = random_tensor({c.num_heads * c.head_dim, c.model_dim}, random, 0.2);
  weights.key_weight = random_tensor({c.num_kv_heads * c.head_dim, c.key_input_dim}, random, 0.2);
  weights.value_weight = random_tensor({c.num_kv_heads * c.value_dim, c.value_input_dim}, random, 0.2);
  weights.output_weight = random_tensor({c.output_dim, c.num_heads * c.value_dim}, random, 0.2);
  if (c.relative_bias) weights.relative_bias = random_tensor({32, c.num_heads}, random);
  return weights;
}

std::vector<LayerConfig> configurations() {
  LayerConfig plain;
  plain.model_dim = 24;
  plain.num_heads = 4;
  plain.causal = true;
  LayerConfig rotary = plain;
  rotary.num_kv_heads = 2;
  rotary.rotary = Rotary{};
  LayerConfig window = rotary;
  window.window = last_keys(7);
  LayerConfig relative = plain;
  relative.relative_bias = RelativeBias{64, false};
  return {plain, rotary, window, relative};
}

TEST(LayerCache, ChunksAndTokensGiveTheBitsOfOnePass) {
  Random random(3);
  constexpr Index kLength = 37;
  for (const LayerConfig& config : configurations()) {
    const MultiHeadAttention layer(config, random_weights(config, random));
    const LayerConfig& c = layer.config();
    const Tensor input = random_tensor({2, kLength, c.model_dim}, random);
    const Tensor expected = layer.forward(input);
    for (const Index piece : {Index{1}, Index{5}, kLength}) {
      KvCache cache({2, c.num_kv_heads, c.head_dim, c.value_dim, DType::kF32, kLength});
      for (Index at = 0; at < kLength; at += piece) {
        const Index end = std::min(at + piece, kLength);
        const Tensor output = layer.forward(input.view().slice(1, at, end), cache);
        for (Index b = 0; b < 2; ++b) {
          EXPECT_EQ(std::memcmp(&output.view().at<float>(b, 0, 0), &expected.view().at<float>(b, at, 0),
                                static_cast<std::size_t>((end - at) * c.model_dim) * sizeof(float)),
                    0)
              << "pieces of " << piece << ", sequence " << b << ", position " << at;
        }
      }
    }
  }
}

TEST(LayerCache, ASlidingCacheIsAWindow) {
  Random random(4);
  LayerConfig config = configurations()[2];
  const MultiHeadAttention layer(config, random_weights(config, random));
  const LayerConfig& c = layer.config();
  const Tensor input = random_tensor({1, 600, c.model_dim}, random);
  const Tensor expected = layer.forward(input);
  KvCache cache({1, c.num_kv_heads, c.head_dim, c.value_dim, DType::kF32, 7, true});
  for (Index at = 0; at < 600; ++at) {
    const Tensor output = layer.forward(input.view().slice(1, at, at + 1), cache);
    ASSERT_EQ(std::memcmp(output.data<float>(), &expected.view().at<float>(0, at, 0),
                          static_cast<std::size_t>(c.model_dim) * sizeof(float)),
              0)
        << "position " << at;
  }
}

TEST(LayerCache, RefusesACacheOfAnotherShape) {
  Random random(5);
  const LayerConfig config = configurations()[0];
  const MultiHeadAttention layer(config, random_weights(config, random));
  KvCache narrow({1, 4, 5, 6, DType::kF32, 8}), full({1, 4, 6, 6, DType::kF32, 1});
  const Tensor input(DType::kF32, {1, 2, 24});
  try {
    layer.forward(input, narrow);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("[1, 4, 6, 6]; got [1, 4, 5, 6]"), std::string::npos) << error.what();
  }
  EXPECT_THROW(layer.forward(input, full), InvalidArgument);
  ForwardOptions dropping;
  dropping.dropout = Dropout{0.1f, 1};
  EXPECT_THROW(layer.forward(input.view().slice(1, 0, 1), full, dropping), InvalidArgument);
  EXPECT_EQ(full.length(0), 0);
}

}  // namespace
}  // namespace multihead::test
