// What config.json adds to names and shapes: windows, rotation, scale, norms, and the numbers that must agree with the tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "checkpoint/checkpoint_testing.h"

namespace multihead::testing {
namespace {

// Configurations of the layers that Llama's names and this config.json give; `more` follows model_type and num_attention_heads.
std::vector<LayerConfig> llama_layers(const std::string& type, const std::string& more = "", int layers = 1) {
  const std::string config =
      R"({"model_type": ")" + type + R"(", "num_attention_heads": 4)" + (more.empty() ? "" : ", ") + more + "}";
  std::vector<LayerConfig> configs;
  const CheckpointFolder folder(llama_tensors(layers), config);
  const Checkpoint checkpoint = folder.open();
  for (const FoundLayer& layer : checkpoint.layers()) configs.push_back(layer.config);
  return configs;
}

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

void expect_llama_refused(const std::string& type, const std::string& more, std::initializer_list<std::string_view> parts) {
  expect_error<FormatError>([&] { llama_layers(type, more); }, parts);
}

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

TEST(ScaleTest, ComesFromTheFamily) {
  EXPECT_EQ(llama_layers("llama")[0].scale, std::nullopt);
  EXPECT_EQ(llama_layers("gemma2", R"("query_pre_attn_scalar": 144)")[0].scale, 1.0F / 12);
  EXPECT_EQ(llama_layers("gemma2")[0].scale, 1.0F / 16);
  EXPECT_EQ(llama_layers("gemma")[0].scale, std::nullopt);
  EXPECT_EQ(llama_layers("granite")[0].scale, 1.0F);
  expect_llama_refused("gemma2", R"("query_pre_attn_scalar": 0)", {"scale"});
}

TEST(ScaleTest, Gemma2CapsUnlessNull) {
  EXPECT_EQ(llama_layers("gemma2")[0].softcap, 50.0F);
  EXPECT_EQ(llama_layers("gemma2", R"("attn_logit_softcapping": 30.0)")[0].softcap, 30.0F);
  EXPECT_EQ(llama_layers("gemma2", R"("attn_logit_softcapping": null)")[0].softcap, std::nullopt);
  EXPECT_EQ(llama_layers("gemma3")[0].softcap, std::nullopt);
}

TEST(ScaleTest, Gpt2DividesByTheLayerToo) {
  NamedTensors tensors;
  for (const std::string layer : {"0", "1", "2"}) {
    tensors.emplace_back("h." + layer + ".attn.c_attn.weight", Tensor(DType::kF32, {32, 96}));
    tensors.emplace_back("h." + layer + ".attn.c_proj.weight", Tensor(DType::kF32, {32, 32}));
  }
  const auto scale = [&](std::size_t layer, const std::string& more) {
    return *CheckpointFolder(tensors, R"({"model_type": "gpt2", "n_head": 2)" + more + "}").open().layers()[layer].config.scale;
  };
  EXPECT_EQ(scale(2, ""), 0.25F);
  EXPECT_EQ(scale(2, R"(, "scale_attn_weights": false)"), 1.0F);
  EXPECT_EQ(scale(2, R"(, "scale_attn_by_inverse_layer_idx": true)"), static_cast<float>(0.25 / 3));
}

TEST(SizesTest, MustAgreeWithTheTensors) {
  EXPECT_EQ(llama_layers("llama", R"("head_dim": null, "num_key_value_heads": null)")[0].head_dim, 8);
  expect_llama_refused("llama", R"("head_dim": 16)", {"head_dim 8", "16"});
  expect_llama_refused("llama", R"("num_key_value_heads": 4)", {"num_key_value_heads 2", "4"});
  const CheckpointFolder odd(llama_tensors(), R"({"model_type": "llama", "num_attention_heads": 5})");
  expect_refused(odd, {"divides 32", "5", "model.layers.0.self_attn", "llama"});
  const CheckpointFolder list(llama_tensors(), R"({"model_type": "llama", "num_attention_heads": [4, 4]})");
  expect_refused(list, {"num_attention_heads", "a list of 2"});
  const CheckpointFolder null(llama_tensors(), R"({"model_type": "llama", "num_attention_heads": null})");
  expect_refused(null, {"num_attention_heads or n_head", "missing or null"});
}

TEST(SizesTest, HeadSizeNeedNotBeWidthOverHeads) {
  NamedTensors tensors;
  add_block(tensors, {.model_dim = 20, .num_heads = 4, .num_kv_heads = 1, .head_dim = 16});
  const FoundLayer layer =
      CheckpointFolder(tensors, R"({"model_type": "mistral", "num_attention_heads": 4, "hidden_size": 20})").open().layers()[0];
  EXPECT_EQ(layer.config.head_dim, 16);
  EXPECT_EQ(layer.config.model_dim, 20);
  EXPECT_EQ(layer.config.num_kv_heads, 1);
}

// The hub's own file of the 4B model names neither heads nor head size.
TEST(SizesTest, NormsOfOneHeadTellTheNumberOfHeads) {
  NamedTensors tensors;
  const std::string path = "language_model.model.layers.0.self_attn";
  add_block(tensors, {.path = path});
  tensors.emplace_back(path + ".q_norm.weight", Tensor(DType::kF32, {8}));
  tensors.emplace_back(path + ".k_norm.weight", Tensor(DType::kF32, {8}));
  const auto open = [&](const std::string& more) {
    return CheckpointFolder(tensors, R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text")" + more + "}}")
        .open();
  };
  const FoundLayer layer = open("").layers()[0];
  EXPECT_EQ(layer.config.num_heads, 4);
  EXPECT_EQ(layer.config.num_kv_heads, 2);
  EXPECT_TRUE(layer.config.query_key_norm->weight_plus_one);
  expect_error<FormatError>([&] { open(R"(, "num_attention_heads": 8)"); }, {"4 heads", "8"});
  expect_error<FormatError>([&] { open(R"(, "use_bidirectional_attention": true)"); }, {"use_bidirectional_attention"});
}

TEST(SizesTest, ShapesThatDoNotFitAreRefused) {
  const std::pair<std::size_t, Dims> changes[] = {{0, {32}},     {0, {33, 32}}, {1, {17, 32}}, {1, {24, 32}},   {1, {16, 31}},
                                                  {2, {15, 32}}, {2, {0, 32}},  {3, {32, 31}}, {3, {32, 32, 1}}};
  for (const auto& [index, shape] : changes) {
    NamedTensors tensors = llama_tensors();
    tensors[index].second = Tensor(DType::kF32, shape);
    SCOPED_TRACE(tensors[index].first + " " + to_string(shape));
    expect_refused(CheckpointFolder(tensors, R"({"model_type": "llama", "num_attention_heads": 4})"), {"expected"});
  }
  const std::pair<const char*, Dims> extras[] = {{"q_proj.bias", {31}}, {"k_proj.bias", {32}}, {"o_proj.bias", {32, 1}}};
  for (const auto& [name, shape] : extras) {
    NamedTensors tensors = llama_tensors();
    tensors.emplace_back(std::string("model.layers.0.self_attn.") + name, Tensor(DType::kF32, shape));
    expect_refused(CheckpointFolder(tensors, R"({"model_type": "llama", "num_attention_heads": 4})"), {name, to_string(shape)});
  }
}

TEST(WithoutConfigTest, T5FollowsFromItsTensors) {
  NamedTensors tensors;
  const std::vector<std::string> names = {"q.weight", "k.weight", "v.weight", "o.weight"};
  for (const std::string block : {"encoder.block.0.layer.0.SelfAttention", "encoder.block.1.layer.0.SelfAttention",
                                  "decoder.block.0.layer.0.SelfAttention", "decoder.block.0.layer.1.EncDecAttention"}) {
    add_block(tensors, {.path = block, .names = names, .model_dim = 20, .num_kv_heads = 4});
  }
  const Tensor table = random_tensor({32, 4}, 1), decoder_table = random_tensor({16, 4}, 2);
  tensors.emplace_back("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", table.copy());
  tensors.emplace_back("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", decoder_table.copy());
  const CheckpointFolder folder(tensors);
  const Checkpoint checkpoint = Checkpoint::open(folder / "model.safetensors");
  ASSERT_EQ(checkpoint.layers().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const LayerConfig& config = checkpoint.layers()[i].config;
    EXPECT_EQ(config.num_heads, 4);
    EXPECT_EQ(config.head_dim, 8);
    EXPECT_EQ(config.scale, 1.0F);
    EXPECT_EQ(config.causal, i == 2);
    EXPECT_EQ(config.relative_bias.has_value(), i != 3);
    if (config.relative_bias) {
      EXPECT_EQ(config.relative_bias->max_distance, 128);
      EXPECT_EQ(config.relative_bias->bidirectional, i < 2);
    }
    EXPECT_NO_THROW(checkpoint.load(i));
  }
  EXPECT_EQ(checkpoint.layers()[0].positions, "relative bias, 32 buckets");
  EXPECT_TRUE(same_bits(checkpoint.load_weights(1).relative_bias, table));
  EXPECT_TRUE(same_bits(checkpoint.load_weights(2).relative_bias, decoder_table));
  EXPECT_TRUE(checkpoint.load_weights(3).relative_bias.empty());
}

TEST(T5Test, ABlocksOwnTableComesFirst) {
  NamedTensors tensors;
  std::vector<Tensor> tables;
  for (const std::string block : {"encoder.block.0.layer.0.SelfAttention", "encoder.block.1.layer.0.SelfAttention"}) {
    add_block(tensors, {.path = block, .names = {"q.weight", "k.weight", "v.weight", "o.weight"}, .num_kv_heads = 4});
    tables.push_back(random_tensor({32, 4}, static_cast<unsigned>(tables.size())));
    tensors.emplace_back(block + ".relative_attention_bias.weight", tables.back().copy());
  }
  const CheckpointFolder folder(tensors, R"({"model_type": "umt5"})");
  EXPECT_TRUE(same_bits(folder.open().load_weights(0).relative_bias, tables[0]));
  EXPECT_TRUE(same_bits(folder.open().load_weights(1).relative_bias, tables[1]));
}

TEST(T5Test, WithoutATableItIsRefused) {
  NamedTensors tensors;
  add_block(tensors, {.path = "encoder.block.1.layer.0.SelfAttention",
                      .names = {"q.weight", "k.weight", "v.weight", "o.weight"},
                      .num_kv_heads = 4});
  const std::string table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  expect_refused(CheckpointFolder(tensors, R"({"num_heads": 4})"), {table});
  tensors.emplace_back(table, Tensor(DType::kF32, {3, 4}));
  const CheckpointFolder odd(tensors, R"({"num_heads": 4})");
  const Checkpoint checkpoint = odd.open();  // buckets are the layer's to judge
  expect_error<FormatError>([&] { checkpoint.load(0); }, {"model.safetensors", "encoder.block.1", "buckets", "[3, 4]"});
}

TEST(WithoutConfigTest, OpenAiClipHasHeadsOf64) {
  NamedTensors tensors;
  for (const std::string block : {"transformer.resblocks.0.attn", "visual.transformer.resblocks.0.attn"}) {
    tensors.emplace_back(block + ".in_proj_weight", Tensor(DType::kF32, {384, 128}));
    tensors.emplace_back(block + ".in_proj_bias", Tensor(DType::kF32, {384}));
    tensors.emplace_back(block + ".out_proj.weight", Tensor(DType::kF32, {128, 128}));
  }
  const CheckpointFolder folder(tensors);
  const Checkpoint checkpoint = folder.open();
  ASSERT_EQ(checkpoint.layers().size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(checkpoint.layers()[i].family, "clip_openai");
    EXPECT_EQ(checkpoint.layers()[i].config.num_heads, 2);
    EXPECT_EQ(checkpoint.layers()[i].config.causal, i == 0);
  }
}

TEST(WithoutConfigTest, OthersSayWhichKeyIsMissing) {
  NamedTensors tensors;
  add_block(tensors, {.path = "encoder.layer.0.attention",
                      .names = {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"},
                      .num_kv_heads = 4});
  expect_refused(CheckpointFolder(tensors), {"encoder.layer.0.attention", "bert", "no config.json", "num_attention_heads"});
}

TEST(BertTest, ADecoderIsCausal) {
  NamedTensors tensors;
  add_block(tensors, {.path = "encoder.layer.0.attention",
                      .names = {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"},
                      .num_kv_heads = 4});
  EXPECT_FALSE(CheckpointFolder(tensors, R"({"num_attention_heads": 4})").open().layers()[0].config.causal);
  EXPECT_TRUE(CheckpointFolder(tensors, R"({"num_attention_heads": 4, "is_decoder": true})").open().layers()[0].config.causal);
  expect_refused(CheckpointFolder(tensors, R"({"model_type": "esm", "num_attention_heads": 4})"), {"esm", "bert"});
}

TEST(AlbertTest, OneBlockIsManyLayers) {
  NamedTensors tensors;
  for (const std::string group : {"0", "1"}) {
    add_block(tensors, {.path = "albert.encoder.albert_layer_groups." + group + ".albert_layers.0.attention",
                        .names = {"query.weight", "key.weight", "value.weight", "dense.weight"},
                        .num_kv_heads = 4});
  }
  const auto open = [&](const std::string& more) {
    return CheckpointFolder(tensors, R"({"model_type": "albert", "num_attention_heads": 4)" + more + "}").open();
  };
  const Checkpoint checkpoint = open(R"(, "num_hidden_layers": 6, "num_hidden_groups": 2)");
  ASSERT_EQ(checkpoint.layers().size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(checkpoint.layers()[i].name,
              "albert.encoder.albert_layer_groups." + std::to_string(i / 3) + ".albert_layers.0.attention");
  }
  expect_error<FormatError>([&] { open(""); }, {"albert", "num_hidden_layers"});
  expect_error<FormatError>([&] { open(R"(, "num_hidden_layers": 5, "num_hidden_groups": 2)"); }, {"a multiple of 2", "5"});
  expect_error<FormatError>([&] { open(R"(, "num_hidden_layers": 2000000000)"); }, {"num_hidden_layers", "at most"});
  expect_error<FormatError>([&] { open(R"(, "num_hidden_layers": 6, "inner_group_num": 2)"); }, {"inner_group_num"});
}

TEST(WhisperTest, AMissingKeyBiasIsNone) {
  NamedTensors tensors;
  const std::string path = "model.encoder.layers.0.self_attn";
  add_block(tensors,
            {.path = path, .names = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"}, .num_kv_heads = 4});
  tensors.emplace_back(path + ".q_proj.bias", Tensor(DType::kF32, {32}));
  const CheckpointFolder folder(tensors,
                                R"({"model_type": "whisper", "encoder_attention_heads": 4, "decoder_attention_heads": 2})");
  const Checkpoint checkpoint = folder.open();
  EXPECT_TRUE(checkpoint.layers()[0].has_bias);
  EXPECT_EQ(checkpoint.layers()[0].config.num_heads, 4);
  EXPECT_TRUE(checkpoint.load_weights(0).key_bias.empty());
}

TEST(MptTest, SlopesFollowTheirMaximum) {
  NamedTensors tensors;
  tensors.emplace_back("transformer.blocks.0.attn.Wqkv.weight", Tensor(DType::kF32, {72, 24}));
  tensors.emplace_back("transformer.blocks.0.attn.out_proj.weight", Tensor(DType::kF32, {24, 24}));
  const auto mpt = [&](const std::string& attention) {
    return CheckpointFolder(tensors, R"({"model_type": "mpt", "n_heads": 3, "attn_config": )" + attention + "}");
  };
  // For 3 heads MPT takes 2^(-16 i / 4) at i = 2, 4, then at i = 1.
  const CheckpointFolder steep = mpt(R"({"alibi": true, "alibi_bias_max": 16})");
  EXPECT_EQ(values_of<float>(steep.open().load_weights(0).alibi_slopes), (std::vector<float>{0x1p-8F, 0x1p-16F, 0x1p-4F}));
  EXPECT_FALSE(mpt(R"({"alibi": false})").open().layers()[0].config.alibi);
  expect_refused(mpt(R"({"rope": true})"), {"rope"});
}

TEST(MetaTest, ScaledRotationIsRefused) {
  NamedTensors tensors;
  add_block(tensors, {.path = "layers.0.attention", .names = {"wq.weight", "wk.weight", "wv.weight", "wo.weight"}});
  expect_refused(CheckpointFolder(tensors, R"({"n_heads": 4, "use_scaled_rope": true})"), {"use_scaled_rope"});
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
