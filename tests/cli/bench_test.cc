// multihead bench: names, the schema of its JSON, and that rows are right and fractions are fractions.
#include <set>

#include "cli/run_command.h"
#include "multihead/accuracy.h"
#include "multihead/runtime.h"

namespace multihead::cli_test {
namespace {

constexpr int kFailed = 1, kUsage = 2;

class CliBench : public CommandTest {
 protected:
  std::vector<std::string> names(const std::string& filter) const {
    return run_ok({"bench", "--list", "--json", "--filter", filter}).json()["names"];
  }
};

TEST_F(CliBench, EveryNameIsUniqueAndTellsItsShape) {
  const std::vector<std::string> all = names("");
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  const std::set<std::string> named(all.begin(), all.end());
  for (const char* name : {"prefill/h8/n32/d64",
                           "prefill/h8/n2048/d64",
                           "prefill/h8/n2048/d64/causal",
                           "prefill/h8/n2048/d64/strided",
                           "prefill/h8/n8192/d128/causal",
                           "prefill/h8/n512/d80",
                           "prefill/h32x8/n2048/d128/causal",
                           "prefill/h12/n384/d64",
                           "prefill/h20/n1500/d64",
                           "prefill/h8/n4096x77/d40",
                           "prefill/h8/n8192/d64/causal/last1024",
                           "prefill/h8/n2048/d64/window128",
                           "prefill/h8/n2048/d128/bf16",
                           "backward/h8/n1024/d64",
                           "backward/h8/n1024/d64/causal",
                           "backward/h8/n2048/d128",
                           "backward/h8/n2048/d128/causal",
                           "decode/h32/k128/d128",
                           "decode/h32x8/k16384/d128/f16",
                           "decode/h32x8/k32768/d128/bf16",
                           "layer/vaswani-base/n2048",
                           "layer/llama-7b/n1"}) {
    EXPECT_TRUE(named.contains(name)) << name;
  }
}

TEST_F(CliBench, ListIsALineAName) {
  std::string lines;
  for (const std::string& name : names("^layer/")) lines += name + "\n";
  EXPECT_EQ(run_ok({"bench", "--list", "--filter", "^layer/"}).out, lines);
}

TEST_F(CliBench, FilterFindsWithinNames) {
  EXPECT_EQ(names("^prefill/h8/n2048/d64$"), std::vector<std::string>{"prefill/h8/n2048/d64"});
  EXPECT_EQ(names("h8/n2048/d64/(causal|strided)$"),
            (std::vector<std::string>{"prefill/h8/n2048/d64/strided", "prefill/h8/n2048/d64/causal"}));
  for (const std::string& name : names("f16")) EXPECT_NE(name.find("f16"), std::string::npos) << name;
}

TEST_F(CliBench, RowsAreRightAndTheirFractionsPositive) {
  const std::string filter = "^prefill/h8/n32/d80/causal$|^decode/h32x8/k128/d128/f16$|^layer/vaswani-base/n1$";
  const auto json = run_ok({"bench", "--filter", filter, "--threads", "1", "--json"}).json();
  EXPECT_TRUE(json["machine"]["processor"].is_string());
  EXPECT_GT(json["peak_gflops"].get<double>(), 0);
  EXPECT_GT(json["read_gbytes"].get<double>(), 0);
  ASSERT_EQ(json["rows"].size(), 3U);
  // By hand: 8 heads, 32 · 33 / 2 pairs, 2 · 2 · 80 operations each; 128 keys of 8 heads, 2 · 128 elements of 2 bytes each; 4 ·
  // 512² weights of 4 bytes.
  const double operations = 8.0 * (32 * 33 / 2) * 4 * 80, cache = 128.0 * 8 * 2 * 128 * 2, weights = 4.0 * 512 * 512 * 4;
  const auto& prefill = json["rows"][0];
  const auto& decode = json["rows"][1];
  const auto& layer = json["rows"][2];
  EXPECT_EQ(prefill["name"], "prefill/h8/n32/d80/causal");
  EXPECT_EQ(decode["name"], "decode/h32x8/k128/d128/f16");
  EXPECT_EQ(layer["name"], "layer/vaswani-base/n1");
  EXPECT_NEAR(prefill["gflops"].get<double>() * prefill["milliseconds"].get<double>() * 1e6 / operations, 1, 1e-9);
  EXPECT_NEAR(decode["gbytes"].get<double>() * decode["milliseconds"].get<double>() * 1e6 / cache, 1, 1e-9);
  EXPECT_NEAR(layer["gbytes"].get<double>() * layer["milliseconds"].get<double>() * 1e6 / weights, 1, 1e-9);
  EXPECT_EQ(decode["dtype"], "f16");
  for (const auto& row : json["rows"]) {
    const DType dtype = parse_dtype(row["dtype"].get<std::string>()).value();
    EXPECT_EQ(row["target"], active_target());
    EXPECT_EQ(row["threads"], 1);
    EXPECT_GT(row["milliseconds"].get<double>(), 0);
    EXPECT_GE(row["spread"].get<double>(), 0);
    EXPECT_GT(row["fraction"].get<double>(), 0);
    EXPECT_TRUE(row["within_contract"].get<bool>());
    EXPECT_GT(row["error"].get<double>(), 0);  // an f32 or f16 sum is never the float64 sum: something was compared
    EXPECT_LT(row["error"].get<double>(), 2 * accuracy_of("output", dtype).relative_frobenius);
  }
  EXPECT_LT(prefill["fraction"].get<double>(), 1);
}

TEST_F(CliBench, TextHasTheMachineAndALineARow) {
  const std::string text = run_ok({"bench", "--filter", "^prefill/h8/n32/d64$", "--target", targets().back()}).out;
  for (const char* word : {"peak", "GFLOP/s", "of limit", "prefill/h8/n32/d64", "f32"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  }
  EXPECT_NE(text.find(targets().back()), std::string::npos) << text;
}

TEST_F(CliBench, Refusals) {
  expect_failure({"bench", "--frobnicate"}, kUsage, {"--frobnicate", "multihead bench --help"});
  expect_failure({"bench", "--filter", "("}, kUsage, {"--filter", "regular expression", "'('"});
  expect_failure({"bench", "--threads", "0"}, kUsage, {"--threads", "from 1 to 1024"});
  expect_failure({"bench", "--filter", "no such row"}, kFailed, {"no such row", "--list"});
  expect_failure({"bench", "--filter", "^prefill/h8/n32/d64$", "--target", "AVX9000"}, kFailed, {"AVX9000"});
}

}  // namespace
}  // namespace multihead::cli_test
