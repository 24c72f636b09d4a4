// Which blocks are found, in which order, as which family; and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.h"

namespace multihead::testing {
namespace {

const char* const kLlama = R"({"model_type": "llama", "num_attention_heads": 4})";

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const FoundLayer& layer : checkpoint.layers()) names.push_back(layer.name);
  return names;
}

TEST(DetectTest, OrdersLayersByDepth) {
  NamedTensors tensors;
  const std::vector<std::string> bart = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};
  const std::vector<std::string> paths = {"model.encoder.layers.0.self_attn",    "model.encoder.layers.2.self_attn",
                                          "model.encoder.layers.10.self_attn",   "model.decoder.layers.0.self_attn",
                                          "model.decoder.layers.0.encoder_attn", "model.decoder.layers.1.self_attn"};
  for (const std::string& path : paths) add_block(tensors, {.path = path, .names = bart, .num_kv_heads = 4});
  const CheckpointFolder folder(tensors, R"({"model_type": "bart", "num_attention_heads": 4})");
  EXPECT_EQ(names_of(folder.open()), paths);
}

TEST(DetectTest, OrdersTheLevelsOfAUNetAndReadsTheirHeads) {
  NamedTensors tensors;
  const std::vector<std::string> names = {"to_q.weight", "to_k.weight", "to_v.weight", "to_out.0.weight"};
  std::vector<std::string> paths;
  for (const std::string level : {"down_blocks.0", "down_blocks.2", "mid_block", "up_blocks.0", "up_blocks.1"}) {
    for (const std::string which : {"attn1", "attn2"}) {
      paths.push_back(level + ".attentions.0.transformer_blocks.0." + which);
      add_block(tensors, {.path = paths.back(), .names = names, .model_dim = 40, .num_heads = 5, .num_kv_heads = 5});
    }
  }
  const CheckpointFolder folder(tensors, R"({"_class_name": "UNet2DConditionModel", "attention_head_dim": [5, 10, 20]})");
  const Checkpoint checkpoint = folder.open();
  EXPECT_EQ(names_of(checkpoint), paths);
  const Index heads[] = {5, 5, 20, 20, 20, 20, 20, 20, 10, 10};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(checkpoint.layers()[i].config.num_heads, heads[i]) << paths[i];
    EXPECT_EQ(checkpoint.layers()[i].role, i % 2 == 0 ? "self" : "cross");
  }
}

TEST(DetectTest, UnetHeadsAreNotTheHeadSize) {
  NamedTensors tensors;
  add_block(tensors, {.path = "down_blocks.0.attentions.0.transformer_blocks.0.attn1",
                      .names = {"to_q.weight", "to_k.weight", "to_v.weight", "to_out.0.weight"},
                      .model_dim = 320,
                      .num_heads = 8,
                      .num_kv_heads = 8,
                      .head_dim = 40});
  const CheckpointFolder folder(tensors, R"({"_class_name": "UNet2DConditionModel", "attention_head_dim": 8})");
  EXPECT_EQ(folder.open().layers()[0].config.head_dim, 40);
}

TEST(DetectTest, UnknownLayoutShowsWhatWasFound) {
  NamedTensors tensors;
  for (const std::string layer : {"0", "1", "2", "3"}) {
    tensors.emplace_back("blocks." + layer + ".mixer.strange_qkv", Tensor(DType::kF32, {3, 5}));
    tensors.emplace_back("blocks." + layer + ".mixer.out", Tensor(DType::kF32, {7}));
  }
  expect_refused(CheckpointFolder(tensors, kLlama),
                 {"model.safetensors", "no attention layer", "8 tensors", "\"blocks.0.mixer.strange_qkv\" [3, 5]", "[7]", "…"});
  expect_refused(CheckpointFolder({}), {"no attention layer", "0 tensors"});
}

TEST(DetectTest, ModelTypeTellsSharedNamesApart) {
  const NamedTensors tensors = llama_tensors();
  EXPECT_EQ(CheckpointFolder(tensors, R"({"model_type": "mistral", "num_attention_heads": 4})").open().layers()[0].family,
            "mistral");
  expect_refused(CheckpointFolder(tensors, R"({"num_attention_heads": 4})"), {"llama", "cohere", "model_type"});
  expect_refused(CheckpointFolder(tensors), {"model.layers.0.self_attn", "llama", "model_type"});
  expect_refused(CheckpointFolder(tensors, R"({"model_type": "from\nthe future", "num_attention_heads": 4})"),
                 {"the future", "llama", "model_type"});
}

TEST(DetectTest, TheClassStandsInForTheModelType) {
  const std::pair<const char*, const char*> classes[] = {{"LlamaForCausalLM", "llama"},
                                                         {"StableLmForCausalLM", "stablelm"},
                                                         {"Gemma2ForCausalLM", "gemma2"},
                                                         {"GemmaForCausalLM", "gemma"},
                                                         {"Qwen2MoeForCausalLM", "qwen2"}};
  for (const auto& [name, family] : classes) {
    const CheckpointFolder folder(llama_tensors(),
                                  std::string(R"({"architectures": [")") + name + R"("], "num_attention_heads": 4})");
    EXPECT_EQ(folder.open().layers()[0].family, family);
  }
  for (const std::string name : {"NewForCausalLM", "Gemma3nForCausalLM", "Qwen2VLForConditionalGeneration", "Llama"}) {
    expect_refused(CheckpointFolder(llama_tensors(), R"({"architectures": [")" + name + R"("], "num_attention_heads": 4})"),
                   {name});
  }
}

TEST(DetectTest, TensorsRuleFamiliesOutWhereTheModelTypeIsSilent) {
  NamedTensors tensors = llama_tensors();
  tensors.emplace_back("model.layers.0.self_attn.sinks", Tensor(DType::kF32, {4}));
  const FoundLayer layer = CheckpointFolder(tensors, R"({"sliding_window": null})").open().layers()[0];
  EXPECT_EQ(layer.family, "gpt_oss");
  EXPECT_EQ(layer.config.num_heads, 4);
}

TEST(DetectTest, AnUnexpectedTensorIsAnError) {
  for (const std::string name : {"q_norm.weight", "q_proj.weight_scale", "sinks", "bias"}) {
    NamedTensors tensors = llama_tensors();
    tensors.emplace_back("model.layers.0.self_attn." + name, Tensor(DType::kF32, {4}));
    expect_refused(CheckpointFolder(tensors, kLlama), {"llama", name, "[4]"});
  }
  NamedTensors tensors;
  add_block(tensors, {.path = "encoder.layer.0.attention",
                      .names = {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"},
                      .num_kv_heads = 4});
  tensors.emplace_back("encoder.layer.0.attention.self.distance_embedding.weight", Tensor(DType::kF32, {9, 8}));
  expect_refused(CheckpointFolder(tensors, R"({"num_attention_heads": 4})"), {"bert", "distance_embedding"});
}

TEST(DetectTest, TorchExtraKeysAreRefused) {
  NamedTensors tensors;
  tensors.emplace_back("in_proj_weight", Tensor(DType::kF32, {24, 8}));
  tensors.emplace_back("out_proj.weight", Tensor(DType::kF32, {8, 8}));
  EXPECT_EQ(CheckpointFolder(tensors, R"({"num_heads": 2})").open().layers()[0].name, "");
  tensors.emplace_back("bias_k", Tensor(DType::kF32, {1, 1, 8}));
  expect_refused(CheckpointFolder(tensors, R"({"num_heads": 2})"), {"torch", "bias_k"});
}

TEST(DetectTest, AMaskBufferIsNotABias) {
  const auto gpt2 = [](const Dims& bias) {
    NamedTensors tensors;
    tensors.emplace_back("h.0.attn.c_attn.weight", Tensor(DType::kF32, {8, 24}));
    tensors.emplace_back("h.0.attn.c_proj.weight", Tensor(DType::kF32, {8, 8}));
    tensors.emplace_back("h.0.attn.bias", Tensor(DType::kF32, bias));
    return CheckpointFolder(tensors, R"({"model_type": "gpt2", "n_head": 2})");
  };
  const CheckpointFolder masked = gpt2({1, 1, 32, 32});
  const Checkpoint checkpoint = masked.open();
  EXPECT_FALSE(checkpoint.layers()[0].has_bias);
  EXPECT_TRUE(checkpoint.load_weights(0).query_bias.empty());
  expect_refused(gpt2({24}), {"gpt2", "h.0.attn.bias"});
}

TEST(DetectTest, IncompleteLayersAreRefused) {
  NamedTensors tensors = llama_tensors(2);
  tensors.pop_back();
  expect_refused(CheckpointFolder(tensors, kLlama), {"model.layers.1.self_attn", "no o_proj.weight"});
}

TEST(DetectTest, NormsAndSinksAreRequiredWhereTheFamilyHasThem) {
  const std::pair<const char*, const char*> families[] = {
      {"qwen3", "q_norm.weight"}, {"gemma3", "q_norm.weight"}, {"gpt_oss", "sinks"}};
  for (const auto& [family, tensor] : families) {
    const std::string config = std::string(R"({"model_type": ")") + family + R"(", "num_attention_heads": 4})";
    expect_refused(CheckpointFolder(llama_tensors(), config), {"model.layers.0.self_attn", "no ", tensor});
  }
  NamedTensors tensors = llama_tensors();
  tensors.emplace_back("model.layers.0.self_attn.q_norm.weight", Tensor(DType::kF32, {8}));
  expect_refused(CheckpointFolder(tensors, R"({"model_type": "qwen3"})"), {"no k_norm.weight"});
}

TEST(DetectTest, TowersHaveTheirOwnConfigurations) {
  NamedTensors tensors;
  add_block(tensors, {.path = "language_model.model.layers.0.self_attn"});
  add_block(tensors, {.path = "vision_tower.vision_model.encoder.layers.0.self_attn",
                      .names = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"},
                      .num_kv_heads = 4});
  const CheckpointFolder folder(tensors,
                                R"({"model_type": "llava", "text_config": {"model_type": "llama", "num_attention_heads": 4},
      "vision_config": {"model_type": "clip_vision_model", "num_attention_heads": 16}})");
  const Checkpoint checkpoint = folder.open();
  ASSERT_EQ(checkpoint.layers().size(), 2u);
  EXPECT_EQ(checkpoint.layers()[0].family, "llama");
  EXPECT_EQ(checkpoint.layers()[0].config.num_heads, 4);
  EXPECT_EQ(checkpoint.layers()[1].family, "clip");
  EXPECT_EQ(checkpoint.layers()[1].config.num_heads, 16);
  EXPECT_FALSE(checkpoint.layers()[1].config.causal);
}

TEST(DetectTest, EncoderDecoderPairsHaveTwoConfigurations) {
  NamedTensors tensors;
  add_block(tensors,
            {.path = "encoder.encoder.layer.0.attention",
             .names = {"attention.query.weight", "attention.key.weight", "attention.value.weight", "output.dense.weight"},
             .num_kv_heads = 4});
  const std::string decoder = "decoder.transformer.h.0.crossattention.";
  tensors.emplace_back(decoder + "q_attn.weight", random_tensor({16, 16}, 1));
  tensors.emplace_back(decoder + "c_attn.weight", random_tensor({32, 32}, 2));
  tensors.emplace_back(decoder + "c_proj.weight", random_tensor({16, 16}, 3));
  tensors.emplace_back(decoder + "c_attn.bias", random_tensor({32}, 4));
  const CheckpointFolder folder(tensors, R"({"model_type": "vision-encoder-decoder",
      "encoder": {"model_type": "vit", "num_attention_heads": 2}, "decoder": {"model_type": "gpt2", "n_head": 4}})");
  const Checkpoint checkpoint = folder.open();
  ASSERT_EQ(checkpoint.layers().size(), 2u);
  EXPECT_EQ(checkpoint.layers()[0].family, "vit");
  EXPECT_EQ(checkpoint.layers()[0].config.num_heads, 2);
  const FoundLayer& cross = checkpoint.layers()[1];
  EXPECT_EQ(cross.role, "cross");
  EXPECT_FALSE(cross.config.causal);
  EXPECT_EQ(cross.config.num_heads, 4);
  EXPECT_EQ(cross.config.key_input_dim, 32);
  // c_attn is [in, k | v]: column 16 is the first of the values.
  const LayerWeights weights = checkpoint.load_weights(1);
  EXPECT_EQ(to_string(weights.value_weight.shape()), "[16, 32]");
  for (Index row = 0; row < 16; ++row) {
    for (Index in = 0; in < 32; ++in) {
      EXPECT_EQ(weights.value_weight.data<float>()[row * 32 + in], tensors[5].second.data<float>()[in * 32 + 16 + row]);
    }
    EXPECT_EQ(weights.key_bias.data<float>()[row], tensors[7].second.data<float>()[row]);
  }
  EXPECT_TRUE(weights.query_bias.empty());
  EXPECT_NO_THROW(checkpoint.load(1));
}

}  // namespace
}  // namespace multihead::testing
