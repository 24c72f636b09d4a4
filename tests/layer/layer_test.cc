// forward against reference_forward, over everything that a configuration and a call can ask for.
#include "layer/layer_test_util.h"
#include "multihead/runtime.h"

namespace multihead {
namespace {

struct Variant {
  const char* name;
  std::function<void(LayerConfig&)> change;                     ///< of a layer of width 24 with 6 heads
  std::function<void(LayerWeights&, RandomNumbers&)> add = {};  ///< weights beyond projections and biases
};

Rotary rotary(RotaryPairing pairing, Index dim, RotaryScaling scaling = {}) { return {pairing, dim, 100, scaling}; }

constexpr auto kHalf = RotaryPairing::kHalfSplit, kInterleaved = RotaryPairing::kInterleaved;
constexpr auto kRms = QueryKeyNorm::Kind::kRms, kLayerNorm = QueryKeyNorm::Kind::kLayer;

std::vector<Variant> variants() {
  const auto norms = [](const Dims& query, const Dims& key, bool with_bias) {
    return [=](LayerWeights& w, RandomNumbers& random) {
      w.query_norm = random.tensor(query);
      w.key_norm = random.tensor(key);
      if (with_bias) w.query_norm_bias = random.tensor(query);
      if (with_bias) w.key_norm_bias = random.tensor(key);
    };
  };
  return {
      {"plain", [](LayerConfig&) {}},
      {"causal", [](LayerConfig& c) { c.causal = true; }},
      {"window",
       [](LayerConfig& c) {
         c.window = Window{3, 1};
       }},
      {"scale and softcap", [](LayerConfig& c) { c.scale = 0.9f, c.softcap = 1.5f; }},
      {"grouped", [](LayerConfig& c) { c.num_kv_heads = 2; }},
      {"one kv head", [](LayerConfig& c) { c.num_kv_heads = 1; }},
      {"free widths",
       [](LayerConfig& c) { c.head_dim = 5, c.value_dim = 3, c.num_kv_heads = 3, c.output_dim = 7, c.causal = true; }},
      {"clip", [](LayerConfig& c) { c.clip = 0.4f; }},
      {"alibi", [](LayerConfig& c) { c.alibi = true, c.causal = true; }},
      {"alibi, own slopes", [](LayerConfig& c) { c.alibi = true; },
       [](LayerWeights& w, RandomNumbers& random) { w.alibi_slopes = random.tensor({6}); }},
      {"sinks", [](LayerConfig& c) { c.causal = true; },
       [](LayerWeights& w, RandomNumbers& random) { w.sinks = random.tensor({6}); }},
      {"rotary", [](LayerConfig& c) { c.rotary = rotary(kHalf, 0); }},
      {"rotary, interleaved, causal", [](LayerConfig& c) { c.rotary = rotary(kInterleaved, 0), c.causal = true; }},
      {"rotary, partial", [](LayerConfig& c) { c.rotary = rotary(kHalf, 2), c.num_kv_heads = 3; }},
      {"rotary, partial, interleaved", [](LayerConfig& c) { c.rotary = rotary(kInterleaved, 4), c.head_dim = 10; }},
      {"rotary, linear", [](LayerConfig& c) { c.rotary = rotary(kHalf, 0, LinearRotaryScaling{4}); }},
      {"rotary, llama3",
       [](LayerConfig& c) {
         c.rotary = rotary(kHalf, 0, Llama3RotaryScaling{8, 1, 4, 20});
       }},
      {"rotary, yarn",
       [](LayerConfig& c) {
         c.rotary = rotary(kHalf, 0, YarnRotaryScaling{4, 20, 3, 1, false, {}});
       }},
      {"norm, per head",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{kRms, 1e-6, false}, c.num_kv_heads = 2;
       },
       norms({4}, {4}, false)},
      {"norm, per head, plus one",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{kRms, 1e-6, true};
       },
       norms({4}, {4}, false)},
      {"norm, own weights, rotary",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{kLayerNorm, 1e-5, false}, c.num_kv_heads = 3, c.rotary = rotary(kInterleaved, 0);
       },
       norms({6, 4}, {3, 4}, false)},
      {"norm, whole width",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{kRms, 1e-6, false}, c.num_kv_heads = 2;
       },
       norms({24}, {8}, false)},
      {"norm, whole width, biases",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{kLayerNorm, 1e-5, false};
       },
       norms({24}, {24}, true)},
      {"relative bias",
       [](LayerConfig& c) {
         c.relative_bias = RelativeBias{20, true}, c.scale = 1.0f;
       },
       [](LayerWeights& w, RandomNumbers& random) {
         w.relative_bias = random.tensor({8, 6});
       }},
      {"relative bias, causal",
       [](LayerConfig& c) {
         c.relative_bias = RelativeBias{20, false}, c.causal = true;
       },
       [](LayerWeights& w, RandomNumbers& random) {
         w.relative_bias = random.tensor({6, 6});
       }},
  };
}

LayerWeights weights_of(const Variant& variant, const LayerConfig& config, unsigned seed, bool with_bias,
                        DType dtype = DType::kF32) {
  LayerWeights weights = random_weights(config, seed, with_bias, dtype);
  RandomNumbers random(seed + 1);
  if (variant.add) variant.add(weights, random);
  return weights;
}

// Output, lse and probabilities of both against each other.
void expect_agreement(const MultiHeadAttention& layer, const Tensor& x, const Tensor& memory, const ForwardOptions& options,
                      double tolerance) {
  const Index batch = x.shape()[0], heads = layer.config().num_heads, query_len = x.shape()[1], key_len = memory.shape()[1];
  Tensor lse(DType::kF32, {batch, heads, query_len}), probabilities(DType::kF32, {batch, heads, query_len, key_len});
  Tensor true_lse(DType::kF64, lse.shape()), true_probabilities(DType::kF64, probabilities.shape());
  const Tensor y = layer.forward(x, memory, options, {lse, probabilities});
  const Tensor expected = layer.reference_forward(x, memory, options, {true_lse, true_probabilities});
  EXPECT_EQ(y.dtype(), x.dtype());
  EXPECT_EQ(expected.dtype(), DType::kF64);
  EXPECT_LT(max_difference(y, expected), tolerance);
  EXPECT_LT(max_difference(lse, true_lse), 1e-5);
  EXPECT_LT(max_difference(probabilities, true_probabilities), 1e-5);
  EXPECT_TRUE(same_bits(y, layer.forward(x, memory, options)));  // looking changes nothing
}

TEST(Layer, EveryVariantMatchesTheReference) {
  unsigned seed = 1;
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    ++seed;
    const LayerConfig config = config_of(24, 6, variant.change);
    const MultiHeadAttention layer(config, weights_of(variant, config, seed, seed % 2 == 0));
    const Tensor x = RandomNumbers(seed).tensor({2, 11, 24});
    expect_agreement(layer, x, x, {}, 1e-5);
    EXPECT_TRUE(same_bits(layer.forward(x), layer.forward(x, x)));
    ForwardOptions chunk;
    chunk.query_offset = 7;
    expect_agreement(layer, RandomNumbers(seed + 100).tensor({2, 4, 24}), x, chunk, 1e-5);
  }
}

TEST(Layer, EveryVariantCrossesToAMemory) {
  unsigned seed = 50;
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    ++seed;
    const LayerConfig config = config_of(24, 6, [&](LayerConfig& c) {
      variant.change(c);
      c.key_input_dim = 10;
    });
    const MultiHeadAttention layer(config, weights_of(variant, config, seed, seed % 2 == 0));
    RandomNumbers random(seed);
    const Tensor x = random.tensor({3, 5, 24}), memory = random.tensor({3, 9, 10});
    ForwardOptions options;
    options.key_lengths = {9, 4, 0};
    expect_agreement(layer, x, memory, options, 1e-5);
  }
}

TEST(Layer, SixteenBitInputsAndWeights) {
  const auto change = [](LayerConfig& c) { c.num_kv_heads = 2, c.causal = true, c.rotary = rotary(kHalf, 0); };
  for (const auto& [dtype, unit] : {std::pair{DType::kF16, 0x1p-11}, {DType::kBF16, 0x1p-8}}) {
    SCOPED_TRACE(name_of(dtype));
    const LayerConfig config = config_of(24, 6, change);
    const MultiHeadAttention layer(config, random_weights(config, 9, true, dtype));
    const Tensor x = RandomNumbers(10).tensor({2, 13, 24}, dtype);
    expect_agreement(layer, x, x, {}, 2 * unit);  // outputs below 4: half a unit in the last place
    // f32 inputs with 16-bit weights are not rounded at all.
    expect_agreement(layer, Tensor::converted(x, DType::kF32), x, {}, 1e-5);
  }
}

TEST(Layer, MaskBiasAndRelativeBiasIntersectAndAdd) {
  const LayerConfig config = config_of(24, 6, [](LayerConfig& c) { c.relative_bias = RelativeBias{20, true}; });
  LayerWeights weights = random_weights(config, 3, false);
  RandomNumbers random(4);
  weights.relative_bias = random.tensor({8, 6});
  const MultiHeadAttention layer(config, std::move(weights));
  const Tensor x = random.tensor({2, 5, 24}), memory = random.tensor({2, 7, 24});
  Tensor mask(DType::kBool, {5, 7});
  for (Index i = 0; i < 35; ++i) mask.data<bool>()[i] = i % 3 != 0;
  ForwardOptions options;
  options.mask = mask;
  for (const Dims& shape : {Dims{7}, Dims{5, 7}, Dims{2, 1, 5, 1}, Dims{1, 6, 1, 7}, Dims{2, 6, 5, 7}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Tensor bias = random.tensor(shape, dtype);
      if (dtype == DType::kF32) bias.data<float>()[bias.size() / 2] = -HUGE_VALF;
      options.attention_bias = bias;
      SCOPED_TRACE(to_string(shape));
      expect_agreement(layer, x, memory, options, 1e-5);
    }
  }
}

TEST(Layer, KeysAndValuesFromDifferentTensors) {
  const LayerConfig config = config_of(12, 3, [](LayerConfig& c) { c.key_input_dim = 7, c.value_input_dim = 5; });
  const MultiHeadAttention layer(config, random_weights(config, 5, true));
  RandomNumbers random(6);
  const Tensor x = random.tensor({2, 4, 12}), keys = random.tensor({2, 6, 7}), values = random.tensor({2, 6, 5});
  EXPECT_LT(max_difference(layer.forward(x, keys, values), layer.reference_forward(x, keys, values)), 1e-5);
  EXPECT_NE(error_of([&] { layer.forward(x, keys); }).find("value input: expected [batch, length, 5]; got [2, 6, 7]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { layer.forward(x); }).find("key input: expected [batch, length, 7]; got [2, 4, 12]"),
            std::string::npos);
}

TEST(Layer, AnyStrides) {
  const LayerConfig config = config_of(8, 2);
  const MultiHeadAttention layer(config, random_weights(config, 7, true));
  const Tensor wide = RandomNumbers(8).tensor({5, 3, 16});                       // [length, batch, 2 * width]
  const ConstTensorView strided = wide.view().transposed(0, 1).slice(2, 5, 13);  // [batch, length, width]
  EXPECT_TRUE(same_bits(layer.forward(strided), layer.forward(Tensor::copy_of(strided))));
  const ConstTensorView repeated(wide.data<float>(), DType::kF32, {4, 5, 8}, {0, 16, 1});
  EXPECT_TRUE(same_bits(layer.forward(repeated), layer.forward(Tensor::copy_of(repeated))));
}

// Threads, batch neighbours, and how a causal sequence is cut into calls leave the bits alone.
TEST(Layer, SameBits) {
  const LayerConfig config = config_of(60, 5, [](LayerConfig& c) {
    c.causal = true;
    c.rotary.emplace();
    c.query_key_norm = QueryKeyNorm{kRms, 1e-6, false};
  });
  LayerWeights weights = random_weights(config, 11, true);
  weights.query_norm = RandomNumbers(1).tensor({60});
  weights.key_norm = RandomNumbers(2).tensor({60});
  const MultiHeadAttention layer(config, std::move(weights));
  const Tensor x = RandomNumbers(12).tensor({3, 55, 60});
  set_num_threads(1);
  const Tensor y = layer.forward(x);
  for (const int threads : {2, 5}) {
    set_num_threads(threads);
    EXPECT_TRUE(same_bits(layer.forward(x), y)) << threads;
  }
  set_num_threads(0);
  for (Index b = 0; b < 3; ++b) EXPECT_TRUE(same_bits(layer.forward(x.view().slice(0, b, b + 1)), y.view().slice(0, b, b + 1)));
  const ConstTensorView first = x.view().slice(0, 0, 1);
  for (const auto& [begin, end] : {std::pair<Index, Index>{0, 1}, {0, 20}, {20, 55}, {54, 55}, {30, 37}}) {
    ForwardOptions chunk;
    chunk.query_offset = begin;
    const Tensor part = layer.forward(first.slice(1, begin, end), first.slice(1, 0, end), chunk);
    EXPECT_TRUE(same_bits(part, y.view().slice(0, 0, 1).slice(1, begin, end))) << begin << " to " << end;
  }
}

TEST(Layer, PaddingHoldsAnything) {
  const LayerConfig config = config_of(24, 6);
  const MultiHeadAttention layer(config, random_weights(config, 13, true));
  const Tensor x = RandomNumbers(14).tensor({1, 4, 24});
  Tensor memory = RandomNumbers(15).tensor({1, 6, 24});
  ForwardOptions options;
  options.key_lengths = {3};
  const Tensor clean = layer.forward(x, memory, options);
  for (Index i = 3 * 24; i < 6 * 24; ++i) memory.data<float>()[i] = i % 2 == 0 ? std::nanf("") : HUGE_VALF;
  EXPECT_TRUE(same_bits(layer.forward(x, memory, options), clean));
}

// No batch, no queries: nothing. No keys: W_O's bias alone.
TEST(Layer, EmptyInputs) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const LayerConfig config = config_of(24, 6, variant.change);
    const MultiHeadAttention layer(config, weights_of(variant, config, 16, true));
    const Index out = layer.config().output_dim;
    const auto zeros = [](Index batch, Index length) { return Tensor(DType::kF32, {batch, length, 24}); };
    EXPECT_EQ(layer.forward(zeros(0, 4)).shape(), (Dims{0, 4, out}));
    EXPECT_EQ(layer.forward(zeros(2, 0)).shape(), (Dims{2, 0, out}));
    EXPECT_EQ(layer.forward(zeros(2, 0), zeros(2, 3)).shape(), (Dims{2, 0, out}));
    EXPECT_EQ(layer.forward(zeros(0, 4), zeros(0, 0)).shape(), (Dims{0, 4, out}));
    EXPECT_EQ(layer.reference_forward(zeros(0, 4), zeros(0, 0)).shape(), (Dims{0, 4, out}));
    const Tensor no_keys = layer.forward(RandomNumbers(1).tensor({2, 3, 24}), zeros(2, 0));
    for (Index i = 0; i < no_keys.size(); ++i) {
      EXPECT_EQ(no_keys.data<float>()[i], layer.weights().output_bias.data<float>()[i % out]);
    }
  }
}

TEST(Layer, RefusesWeightsByName) {
  const auto text_of = [](const std::function<void(LayerWeights&)>& change,
                          const std::function<void(LayerConfig&)>& configure = {}) {
    const LayerConfig config = config_of(8, 4, [&](LayerConfig& c) {
      c.num_kv_heads = 2;
      if (configure) configure(c);
    });
    LayerWeights weights = random_weights(config, 1, true);
    change(weights);
    return error_of([&] { MultiHeadAttention(config, std::move(weights)); });
  };
  const auto norm = [](LayerConfig& c) { c.query_key_norm.emplace(); };
  const auto relative = [](LayerConfig& c) { c.relative_bias.emplace(); };
  const auto zeros = [](const Dims& shape) { return Tensor(DType::kF32, shape); };
  EXPECT_EQ(text_of([&](LayerWeights& w) {
              w.key_weight = zeros({8, 8});
            }),
            "MultiHeadAttention: key_weight: expected [4, 8]; found [8, 8]");
  EXPECT_EQ(text_of([&](LayerWeights& w) { w.output_weight = Tensor(); }),
            "MultiHeadAttention: output_weight: expected [8, 8]; found none");
  EXPECT_EQ(text_of([&](LayerWeights& w) {
              w.query_weight = Tensor(DType::kF64, {8, 8});
            }),
            "MultiHeadAttention: query_weight: expected f32, f16 or bf16; found f64");
  EXPECT_EQ(text_of([&](LayerWeights& w) { w.value_bias = zeros({8}); }),
            "MultiHeadAttention: value_bias: expected [4]; found [8]");
  EXPECT_EQ(text_of([&](LayerWeights& w) { w.sinks = zeros({2}); }), "MultiHeadAttention: sinks: expected [4]; found [2]");
  EXPECT_EQ(text_of([&](LayerWeights& w) { w.alibi_slopes = zeros({4}); }),
            "MultiHeadAttention: alibi_slopes: expected none, because the configuration has no alibi; found [4]");
  EXPECT_EQ(text_of([&](LayerWeights& w) { w.query_norm = zeros({2}); }),
            "MultiHeadAttention: query_norm: expected none, because the configuration has no query_key_norm; found [2]");
  EXPECT_EQ(text_of([](LayerWeights&) {}, norm), "MultiHeadAttention: query_norm: expected [2], [4, 2] or [8]; found none");
  EXPECT_EQ(text_of(
                [&](LayerWeights& w) {
                  w.query_norm = zeros({2}), w.key_norm = zeros({4, 2});
                },
                norm),
            "MultiHeadAttention: key_norm: expected [2], [2, 2] or [4]; found [4, 2]");
  EXPECT_NE(
      text_of([&](LayerWeights& w) { w.query_norm = zeros({2}), w.key_norm = zeros({2}), w.key_norm_bias = zeros({2}); }, norm)
          .find("key_norm_bias: expected none"),
      std::string::npos);
  EXPECT_EQ(text_of([](LayerWeights&) {}, relative), "MultiHeadAttention: relative_bias: expected [buckets, 4]; found none");
  EXPECT_NE(text_of(
                [&](LayerWeights& w) {
                  w.relative_bias = zeros({5, 4});
                },
                relative)
                .find("an even number of buckets"),
            std::string::npos);
  EXPECT_NE(text_of([&](LayerWeights& w) { w.relative_bias = zeros({2, 4}); }, relative).find("at least 4"), std::string::npos);
  EXPECT_NE(text_of(
                [&](LayerWeights& w) {
                  w.relative_bias = zeros({512, 4});
                },
                relative)
                .find("max_distance"),
            std::string::npos);
}

TEST(Layer, RefusesCallsByName) {
  const LayerConfig config = config_of(8, 2);
  const MultiHeadAttention layer(config, random_weights(config, 1, true));
  const Tensor x(DType::kF32, {2, 3, 8});
  const auto text_of = [&](const ForwardOptions& options, const ForwardObservation& seen = {}) {
    return error_of([&] { layer.forward(x, options, seen); });
  };
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(error_of([&] {
              layer.forward(Tensor(DType::kF32, {3, 8}));
            }),
            "MultiHeadAttention::forward: input: expected [batch, length, 8]; got [3, 8]");
  EXPECT_TRUE(contains(error_of([&] {
                         layer.forward(Tensor(DType::kF64, {2, 3, 8}));
                       }),
                       "input of f32 or f16 or bf16; got f64"));
  EXPECT_TRUE(contains(error_of([&] { layer.forward(x, Tensor(DType::kF32, {1, 3, 8})); }), "[2, 3, 8], key input [1, 3, 8]"));
  EXPECT_TRUE(contains(error_of([&] { layer.forward(x, x, Tensor(DType::kF32, {2, 4, 8})); }), "value input [2, 4, 8]"));
  ForwardOptions options;
  options.key_lengths = {3};
  EXPECT_TRUE(contains(text_of(options), "MultiHeadAttention::forward: expected key_lengths"));
  options = {};
  options.query_offset = INT64_MIN + 1;
  EXPECT_TRUE(contains(text_of(options), "query_offset"));
  options = {};
  const Tensor mask(DType::kF32, {3, 3});
  options.mask = mask;
  EXPECT_TRUE(contains(text_of(options), "mask: expected bool or u8"));
  options = {};
  options.attention_bias = mask;
  Tensor lse(DType::kF32, {2, 2, 3}), small(DType::kF32, {2, 2, 3, 2});
  lse.data<float>()[0] = 42;
  EXPECT_TRUE(contains(text_of(options, {lse, small}), "probabilities"));
  EXPECT_EQ(lse.data<float>()[0], 42);  // nothing was written
}

}  // namespace
}  // namespace multihead
