// multihead describe: numbers of the layer, and configurations that are refused.
#include "cli/run_command.h"

namespace multihead::cli_test {
namespace {

class CliDescribe : public CommandTest {};

TEST_F(CliDescribe, JsonHasEveryStep) {
  const auto json =
      run_ok({"describe", "--model-dim", "512", "--heads", "8", "--length", "10", "--key-length", "20", "--json"}).json();
  EXPECT_EQ(json["config"]["head_dim"], 64);
  EXPECT_EQ(json["config"]["num_kv_heads"], 8);
  EXPECT_EQ(json["query_len"], 10);
  EXPECT_EQ(json["key_len"], 20);
  EXPECT_EQ(json["parameters"], 4 * 512 * 512);
  EXPECT_EQ(json["bytes_not_stored"], 8 * 10 * 20 * 4);
  ASSERT_FALSE(json["steps"].empty());
  double operations = 0;
  bool scores_seen = false;
  for (const auto& step : json["steps"]) {
    operations += step["operations"].get<double>();
    scores_seen = scores_seen || (step["shape"] == std::vector<int>{8, 10, 20} && step["stored"] == false);
  }
  EXPECT_EQ(json["operations"].get<double>(), operations);
  EXPECT_TRUE(scores_seen) << json["steps"];
}

TEST_F(CliDescribe, ParametersDoNotDependOnTheNumberOfHeads) {
  for (const char* heads : {"1", "2", "8", "64"}) {
    EXPECT_EQ(run_ok({"describe", "--model-dim", "64", "--heads", heads, "--length", "4", "--json"}).json()["parameters"],
              4 * 64 * 64);
  }
}

TEST_F(CliDescribe, GroupedHeadsAndOwnHeadDim) {
  const auto json = run_ok({"describe", "--model-dim", "60", "--heads", "8", "--kv-heads", "2", "--head-dim", "16", "--length",
                            "4", "--json"})
                        .json();
  EXPECT_EQ(json["parameters"], 2 * 60 * 128 + 2 * 60 * 32);
}

TEST_F(CliDescribe, TextIsATable) {
  const std::string text = run_ok({"describe", "--preset", "llama-7b", "--length", "4096"}).out;
  for (const char* word : {"model_dim 4096", "32 heads", "[32, 4096, 128]", "67,108,864", "never stored", "2 GiB", "causal"}) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in:\n" << text;
  }
}

TEST_F(CliDescribe, PresetsHaveALengthOfTheirOwn) {
  EXPECT_EQ(run_ok({"describe", "--preset", "lab", "--json"}).json()["query_len"], 3);
}

TEST_F(CliDescribe, Refusals) {
  expect_failure({"describe", "--model-dim", "12", "--heads", "5", "--length", "3"}, 1,
                 {"12", "5", "1, 2, 3, 4, 6, 12", "head_dim"});
  expect_failure({"describe", "--model-dim", "12", "--heads", "6", "--kv-heads", "4", "--length", "3"}, 1, {"6", "4"});
  expect_failure({"describe", "--preset", "gpt-9", "--length", "3"}, 1, {"gpt-9", "vaswani-base", "llama-7b", "lab"});
  expect_failure({"describe", "--length", "3"}, 2, {"--preset", "--model-dim"});
  expect_failure({"describe", "--model-dim", "12", "--length", "3"}, 2, {"--heads"});
  expect_failure({"describe", "--model-dim", "12", "--heads", "3"}, 2, {"--length is required"});
  expect_failure({"describe", "--preset", "lab", "--heads", "3"}, 2, {"--preset", "--heads"});
  expect_failure({"describe", "--model-dim", "0", "--heads", "3", "--length", "1"}, 2, {"--model-dim", "1 or more"});
  expect_failure({"describe", "--model-dim", "12", "--heads", "3", "--length", "-1"}, 2, {"--length", "0 or more"});
}

}  // namespace
}  // namespace multihead::cli_test
