#include "multihead/decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "decoder/tiny_decoder.h"
#include "each_target.h"
#include "io/io_testing.h"
#include "multihead/io.h"
#include "multihead/training.h"

namespace multihead {
namespace {

using test::TinyShape;
using testing::TempFolder;

ConstTensorView one_sequence(const std::vector<Index>& ids) { return {ids.data(), {1, static_cast<Index>(ids.size())}}; }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data<float>(), b.data<float>(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

double worst_error(const Tensor& logits, const test::RowList& expected) {
  double worst = 0;
  const Index width = logits.shape()[2];
  for (Index n = 0; n < logits.size(); ++n) {
    const double error = std::abs(static_cast<double>(logits.data<float>()[n]) -
                                  expected[static_cast<std::size_t>(n / width)][static_cast<std::size_t>(n % width)]);
    worst = error <= worst ? worst : error;  // a NaN counts
  }
  return worst;
}

TEST(Decoder, AgreesWithTheDefinitionOnEveryTarget) {
  const std::vector<TinyShape> shapes{
      {},
      {.tied = false},
      {.biases = true},
      {.vocab_size = 5, .model_dim = 7, .hidden_dim = 1, .num_layers = 3, .num_heads = 1, .num_kv_heads = 1, .head_dim = 2}};
  test::for_each_target([&] {
    for (const TinyShape& shape : shapes) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        const DecoderWeights weights = test::tiny_weights(shape, 11, dtype);
        const Decoder decoder(test::tiny_config(shape), copy_weights(weights));
        const auto ids = test::random_ids(19, shape.vocab_size, 3);
        const auto expected = test::reference_logits(decoder.config(), weights, ids);
        EXPECT_LT(worst_error(decoder.forward(one_sequence(ids)), expected), 2e-5);
      }
    }
  });
}

TEST(Decoder, ABatchIsItsSequences) {
  const TinyShape shape;
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 1));
  const auto ids = test::random_ids(3 * 10, shape.vocab_size, 4);
  const Tensor all = decoder.forward(ConstTensorView(ids.data(), {3, 10}));
  for (Index b = 0; b < 3; ++b) {
    const std::vector<Index> one(ids.begin() + b * 10, ids.begin() + (b + 1) * 10);
    EXPECT_TRUE(same_bits(Tensor::copy_of(all.view().slice(0, b, b + 1)), decoder.forward(one_sequence(one)))) << b;
  }
  const std::vector<Index> none;
  EXPECT_EQ(decoder.forward(one_sequence(none)).shape(), (Dims{1, 0, shape.vocab_size}));
}

TEST(Decoder, ThreadsChangeNoBit) {
  const TinyShape shape{.vocab_size = 500, .model_dim = 96, .hidden_dim = 250};
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 1));
  const auto ids = test::random_ids(60, shape.vocab_size, 4);
  set_num_threads(1);
  const Tensor first = decoder.forward(one_sequence(ids));
  for (const int threads : {2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_TRUE(same_bits(decoder.forward(one_sequence(ids)), first)) << threads;
  }
  set_num_threads(0);
}

TEST(Decoder, ThePromptInAnyPiecesGivesTheBitsOfOnePass) {
  const TinyShape shape;
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 2));
  const auto ids = test::random_ids(17, shape.vocab_size, 5);
  const Tensor whole = decoder.forward(one_sequence(ids));
  for (const std::vector<Index>& pieces : {std::vector<Index>{17}, {1, 1, 15}, {8, 9}, {16, 1}}) {
    DecoderCache cache = decoder.make_cache(1, 17);
    Index at = 0;
    for (const Index piece : pieces) {
      const Tensor last = decoder.forward(ConstTensorView(ids.data() + at, {1, piece}), cache);
      at += piece;
      EXPECT_EQ(cache.length(), at);
      const Tensor expected = Tensor::copy_of(whole.view().slice(1, at - 1, at)).reshaped({1, shape.vocab_size});
      EXPECT_TRUE(same_bits(last, expected)) << at;
    }
    EXPECT_THROW(decoder.forward(ConstTensorView(ids.data(), {1, 1}), cache), InvalidArgument) << "it is full";
    EXPECT_EQ(cache.length(), 17);
  }
}

TEST(Decoder, CapturesTellEveryBlock) {
  const TinyShape shape;
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 2));
  const auto ids = test::random_ids(9, shape.vocab_size, 5);
  std::vector<Capture> captures;
  const Tensor logits = decoder.forward(one_sequence(ids), &captures);
  EXPECT_TRUE(same_bits(logits, decoder.forward(one_sequence(ids))));
  ASSERT_EQ(captures.size(), 2U);
  EXPECT_EQ(captures[1].labels.name, "model.layers.1.self_attn");
  EXPECT_EQ(captures[1].labels.layer, 1);
  EXPECT_EQ(captures[1].query.shape(), (Dims{1, 6, 9, 4}));
  EXPECT_EQ(captures[1].value.shape(), (Dims{1, 2, 9, 4}));
  EXPECT_TRUE(captures[1].options.causal);
}

TEST(Decoder, Refusals) {
  const TinyShape shape;
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 2));
  const std::vector<Index> wrong{1, 37}, negative{-1};
  EXPECT_THROW(decoder.forward(one_sequence(wrong)), InvalidArgument);
  EXPECT_THROW(decoder.forward(one_sequence(negative)), InvalidArgument);
  const float number = 0;
  EXPECT_THROW(decoder.forward(ConstTensorView(&number, {1, 1})), InvalidArgument);
  const std::vector<Index> ids{1, 2};
  EXPECT_THROW(decoder.forward(ConstTensorView(ids.data(), {2})), InvalidArgument);
  DecoderCache cache = decoder.make_cache(1, 1);
  EXPECT_THROW(decoder.forward(one_sequence(ids), cache), InvalidArgument);
  EXPECT_EQ(cache.length(), 0);

  const auto refused = [&](auto change) {
    DecoderConfig config = test::tiny_config(shape);
    DecoderWeights weights = test::tiny_weights(shape, 2);
    change(config, weights);
    EXPECT_THROW(Decoder(config, std::move(weights)), InvalidArgument);
  };
  refused([](DecoderConfig& config, DecoderWeights&) { config.vocab_size = 36; });
  refused([](DecoderConfig& config, DecoderWeights&) { config.tied_output = false; });
  refused([](DecoderConfig& config, DecoderWeights&) { config.layers[1].causal = false; });
  refused([](DecoderConfig& config, DecoderWeights&) { config.layers.pop_back(); });
  refused([](DecoderConfig& config, DecoderWeights&) { config.end_ids = {37}; });
  refused([](DecoderConfig&, DecoderWeights& weights) { weights.final_norm = Tensor(); });
  refused([](DecoderConfig&, DecoderWeights& weights) { weights.blocks[1].up.weight = Tensor(DType::kF32, {28, 24}); });
  refused([](DecoderConfig&, DecoderWeights& weights) { weights.blocks[0].attention.key_weight = Tensor(); });
}

class DecoderFolder : public ::testing::Test {
 protected:
  // What read_decoder says, as "" when it says nothing.
  std::string complaint() const {
    try {
      read_decoder(folder_ / "model");
      return "";
    } catch (const FormatError& error) {
      return error.what();
    }
  }
  std::string config() const {
    std::ifstream file(folder_ / "model/config.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& from, const std::string& to) const {
    std::string text = config();
    ASSERT_NE(text.find(from), std::string::npos) << from;
    std::ofstream(folder_ / "model/config.json") << text.replace(text.find(from), from.size(), to);
  }
  void write(const TinyShape& shape, DType dtype = DType::kF32) const {
    write_decoder(folder_ / "model", test::tiny_config(shape), test::tiny_weights(shape, 6), dtype);
  }
  // The file again, without one tensor or with one more.
  void rewrite(const std::string& without, const std::string& with) const {
    const DecoderFiles files = read_decoder(folder_ / "model");
    std::vector<std::pair<std::string, ConstTensorView>> views;
    for_each_weight(files.weights, [&](const std::string& name, const Tensor& tensor) {
      if (name != without) views.emplace_back(name, tensor);
    });
    if (!with.empty()) views.emplace_back(with, files.weights.final_norm);
    write_safetensors(folder_ / "model/model.safetensors", views);
  }
  TempFolder folder_;
};

TEST_F(DecoderFolder, WhatIsWrittenIsRead) {
  for (const TinyShape& shape : {TinyShape{}, TinyShape{.tied = false}, TinyShape{.biases = true}}) {
    write(shape);
    const DecoderFiles files = read_decoder(folder_ / "model");
    EXPECT_EQ(files.config.vocab_size, shape.vocab_size);
    EXPECT_EQ(files.config.tied_output, shape.tied);
    EXPECT_EQ(files.config.max_positions, 64);
    EXPECT_EQ(files.config.begin_id, 1);
    EXPECT_TRUE(files.config.end_ids.empty());
    EXPECT_EQ(files.config.layers.size(), 2U);
    const auto ids = test::random_ids(9, shape.vocab_size, 5);
    const Decoder written(test::tiny_config(shape), test::tiny_weights(shape, 6));
    EXPECT_TRUE(same_bits(written.forward(one_sequence(ids)), Decoder::open(folder_ / "model").forward(one_sequence(ids))));
  }
}

TEST_F(DecoderFolder, SmallerTypesAreRoundedOnce) {
  write({}, DType::kF16);
  const DecoderWeights read = read_decoder(folder_ / "model").weights, given = test::tiny_weights({}, 6);
  EXPECT_EQ(read.embedding.dtype(), DType::kF16);
  for (Index i = 0; i < given.embedding.size(); ++i) {
    ASSERT_EQ(read.embedding.data<Float16>()[i].bits, Float16(given.embedding.data<float>()[i]).bits);
  }
}

TEST_F(DecoderFolder, SeveralEndTokens) {
  DecoderConfig config = test::tiny_config({});
  config.end_ids = {2, 5};
  write_decoder(folder_ / "model", config, test::tiny_weights({}, 6));
  EXPECT_EQ(read_decoder(folder_ / "model").config.end_ids, (std::vector<Index>{2, 5}));
}

TEST_F(DecoderFolder, RefusesWhatItWouldMisread) {
  write({});
  EXPECT_EQ(complaint(), "");
  const auto says = [&](const std::string& word) {
    EXPECT_NE(complaint().find(word), std::string::npos) << "'" << word << "' in: " << complaint();
  };
  rewrite("model.layers.1.mlp.up_proj.weight", "");
  says("model.layers.1.mlp.up_proj.weight");
  write({});
  rewrite("", "model.layers.0.pre_feedforward_layernorm.weight");
  says("pre_feedforward_layernorm");
  write({});
  replace("\"model_type\": \"llama\"", "\"model_type\": \"gemma\"");
  says("model_type");
  write({});
  replace("\"silu\"", "\"gelu\"");
  says("hidden_act");
  write({});
  replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  says("3 layers");
  write({});
  replace("\"vocab_size\": 37", "\"vocab_size\": 38");
  says("embed_tokens");
  write({});
  replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
  says("lm_head");
  write({});
  replace("\"bos_token_id\": 1", "\"bos_token_id\": 37");
  says("begin_id");
}

TEST_F(DecoderFolder, RefusesToWriteWhatTheLayoutCannotSay) {
  DecoderConfig config = test::tiny_config({});
  config.layers[1].window = Window{3, 0};
  EXPECT_THROW(write_decoder(folder_ / "model", config, test::tiny_weights({}, 6)), InvalidArgument);
  config = test::tiny_config({});
  for (LayerConfig& layer : config.layers) layer.rotary.reset();
  EXPECT_THROW(write_decoder(folder_ / "model", config, test::tiny_weights({}, 6)), InvalidArgument);
  EXPECT_TRUE(folder_.names().empty());
}

}  // namespace
}  // namespace multihead
