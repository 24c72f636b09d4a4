// multihead capture and stats: a layer's coefficients, kept in a file and counted.
#include "cli/run_command.h"
#include "multihead/checkpoint.h"
#include "multihead/observe.h"
#include "multihead/runtime.h"
#include "shared_data.h"

namespace multihead::cli_test {
namespace {

class CliCapture : public CommandTest {};

TEST_F(CliCapture, KeepsWhatThePresetsMapsAre) {
  const auto json = run_ok({"capture", "--preset", "lab", "--values", "--output", "c.safetensors", "--json"}).json();
  EXPECT_EQ(json["output"]["num_heads"], 2);
  EXPECT_EQ(json["output"]["query_len"], 3);
  run_ok({"run", "--preset", "lab", "--output", "y.npy", "--probabilities", "p.npy"});
  const Tensor p = read("p.npy");
  const AttentionMap map(std::make_shared<const Capture>(load_capture(folder() / "c.safetensors")));
  EXPECT_EQ(map.capture().labels.name, "lab");
  EXPECT_EQ(to_string(map.capture().value.shape()), "[1, 2, 3, 2]");
  for (Index h = 0; h < 2; ++h) {
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 3; ++j) EXPECT_EQ(map.probability(h, i, j), p.view().at<float>(h, i, j));
    }
  }
}

TEST_F(CliCapture, TokensAreChecked) {
  write_bytes("t.json", R"(["red", "green", "blue"])");
  write_bytes("two.json", R"(["red", "green"])");
  write_bytes("cross.json", R"({"query": ["a", "b", "c"], "key": ["d", "e", "f"]})");
  write_bytes("bad.json", R"([1, 2, 3])");
  write_bytes("object.json", R"({"query": ["a"]})");
  const auto capture = [](const std::string& tokens) {
    return std::vector<std::string>{"capture", "--preset", "lab", "--tokens", tokens, "--output", "c.safetensors"};
  };
  expect_failure(capture("two.json"), 1, {"query_tokens", "3", "2"});
  expect_failure(capture("bad.json"), 1, {"bad.json", "strings"});
  expect_failure(capture("object.json"), 1, {"object.json", "query", "key"});
  expect_failure(capture("missing.json"), 1, {"missing.json"});
  run_ok(capture("t.json"));
  EXPECT_EQ(load_capture(folder() / "c.safetensors").labels.key_tokens, (std::vector<std::string>{"red", "green", "blue"}));
  run_ok(capture("cross.json"));
  EXPECT_EQ(load_capture(folder() / "c.safetensors").labels.query_tokens, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(CliCapture, TheCommandLineIsChecked) {
  expect_failure({"capture", "--output", "c.safetensors"}, 2, {"--checkpoint", "--preset"});
  expect_failure({"capture", "--preset", "lab"}, 2, {"--output"});
  expect_failure({"capture", "--checkpoint", "x", "--output", "c.safetensors"}, 2, {"--layer"});
  expect_failure({"stats"}, 2, {"CAPTURE"});
  expect_failure({"stats", "missing.safetensors"}, 1, {"missing.safetensors"});
  write("x.npy", random_tensor({3}, 1));
  expect_failure({"stats", "x.npy"}, 1, {"x.npy"});
  run_ok({"capture", "--preset", "lab", "--output", "c.safetensors"});
  expect_failure({"stats", "c.safetensors", "--batch", "1"}, 1, {"batch", "1"});
  expect_failure({"stats", "c.safetensors", "--head", "2"}, 1, {"head", "2"});
}

TEST_F(CliCapture, StatsAreThoseOfTheLibrary) {
  write_bytes("t.json", R"(["a", "b", "a", "b", "a", "b", "c", "a"])");
  run_ok({"capture", "--preset", "vaswani-base", "--length", "8", "--seed", "3", "--values", "--tokens", "t.json", "--output",
          "c.safetensors"});
  const auto json = run_ok({"stats", "c.safetensors", "--json", "--similarity"}).json();
  const AttentionMap map(std::make_shared<const Capture>(load_capture(folder() / "c.safetensors")));
  const std::vector<HeadStatistics> heads = statistics(map);
  const HeadSimilarity similarity = head_similarity(map);
  ASSERT_EQ(json["heads"].size(), heads.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto& head = json["heads"][h];
    EXPECT_EQ(head["entropy"]["value"], heads[h].entropy.value);
    EXPECT_EQ(head["entropy"]["uniform"], heads[h].entropy.uniform);
    EXPECT_EQ(head["effective_keys"]["value"], heads[h].effective_keys.value);
    EXPECT_EQ(head["sink_mass"][3]["value"], heads[h].sink_mass[3].value);
    EXPECT_EQ(head["induction_mass"]["value"], heads[h].induction_mass.value);
    EXPECT_EQ(head["value_weighted_mass"]["value"], heads[h].value_weighted_mass.value);
    EXPECT_EQ(head["output_norm"], heads[h].output_norm);
    EXPECT_EQ(json["similarity"][h][0], similarity.cosine(h, 0));
  }
  const std::string text = run_ok({"stats", "c.safetensors", "--head", "1,5"}).out;
  for (const char* word : {"entropy", "first key", "induction", "|O W_O|", "8 x 8"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
  EXPECT_EQ(run_ok({"stats", "c.safetensors", "--json", "--threads", "1"}).out,
            run_ok({"stats", "c.safetensors", "--json", "--threads", "5"}).out);
}

// A trained checkpoint's coefficients, against those computed elsewhere. The scores of these layers reach 160, where
// projections in f32 alone move a coefficient by 3e-6 (real_checkpoint_test.cc); captures add nothing to that: their
// coefficients are those of `run` to the last bit.
TEST_F(CliCapture, OfARealCheckpoint) {
  if (!testing::shared_data("stories260k")) GTEST_SKIP() << "not here: " << testing::shared_data_path("stories260k");
  const fs::path data = fs::absolute(*testing::shared_data("stories260k"));
  for (int layer = 0; layer < 5; ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    const std::string name = "layer" + std::to_string(layer), input = (data / (name + "_input.npy")).string();
    run_ok({"capture", "--checkpoint", data.string(), "--layer", std::to_string(layer), "--input", input, "--output",
            "c.safetensors"});
    run_ok({"run", "--checkpoint", data.string(), "--layer", std::to_string(layer), "--input", input, "--output", "y.npy",
            "--probabilities", "p.npy", "--lse", "l.npy"});
    const AttentionMap map(std::make_shared<const Capture>(load_capture(folder() / "c.safetensors")));
    EXPECT_EQ(map.capture().labels.layer, layer);
    const Tensor p = read("p.npy"), lse = read("l.npy"), expected = read_npy(data / (name + "_probabilities.npy"));
    EXPECT_EQ(values_of(Tensor::converted(map.capture().lse, DType::kF32)), values_of(lse));
    expect_near(values_of(lse), values_of(read_npy(data / (name + "_lse.npy"))), 5e-5);
    std::vector<double> got, wanted = values_of(expected);
    for (Index h = 0; h < map.num_heads(); ++h) {
      for (Index i = 0; i < map.query_len(); ++i) {
        const MapRow row = map.row(h, i);
        for (const float value : row.probability) got.push_back(static_cast<double>(value));
      }
    }
    EXPECT_EQ(got, values_of(p));
    expect_near(got, wanted, 8e-6);
  }
}

}  // namespace
}  // namespace multihead::cli_test
