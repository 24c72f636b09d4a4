// A real, trained checkpoint against a reference computed elsewhere: all layers, on every target, with any number of threads.
#include <cstdlib>

#include "cli/run_command.h"
#include "multihead/runtime.h"

namespace multihead::test {
namespace {

constexpr int kLayers = 5;
constexpr double kTolerance = 2e-6;

class CliRealCheckpoint : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    const char* shared = std::getenv("MULTIHEAD_SHARED_DATA");
    data_ = fs::path(shared != nullptr ? shared : MULTIHEAD_SOURCE_DIR "/../shared/data") / "stories260k";
    if (!fs::exists(data_ / "model.safetensors"))
      GTEST_SKIP() << "no checkpoint in " << data_ << "; MULTIHEAD_SHARED_DATA names its parent";
  }

  Tensor expected(int layer, const std::string& what) const {
    return read_npy(data_ / ("layer" + std::to_string(layer) + "_" + what + ".npy"));
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
  const char* const kResults[] = {"output", "probabilities", "lse"};
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const std::string& target : targets()) {
      SCOPED_TRACE("layer " + std::to_string(layer) + " on " + target);
      std::vector<std::string> first;
      for (const char* threads : {"1", "2", "3", "7"}) {
        run_ok(run_layer(layer, {"--target", target, "--threads", threads}));
        std::vector<std::string> bytes;
        for (const char* result : kResults) bytes.push_back(bytes_of(folder() / (std::string(result) + ".npy")));
        if (first.empty()) first = bytes;
        EXPECT_EQ(bytes == first, true) << "other bits with " << threads << " threads";
      }
      for (const char* result : kResults) {
        SCOPED_TRACE(result);
        const Tensor actual = read(std::string(result) + ".npy"), wanted = expected(layer, result);
        EXPECT_EQ(actual.shape(), wanted.shape());
        EXPECT_EQ(actual.dtype(), DType::kF32);
        expect_near(values_of(actual), values_of(wanted), kTolerance);
      }
    }
  }
}

TEST_F(CliRealCheckpoint, TheDefinitionAgreesToTheLastDigitsOfFloat64) {
  for (int layer = 0; layer < kLayers; ++layer) {
    run_ok(run_layer(layer, {"--reference"}));
    expect_near(values_of(read("output.npy")), values_of(expected(layer, "output")), 1e-12);
    expect_near(values_of(read("lse.npy")), values_of(expected(layer, "lse")), 1e-12);
    expect_near(values_of(read("probabilities.npy")), values_of(expected(layer, "probabilities")), 1e-7);  // kept as f32 there
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
}  // namespace multihead::test
