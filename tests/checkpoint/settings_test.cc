// Scale, sizes and what single families take from config.json; and what follows from tensors without it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/llama_layers.h"

namespace multihead::testing {
namespace {

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

TEST(FalconTest, SlopesAreRoundedToBf16AndScaled) {
  NamedTensors tensors;
  tensors.emplace_back("transformer.h.0.self_attention.query_key_value.weight", Tensor(DType::kF32, {144, 48}));
  tensors.emplace_back("transformer.h.0.self_attention.dense.weight", Tensor(DType::kF32, {48, 48}));
  const CheckpointFolder folder(tensors, R"({"model_type": "falcon", "num_attention_heads": 12, "alibi": true})");
  const std::vector<float> slopes = values_of<float>(folder.open().load_weights(0).alibi_slopes);
  ASSERT_EQ(slopes.size(), 12u);
  EXPECT_EQ(slopes[0], 0.5F * 0.5F);
  EXPECT_EQ(slopes[8], 0.70703125F * 0.5F);  // 2^-0.5 = 0.70710678 has no room in 8 bits
}

TEST(MetaTest, ScaledRotationIsRefused) {
  NamedTensors tensors;
  add_block(tensors, {.path = "layers.0.attention", .names = {"wq.weight", "wk.weight", "wv.weight", "wo.weight"}});
  expect_refused(CheckpointFolder(tensors, R"({"n_heads": 4, "use_scaled_rope": true})"), {"use_scaled_rope"});
}

}  // namespace
}  // namespace multihead::testing
