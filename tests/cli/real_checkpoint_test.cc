// A real, trained checkpoint against a reference computed elsewhere: all layers, on every target, with any number of threads.
#include <span>

#include "cli/run_command.h"
#include "multihead/runtime.h"
#include "shared_data.h"

namespace multihead::cli_test {
namespace {

constexpr int kLayers = 5;

// The scores of these layers reach 160, where one rounding of an f32 is 1e-5: rounding exact queries and keys to f32, with all
// else in f64, already moves an lse by 4e-6 and a coefficient by 8e-7; doing the projections in f32 as well, by 2e-5 and 3e-6.
struct Tolerance {
  const char* result;
  double absolute;
};
constexpr Tolerance kF32[] = {{"output", 2e-6}, {"probabilities", 8e-6}, {"lse", 5e-5}};
// The lse and coefficients kept beside the checkpoint are those of inputs that had not yet been rounded to f32.
constexpr Tolerance kF64[] = {{"output", 1e-12}, {"probabilities", 2e-7}, {"lse", 1e-6}};

class CliRealCheckpoint : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    if (!testing::shared_data("stories260k")) GTEST_SKIP() << "not here: " << testing::shared_data_path("stories260k");
    data_ = fs::absolute(*testing::shared_data("stories260k"));
  }

  void expect_results(int layer, DType dtype, std::span<const Tolerance> tolerances) const {
    for (const auto& [result, absolute] : tolerances) {
      SCOPED_TRACE(result);
      const Tensor actual = read(std::string(result) + ".npy");
      const Tensor expected = read_npy(data_ / ("layer" + std::to_string(layer) + "_" + result + ".npy"));
      EXPECT_EQ(actual.shape(), expected.shape());
      EXPECT_EQ(actual.dtype(), dtype);
      expect_near(values_of(actual), values_of(expected), absolute);
    }
  }
  std::vector<std::string> run_layer(int layer, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"run",
                                       "--checkpoint",
                                       data_.string(),
                                       "--layer",
                                       std::to_string(layer),
                                       "--input",
                                       (data_ / ("layer" + std::to_string(layer) + "_input.npy")).string(),
                                       "--output",
                                       "output.npy",
                                       "--probabilities",
                                       "probabilities.npy",
                                       "--lse",
                                       "lse.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  fs::path data_;
};

TEST_F(CliRealCheckpoint, EveryLayerOnEveryTargetWithAnyNumberOfThreads) {
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const std::string& target : targets()) {
      SCOPED_TRACE("layer " + std::to_string(layer) + " on " + target);
      std::vector<std::string> first;
      for (const char* threads : {"1", "2", "3", "7"}) {
        run_ok(run_layer(layer, {"--target", target, "--threads", threads}));
        std::vector<std::string> bytes;
        for (const auto& [result, absolute] : kF32) bytes.push_back(bytes_of(folder() / (std::string(result) + ".npy")));
        if (first.empty()) first = bytes;
        EXPECT_TRUE(bytes == first) << "other bits with " << threads << " threads";
      }
      expect_results(layer, DType::kF32, kF32);
    }
  }
}

TEST_F(CliRealCheckpoint, TheDefinitionInFloat64) {
  for (int layer = 0; layer < kLayers; ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    run_ok(run_layer(layer, {"--reference"}));
    expect_results(layer, DType::kF64, kF64);
  }
}

TEST_F(CliRealCheckpoint, InspectTellsWhatItIs) {
  const auto json = run_ok({"inspect", data_.string(), "--json"}).json();
  ASSERT_EQ(json["layers"].size(), static_cast<std::size_t>(kLayers));
  for (const auto& layer : json["layers"]) {
    EXPECT_EQ(layer["family"], "llama");
    EXPECT_EQ(layer["model_dim"], 64);
    EXPECT_EQ(layer["num_heads"], 8);
    EXPECT_EQ(layer["num_kv_heads"], 4);
    EXPECT_EQ(layer["head_dim"], 8);
    EXPECT_EQ(layer["causal"], true);
    EXPECT_EQ(layer["has_bias"], false);
    EXPECT_NE(layer["positions"].get<std::string>().find("10000"), std::string::npos);
  }
}

}  // namespace
}  // namespace multihead::cli_test
