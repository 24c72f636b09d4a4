// The same attention layers under every family's names and layout give the same results through every loader: those of the
// layer that is written beside and, where the family can express the whole model, the model's own.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/rewritings.h"
#include "shared_data.h"

namespace multihead::testing {
namespace {

constexpr double kTolerance = 2e-6;

/// Layers in the Llama form, with inputs and what they must return.
struct Model {
  Shape shape;
  std::vector<LayerWeights> layers;
  std::vector<Tensor> inputs, outputs;
};

Tensor as_batch(Tensor matrix) {
  const Dims shape{1, matrix.shape()[0], matrix.shape()[1]};
  return std::move(matrix).reshaped(shape);
}

// Random layers, through the Llama loader. Neither are heads * head_dim = model_dim, nor is a group one head.
Model random_model() {
  Model model{{.model_dim = 20, .num_heads = 8, .num_kv_heads = 2, .head_dim = 6}, {}, {}, {}};
  const Shape& s = model.shape;
  NamedTensors tensors;
  const std::pair<const char*, Dims> weights[] = {{"q_proj", {s.num_heads * s.head_dim, s.model_dim}},
                                                  {"k_proj", {s.num_kv_heads * s.head_dim, s.model_dim}},
                                                  {"v_proj", {s.num_kv_heads * s.head_dim, s.model_dim}},
                                                  {"o_proj", {s.model_dim, s.num_heads * s.head_dim}}};
  unsigned seed = 1;
  for (const std::string layer : {"0", "1", "2"}) {
    for (const auto& [name, shape] : weights) {
      tensors.emplace_back("model.layers." + layer + ".self_attn." + name + ".weight",
                           random_tensor(shape, seed++, std::sqrt(3.0 / static_cast<double>(shape[1]))));
    }
  }
  const CheckpointFolder folder(tensors, R"({"model_type": "llama", "num_attention_heads": 8})");
  const Checkpoint llama = folder.open();
  for (std::size_t layer = 0; layer < 3; ++layer) {
    model.layers.push_back(llama.load_weights(layer));
    model.inputs.push_back(random_tensor({1, 21, s.model_dim}, seed++, 1.7));
    model.outputs.push_back(llama.load(layer).forward(model.inputs.back()));
  }
  return model;
}

// The trained model, with its float64 reference.
std::optional<Model> stories_model() {
  const auto folder = shared_data("stories260k");
  if (!folder) return std::nullopt;
  Model model{{.model_dim = 64, .num_heads = 8, .num_kv_heads = 4, .head_dim = 8}, {}, {}, {}};
  const Checkpoint llama = Checkpoint::open(*folder);
  for (std::size_t layer = 0; layer < llama.layers().size(); ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    model.layers.push_back(llama.load_weights(layer));
    model.inputs.push_back(as_batch(read_npy(*folder / (name + "_input.npy"))));
    model.outputs.push_back(as_batch(read_npy(*folder / (name + "_output.npy"))));
  }
  return model;
}

std::string config_text(const Rewriting& rewriting, const Model& model) {
  const Shape& s = model.shape;
  const Index kv_heads = rewriting.heads == Heads::kGrouped    ? s.num_kv_heads
                         : rewriting.heads == Heads::kExpanded ? s.num_heads
                                                               : 1;
  std::string text = rewriting.config;
  const std::pair<const char*, Index> numbers[] = {{"$H", s.num_heads},
                                                   {"$G", kv_heads},
                                                   {"$D", s.head_dim},
                                                   {"$E", s.model_dim},
                                                   {"$L", static_cast<Index>(model.layers.size())}};
  for (const auto& [name, number] : numbers) text = replaced(text, name, std::to_string(number));
  return text;
}

void check(const Rewriting& rewriting, const Model& model, bool with_biases) {
  NamedTensors tensors;
  std::vector<MultiHeadAttention> expected;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerRewriter writer(rewriting, model.shape, static_cast<Index>(i));
    expected.push_back(writer.write(model.layers[i], with_biases, tensors));
    names.push_back(writer.block());
  }
  const CheckpointFolder folder(tensors, config_text(rewriting, model));
  const Checkpoint checkpoint = folder.open();
  ASSERT_EQ(checkpoint.layers().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i] + (with_biases ? " with biases" : ""));
    const FoundLayer& found = checkpoint.layers()[i];
    EXPECT_EQ(found.family, rewriting.family);
    EXPECT_EQ(found.name, names[i]);
    EXPECT_EQ(found.role, rewriting.cross ? "cross" : "self");
    EXPECT_EQ(found.has_bias, !expected[i].weights().query_bias.empty() || !expected[i].weights().output_bias.empty());
    EXPECT_EQ(found.config.causal, rewriting.causal);
    const MultiHeadAttention layer = checkpoint.load(i);
    const Tensor memory = random_tensor({1, 9, expected[i].config().key_input_dim}, 3);
    const ConstTensorView input = model.inputs[i];
    const Tensor output = rewriting.cross ? layer.forward(input, memory) : layer.forward(input);
    const Tensor right = rewriting.cross ? expected[i].forward(input, memory) : expected[i].forward(input);
    EXPECT_LE(max_difference(output, right), kTolerance);
    if (rewriting.is_pure() && !with_biases) {
      EXPECT_LE(max_difference(output, model.outputs[i]), kTolerance);
    }
  }
}

class RewriteTest : public ::testing::TestWithParam<Rewriting> {};

TEST_P(RewriteTest, GivesTheSameResult) {
  static const Model random = random_model();
  static const std::optional<Model> stories = stories_model();
  for (const bool with_biases : {false, true}) {
    if (with_biases && GetParam().biases.empty()) continue;
    check(GetParam(), random, with_biases);
    if (stories) check(GetParam(), *stories, with_biases);
  }
}

// Every value of config.json replaced by ones that nobody meant: the loader gives a layer or an error of its own.
TEST_P(RewriteTest, SurvivesHostileSettings) {
  const Rewriting& rewriting = GetParam();
  static const Model random = random_model();
  NamedTensors tensors;
  LayerRewriter(rewriting, random.shape, 0).write(random.layers[0], true, tensors);
  const CheckpointFolder folder(tensors);
  const std::string config = config_text(rewriting, random);
  const std::string end_of_key = "\": ";
  for (std::size_t at = config.find(end_of_key); at != std::string::npos; at = config.find(end_of_key, at + 1)) {
    const std::size_t begin = at + end_of_key.size(), end = config.find_first_of(",}]", begin);
    for (const std::string value :
         {"null", "0", "-1", "3", "1e308", "2147483648", "9223372036854775807", "true", "[]", "{}", "\"\""}) {
      write_file(folder / "config.json", config.substr(0, begin) + value + config.substr(end));
      try {
        folder.open().load(0);
      } catch (const Error&) {
      } catch (const std::exception& error) {
        ADD_FAILURE() << config.substr(0, begin) << value << " …: " << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RewriteTest, ::testing::ValuesIn(rewritings()),
                         [](const auto& row) { return row.param.label; });

TEST(StoriesTest, EveryLayerGivesTheReferenceOutput) {
  const std::optional<Model> stories = stories_model();
  if (!stories) GTEST_SKIP() << "no test data: " << shared_data_path("stories260k").string() << " is missing";
  const Checkpoint checkpoint = Checkpoint::open(*shared_data("stories260k"));
  ASSERT_EQ(checkpoint.layers().size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const FoundLayer& found = checkpoint.layers()[i];
    EXPECT_EQ(found.family, "llama");
    EXPECT_EQ(found.name, "model.layers." + std::to_string(i) + ".self_attn");
    EXPECT_EQ(found.positions, "rotary half-split, theta 10000");
    EXPECT_EQ(found.config.num_heads, 8);
    EXPECT_EQ(found.config.num_kv_heads, 4);
    EXPECT_EQ(found.config.head_dim, 8);
    EXPECT_FALSE(found.has_bias);
    EXPECT_LE(max_difference(checkpoint.load(i).forward(stories->inputs[i]), stories->outputs[i]), kTolerance);
  }
}

}  // namespace
}  // namespace multihead::testing
