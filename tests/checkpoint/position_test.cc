// Windows and rotation: what config.json says, and what its silence means.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/llama_layers.h"

namespace multihead::testing {
namespace {

// Keys that a window shows, itself included; 0 for no window.
Index keys_of(const LayerConfig& config) {
  if (!config.window) return 0;
  EXPECT_EQ(config.window->right, 0);
  return *config.window->left + 1;
}

std::vector<Index> windows(const std::string& type, const std::string& more, int layers) {
  std::vector<Index> keys;
  for (const LayerConfig& config : llama_layers(type, more, layers)) keys.push_back(keys_of(config));
  return keys;
}

Rotary rotary(const std::string& type, const std::string& more) { return *llama_layers(type, more)[0].rotary; }

using Windows = std::vector<Index>;

TEST(WindowTest, MistralSlidesUnlessNull) {
  EXPECT_EQ(windows("mistral", R"("sliding_window": 7)", 2), (Windows{7, 7}));
  EXPECT_EQ(windows("mistral", R"("sliding_window": null)", 2), (Windows{0, 0}));
  EXPECT_EQ(windows("mistral", "", 1), (Windows{4096}));
  EXPECT_EQ(windows("mixtral", "", 1), (Windows{0}));
  EXPECT_EQ(windows("llama", R"("sliding_window": 7)", 1), (Windows{0}));
}

TEST(WindowTest, Qwen2SlidesFromMaxWindowLayersOnIfToldTo) {
  EXPECT_EQ(windows("qwen2", R"("use_sliding_window": false, "sliding_window": 7, "max_window_layers": 1)", 3),
            (Windows{0, 0, 0}));
  EXPECT_EQ(windows("qwen2", R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1)", 3),
            (Windows{0, 7, 7}));
  EXPECT_EQ(windows("qwen2", R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 0)", 1), (Windows{7}));
  EXPECT_EQ(windows("qwen2", R"("use_sliding_window": true, "sliding_window": 7)", 2), (Windows{0, 0}));
  EXPECT_EQ(windows("qwen2", R"("sliding_window": 7)", 2), (Windows{0, 0}));
}

TEST(WindowTest, GemmaAlternates) {
  EXPECT_EQ(windows("gemma", R"("sliding_window": 7)", 2), (Windows{0, 0}));
  EXPECT_EQ(windows("gemma2", R"("sliding_window": 7)", 4), (Windows{7, 0, 7, 0}));
  EXPECT_EQ(windows("gemma2", "", 2), (Windows{4096, 0}));
  EXPECT_EQ(windows("gemma3_text", R"("sliding_window": 7)", 8), (Windows{7, 7, 7, 7, 7, 0, 7, 7}));
}

TEST(WindowTest, LayerTypesComeBeforeTheRule) {
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention"], "sliding_window": 7)";
  EXPECT_EQ(windows("gemma2", types, 2), (Windows{0, 7}));
  EXPECT_EQ(windows("gpt_oss", types, 2), (Windows{0, 7}));
  EXPECT_EQ(windows("gpt_oss", "", 2), (Windows{128, 0}));
  EXPECT_EQ(windows("qwen2", types + R"(, "use_sliding_window": true, "max_window_layers": 0)", 2), (Windows{0, 7}));
  expect_error<FormatError>([&] { windows("gemma2", types, 3); }, {"layer_types", "element 2"});
  expect_error<FormatError>([] { windows("gemma2", R"("layer_types": ["chunked_attention"])", 1); },
                            {"layer_types", "chunked"});
}

TEST(RotaryTest, ThetaAndItsPrecedence) {
  EXPECT_EQ(rotary("llama", "").theta, 10000);
  EXPECT_EQ(rotary("llama", R"("rope_theta": 500000.0)").theta, 500000);
  EXPECT_EQ(rotary("llama", R"("rope_theta": 5, "rope_parameters": {"rope_theta": 70, "rope_type": "default"})").theta, 70);
  EXPECT_EQ(rotary("gpt_oss", "").theta, 150000);
  EXPECT_EQ(rotary("llama", "").pairing, RotaryPairing::kHalfSplit);
  EXPECT_EQ(rotary("cohere", "").pairing, RotaryPairing::kInterleaved);
  expect_llama_refused("llama", R"("rope_theta": [1, 2])", {"rope_theta", "one finite number"});
  expect_llama_refused("llama", R"("rope_theta": -3)", {"theta", "-3"});
}

TEST(RotaryTest, Gemma3HasOneBaseForEachKindOfLayer) {
  const auto theta = [](const std::string& more) {
    std::vector<double> thetas;
    for (const LayerConfig& layer : llama_layers("gemma3", more + R"(, "sliding_window_pattern": 2)", 2)) {
      thetas.push_back(layer.rotary->theta);
      EXPECT_EQ(std::holds_alternative<LinearRotaryScaling>(layer.rotary->scaling), !layer.window);
    }
    return thetas;
  };
  using Thetas = std::vector<double>;
  const std::string scaling = R"("rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  EXPECT_EQ(theta(scaling), (Thetas{10000, 1e6}));
  EXPECT_EQ(theta(scaling + R"(, "rope_theta": 300, "rope_local_base_freq": 200)"), (Thetas{200, 300}));
  EXPECT_EQ(theta(R"("rope_parameters": {"full_attention": {"rope_theta": 40, "rope_type": "linear", "factor": 8.0},
                                         "sliding_attention": {"rope_theta": 30, "rope_type": "default"}})"),
            (Thetas{30, 40}));
}

TEST(RotaryTest, PartOfTheHead) {
  EXPECT_EQ(rotary("llama", "").rotary_dim, 8);
  EXPECT_EQ(rotary("glm4", "").rotary_dim, 4);
  EXPECT_EQ(rotary("stablelm", "").rotary_dim, 2);
  EXPECT_EQ(rotary("llama", R"("partial_rotary_factor": 0.75)").rotary_dim, 6);
  EXPECT_EQ(rotary("llama", R"("partial_rotary_factor": 1, "rope_parameters": {"partial_rotary_factor": 0.5})").rotary_dim, 4);
  expect_llama_refused("llama", R"("partial_rotary_factor": 1.5)", {"partial_rotary_factor", "1.5"});
  expect_llama_refused("llama", R"("partial_rotary_factor": 1e-9)", {"partial_rotary_factor"});
  expect_llama_refused("llama", R"("partial_rotary_factor": 0.4)", {"even"});
}

TEST(RotaryTest, NeoxTurnsAQuarterAndGptjSaysHowMuch) {
  NamedTensors neox;
  neox.emplace_back("gpt_neox.layers.0.attention.query_key_value.weight", Tensor(DType::kF32, {96, 32}));
  neox.emplace_back("gpt_neox.layers.0.attention.dense.weight", Tensor(DType::kF32, {32, 32}));
  neox.emplace_back("gpt_neox.layers.0.attention.rotary_emb.inv_freq", Tensor(DType::kF32, {4}));
  neox.emplace_back("gpt_neox.layers.0.attention.bias", Tensor(DType::kBool, {1, 1, 4, 4}));
  const CheckpointFolder folder(neox, R"({"num_attention_heads": 4, "rotary_emb_base": 77})");
  const FoundLayer layer = folder.open().layers()[0];
  EXPECT_EQ(layer.config.rotary->rotary_dim, 2);
  EXPECT_EQ(layer.config.rotary->theta, 77);
  EXPECT_EQ(layer.positions, "rotary half-split of 2 dimensions, theta 77");

  NamedTensors gptj;
  add_block(gptj, {.path = "transformer.h.0.attn",
                   .names = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"},
                   .num_kv_heads = 4});
  EXPECT_EQ(CheckpointFolder(gptj, R"({"n_head": 4, "rotary_dim": 4})").open().layers()[0].config.rotary->rotary_dim, 4);
  EXPECT_EQ(CheckpointFolder(gptj, R"({"n_head": 4, "rotary_dim": null})").open().layers()[0].config.rotary->rotary_dim, 8);
  expect_refused(CheckpointFolder(gptj, R"({"n_head": 4})"), {"gptj", "rotary_dim"});
  expect_refused(CheckpointFolder(gptj, R"({"n_head": 4, "rotary_dim": 10})"), {"rotary_dim", "8", "10"});
}

TEST(RotaryTest, ScalingByFactor) {
  const Rotary linear = rotary("llama", R"("rope_scaling": {"type": "linear", "factor": 4})");
  EXPECT_EQ(std::get<LinearRotaryScaling>(linear.scaling).factor, 4);
  const Rotary llama3 = rotary("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 3.0, "original_max_position_embeddings": 4096})");
  const auto& scaling = std::get<Llama3RotaryScaling>(llama3.scaling);
  EXPECT_EQ(scaling.factor, 32);
  EXPECT_EQ(scaling.low_freq_factor, 1);
  EXPECT_EQ(scaling.high_freq_factor, 3);
  EXPECT_EQ(scaling.original_max_positions, 4096);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rotary("llama", R"("rope_scaling": null)").scaling));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rotary("llama", R"("rope_scaling": {"rope_type": "default"})").scaling));
}

TEST(RotaryTest, Yarn) {
  const auto yarn = [](const std::string& dict, const std::string& more = "") {
    return std::get<YarnRotaryScaling>(
        rotary("qwen2", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0)" + dict + "}" + more).scaling);
  };
  const YarnRotaryScaling plain = yarn(R"(, "original_max_position_embeddings": 32768)");
  EXPECT_EQ(plain.factor, 4);
  EXPECT_EQ(plain.original_max_positions, 32768);
  EXPECT_EQ(plain.beta_fast, 32);
  EXPECT_EQ(plain.beta_slow, 1);
  EXPECT_TRUE(plain.truncate);
  EXPECT_EQ(plain.attention_factor, std::nullopt);
  EXPECT_EQ(yarn("", R"(, "max_position_embeddings": 1024)").original_max_positions, 1024);
  EXPECT_EQ(yarn("", R"(, "max_position_embeddings": 1024, "original_max_position_embeddings": 512)").original_max_positions,
            512);
  const YarnRotaryScaling full = yarn(R"(, "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2,
      "truncate": false, "attention_factor": 1.5, "mscale": 3)");
  EXPECT_EQ(full.beta_fast, 16);
  EXPECT_EQ(full.beta_slow, 2);
  EXPECT_FALSE(full.truncate);
  EXPECT_EQ(full.attention_factor, 1.5);
  const double log4 = std::log(4.0);
  EXPECT_DOUBLE_EQ(*yarn(R"(, "original_max_position_embeddings": 9, "mscale": 2, "mscale_all_dim": 0.5)").attention_factor,
                   (0.2 * log4 + 1) / (0.05 * log4 + 1));
}

TEST(RotaryTest, UnknownScalingsAreRefused) {
  for (const std::string type : {"dynamic", "longrope", "su", "mrope", "proportional", "YARN"}) {
    expect_llama_refused("llama", R"("rope_scaling": {"rope_type": ")" + type + R"(", "factor": 2})", {"rotary scaling", type});
  }
  expect_llama_refused("llama", R"("rope_scaling": {"factor": 2})", {"rope_type"});
  expect_llama_refused("llama", R"("rope_scaling": {"type": "linear"})", {"rope_scaling", "factor"});
  expect_llama_refused("llama", R"("rope_scaling": {"type": "linear", "factor": 0})", {"factor"});
  expect_llama_refused("llama", R"("rope_scaling": {"type": "yarn", "factor": 2})", {"max_position_embeddings"});
  expect_llama_refused("llama", R"("rope_scaling": "linear")", {"rope_scaling", "an object"});
}

TEST(PositionsTest, AreTold) {
  const auto positions = [](const std::string& type, const std::string& more) {
    return CheckpointFolder(llama_tensors(), R"({"model_type": ")" + type + R"(", "num_attention_heads": 4)" + more + "}")
        .open()
        .layers()[0]
        .positions;
  };
  EXPECT_EQ(positions("llama", R"(, "rope_theta": 1e6)"), "rotary half-split, theta 1000000");
  EXPECT_EQ(positions("glm", ""), "rotary interleaved of 4 dimensions, theta 10000");
  EXPECT_EQ(positions("llama", R"(, "rope_scaling": {"type": "linear", "factor": 2.5})"),
            "rotary half-split, theta 10000, scaled by 2.5");
  EXPECT_EQ(positions("llama", R"(, "rope_scaling": {"type": "yarn", "factor": 4}, "max_position_embeddings": 64)"),
            "rotary half-split, theta 10000, yarn scaling by 4");
}

}  // namespace
}  // namespace multihead::testing
