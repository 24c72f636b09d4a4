// multihead run and inspect: layers from a checkpoint that the test writes, and from presets.
#include "cli/run_command.h"
#include "multihead/checkpoint.h"
#include "multihead/layer.h"

namespace multihead::cli_test {
namespace {

// Two Llama layers: width 24, 6 heads over 2 key/value heads of 4, rotary.
constexpr Index kWidth = 24, kHeads = 6, kKvHeads = 2, kHeadDim = 4, kLength = 11;

class CliRun : public CommandTest {
 protected:
  void write_checkpoint() const {
    fs::create_directory(folder() / "llama");
    std::ofstream(folder() / "llama/config.json")
        << R"({"model_type": "llama", "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,)"
        << R"( "num_hidden_layers": 2, "rope_theta": 10000.0, "max_position_embeddings": 64})";
    std::vector<std::pair<std::string, Tensor>> weights;
    for (const std::string layer : {"0", "1"}) {
      const std::string prefix = "model.layers." + layer + ".self_attn.";
      const unsigned seed = layer == "0" ? 10 : 20;
      weights.emplace_back(prefix + "q_proj.weight", random_tensor({kHeads * kHeadDim, kWidth}, seed + 1));
      weights.emplace_back(prefix + "k_proj.weight", random_tensor({kKvHeads * kHeadDim, kWidth}, seed + 2));
      weights.emplace_back(prefix + "v_proj.weight", random_tensor({kKvHeads * kHeadDim, kWidth}, seed + 3));
      weights.emplace_back(prefix + "o_proj.weight", random_tensor({kWidth, kHeads * kHeadDim}, seed + 4));
    }
    std::vector<std::pair<std::string, ConstTensorView>> views(weights.begin(), weights.end());
    write_safetensors(folder() / "llama/model.safetensors", views);
  }

  static std::vector<std::string> run_layer(const std::string& layer, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run", "--checkpoint", "llama", "--layer", layer, "--input", "x.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(CliRun, ALayerOfACheckpointAgreesWithTheDefinition) {
  write_checkpoint();
  write("x.npy", random_tensor({kLength, kWidth}, 5));
  const std::vector<std::string> outputs{"--output", "y.npy", "--probabilities", "p.npy",
                                         "--lse",    "l.npy", "--json",          "--compare"};
  const auto json = run_ok(run_layer("1", outputs)).json();
  EXPECT_EQ(json["layer"]["name"], "model.layers.1.self_attn");
  EXPECT_EQ(json["layer"]["num_kv_heads"], kKvHeads);

  const MultiHeadAttention layer = Checkpoint::open(folder() / "llama").load(1);
  const Tensor x = read("x.npy").reshaped({1, kLength, kWidth});
  Tensor lse(DType::kF64, {1, kHeads, kLength}), probabilities(DType::kF64, {1, kHeads, kLength, kLength});
  ForwardObservation seen;
  seen.lse = lse.view();
  seen.probabilities = probabilities.view();
  const Tensor output = layer.reference_forward(x, x, {}, seen);
  double largest = 0;
  for (const double value : values_of(output)) largest = std::max(largest, std::abs(value));
  expect_near(values_of(read("y.npy")), values_of(output), 1e-6 * largest);
  expect_near(values_of(read("p.npy")), values_of(probabilities), 2e-6);
  expect_near(values_of(read("l.npy")), values_of(lse), 2e-5);
  EXPECT_EQ(read("y.npy").shape(), (Dims{kLength, kWidth}));
  EXPECT_EQ(read("p.npy").shape(), (Dims{kHeads, kLength, kLength}));
  EXPECT_EQ(read("l.npy").shape(), (Dims{kHeads, kLength}));
  for (const char* name : {"output", "probabilities", "lse"}) {
    EXPECT_LT(json["error"][name]["relative"].get<double>(), 1e-6) << name;
  }

  run_ok(run_layer("1", {"--output", "y64.npy", "--reference"}));
  EXPECT_EQ(read("y64.npy").dtype(), DType::kF64);
  EXPECT_EQ(values_of(read("y64.npy")), values_of(output));
}

TEST_F(CliRun, BatchAxisAndTypesAreKept) {
  write_checkpoint();
  write("x.npy", random_tensor({2, kLength, kWidth}, 5, DType::kF64));
  run_ok(run_layer("0", {"--output", "y.npy", "--lse", "l.npy"}));
  EXPECT_EQ(read("y.npy").shape(), (Dims{2, kLength, kWidth}));
  EXPECT_EQ(read("y.npy").dtype(), DType::kF32);
  EXPECT_EQ(read("l.npy").shape(), (Dims{2, kHeads, kLength}));
  run_ok(run_layer("0", {"--output", "half.npy", "--dtype", "f16"}));
  EXPECT_EQ(read("half.npy").dtype(), DType::kF16);
}

TEST_F(CliRun, ThreadsDoNotChangeABit) {
  write_checkpoint();
  write("x.npy", random_tensor({2, kLength, kWidth}, 5));
  for (const char* threads : {"1", "2", "3", "7"}) {
    run_ok(run_layer("0", {"--output", std::string("y") + threads + ".npy", "--threads", threads}));
    EXPECT_EQ(bytes_of(folder() / "y1.npy"), bytes_of(folder() / (std::string("y") + threads + ".npy"))) << threads;
  }
}

TEST_F(CliRun, CrossAttentionReadsAMemory) {
  write("x.npy", random_tensor({3, 512}, 1));
  write("m.npy", random_tensor({5, 512}, 2));
  const std::vector<std::string> call{"run",      "--preset", "vaswani-base",    "--input", "x.npy",     "--memory", "m.npy",
                                      "--output", "y.npy",    "--probabilities", "p.npy",   "--compare", "--json"};
  const auto json = run_ok(call).json();
  EXPECT_EQ(read("p.npy").shape(), (Dims{8, 3, 5}));
  EXPECT_LT(json["error"]["output"]["relative"].get<double>(), 1e-5);
  write("m.npy", random_tensor({1, 5, 512}, 2));
  fs::remove(folder() / "y.npy");
  expect_failure(call, 1, {"memory m.npy", "batch axis"});
}

TEST_F(CliRun, InspectListsEveryLayer) {
  write_checkpoint();
  for (const char* path : {"llama", "llama/model.safetensors"}) {
    const auto json = run_ok({"inspect", path, "--json"}).json();
    ASSERT_EQ(json["layers"].size(), 2U);
    const auto& layer = json["layers"][1];
    EXPECT_EQ(layer["layer"], 1);
    EXPECT_EQ(layer["name"], "model.layers.1.self_attn");
    EXPECT_EQ(layer["role"], "self");
    EXPECT_EQ(layer["model_dim"], kWidth);
  }
  const std::string text = run_ok({"inspect", "llama"}).out;
  for (const char* word : {"2 attention layers", "model.layers.0.self_attn", "model.layers.1.self_attn", "llama", "6 over 2",
                           "causal", "rotary"}) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in:\n" << text;
  }
}

TEST_F(CliRun, TheLabShowsItsMatrices) {
  const auto json = run_ok({"run", "--preset", "lab", "--json"}).json();
  const auto& matrices = json["matrices"];
  EXPECT_EQ(matrices["input"], nlohmann::json::parse("[[2,0,2,0],[0,2,2,0],[2,0,0,2]]"));
  // Identity weights: Q = K = V = X. Head 0 has columns 0 and 1, so its products are 4 where rows agree.
  ASSERT_EQ(matrices["heads"].size(), 2U);
  const auto& head = matrices["heads"][0];
  EXPECT_EQ(head["query"], nlohmann::json::parse("[[2,0],[0,2],[2,0]]"));
  EXPECT_EQ(head["value"], head["query"]);
  const double s = 4 / std::sqrt(2.0), e = std::exp(s);
  expect_near(head["scores"][0], {s, 0, s}, 1e-12);
  expect_near(head["probabilities"][0], {e / (2 * e + 1), 1 / (2 * e + 1), e / (2 * e + 1)}, 1e-12);
  expect_near(head["output"][0], {4 * e / (2 * e + 1), 2 / (2 * e + 1)}, 1e-12);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<double> concat = head["output"][i];
    const std::vector<double> second = matrices["heads"][1]["output"][i];
    concat.insert(concat.end(), second.begin(), second.end());
    expect_near(matrices["concat"][i], concat, 1e-12);
    expect_near(matrices["output"][i], concat, 1e-12);
  }
  EXPECT_LT(json["error"]["output"]["max_abs"].get<double>(), 1e-6);

  const std::string text = run_ok({"run", "--preset", "lab"}).out;
  for (const char* word : {"Q", "K", "V", "scores", "coefficients", "O_0", "O_1", "concat", "output", "head 1", "2.8284"}) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in:\n" << text;
  }
}

TEST_F(CliRun, BiggerPresetsShowASummaryWithTheError) {
  const auto json = run_ok({"run", "--preset", "vaswani-base", "--length", "50", "--seed", "7", "--json"}).json();
  EXPECT_EQ(json["input"]["shape"], (std::vector<int>{50, 512}));
  EXPECT_EQ(json["preset"]["seed"], 7);
  EXPECT_LT(json["error"]["output"]["relative"].get<double>(), 1e-5);
  EXPECT_FALSE(json.contains("matrices"));
  EXPECT_TRUE(files().empty());
}

TEST_F(CliRun, SeedsMakeTheSameLayerAgain) {
  const auto run_seed = [&](const std::string& seed, const std::string& name) {
    run_ok({"run", "--preset", "vaswani-base", "--length", "4", "--seed", seed, "--output", name});
    return bytes_of(folder() / name);
  };
  const std::string first = run_seed("1", "a.npy");
  EXPECT_EQ(run_seed("1", "b.npy"), first);
  EXPECT_NE(run_seed("2", "c.npy"), first);
}

TEST_F(CliRun, Refusals) {
  write_checkpoint();
  write("x.npy", random_tensor({kLength, kWidth}, 5));
  write("wide.npy", random_tensor({kLength, kWidth + 1}, 5));
  write("flat.npy", random_tensor({kWidth}, 5));
  write_bytes("pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n");
  const std::vector<std::string> output{"--output", "y.npy"};
  expect_failure(run_layer("2", output), 1,
                 {"--layer 2", "2 attention layers", "0 model.layers.0.self_attn", "1 model.layers.1"});
  expect_failure({"run", "--checkpoint", "llama", "--layer", "0", "--input", "wide.npy", "--output", "y.npy"}, 1, {"24", "25"});
  expect_failure({"run", "--checkpoint", "llama", "--layer", "0", "--input", "flat.npy", "--output", "y.npy"}, 1,
                 {"input flat.npy", "[24]", "[batch, length, width]"});
  expect_failure({"run", "--checkpoint", "nowhere", "--layer", "0", "--input", "x.npy", "--output", "y.npy"}, 1, {"nowhere"});
  expect_failure({"inspect", "nowhere"}, 1, {"nowhere"});
  expect_failure({"inspect", "pointer.safetensors"}, 1, {"pointer.safetensors", "LFS"});
  expect_failure({"inspect"}, 2, {"PATH is required"});
  expect_failure({"run", "--preset", "gpt-9"}, 1, {"gpt-9", "vaswani-base", "llama-7b", "lab"});
  expect_failure({"run"}, 2, {"--checkpoint", "--preset"});
  expect_failure({"run", "--preset", "lab", "--checkpoint", "llama"}, 2, {"--checkpoint", "--preset"});
  expect_failure({"run", "--checkpoint", "llama"}, 2, {"--layer is required"});
  expect_failure({"run", "--checkpoint", "llama", "--layer", "0"}, 2, {"--input is required"});
  expect_failure(run_layer("0", {}), 2, {"--output is required"});
  expect_failure(run_layer("-1", output), 2, {"--layer", "0 or more"});
  expect_failure({"run", "--preset", "lab", "--memory", "x.npy"}, 2, {"--memory", "--input"});
  expect_failure({"run", "--preset", "lab", "--length", "-3"}, 2, {"--length", "0 or more"});
  expect_failure({"run", "--preset", "llama-7b", "--length", "1000000000000"}, 1, {"would take"});
}

}  // namespace
}  // namespace multihead::cli_test
