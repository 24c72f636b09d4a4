#include "layer/layer_test_util.h"

namespace multihead {
namespace {

const LayerStep& step(const LayerDescription& description, const std::string& name) {
  for (const LayerStep& candidate : description.steps) {
    if (candidate.name == name) return candidate;
  }
  throw std::runtime_error("no step " + name);
}

// (S, 4096) -> (S, 32, 128) -> (32, S, 128) -> scores and probabilities (32, S, S) -> (S, 4096) -> (S, 4096)
TEST(Describe, FollowsTheDataFlow) {
  const LayerDescription d = describe(find_preset("llama-7b").config, 2048, 2048);
  EXPECT_EQ(step(d, "input").shape, (Dims{2048, 4096}));
  for (const std::string name : {"query", "key", "value"}) {
    EXPECT_EQ(step(d, name + " projection").shape, (Dims{2048, 4096}));
    EXPECT_EQ(step(d, name + " projection").parameters, 4096 * 4096);
    EXPECT_EQ(step(d, name + " split").shape, (Dims{2048, 32, 128}));
    EXPECT_EQ(step(d, name + " heads").shape, (Dims{32, 2048, 128}));
    EXPECT_FALSE(step(d, name + " heads").stored);
  }
  for (const char* name : {"scores", "probabilities"}) {
    EXPECT_EQ(step(d, name).shape, (Dims{32, 2048, 2048}));
    EXPECT_FALSE(step(d, name).stored);
  }
  EXPECT_EQ(step(d, "head outputs").shape, (Dims{32, 2048, 128}));
  EXPECT_EQ(step(d, "concatenation").shape, (Dims{2048, 4096}));
  EXPECT_TRUE(step(d, "concatenation").stored);
  EXPECT_EQ(step(d, "output projection").shape, (Dims{2048, 4096}));
  EXPECT_EQ(step(d, "scores").equation, "S_i = Q_i K_i^T / sqrt(128), keys <= query");
  EXPECT_EQ(d.parameters, 4 * 4096 * 4096);
  EXPECT_EQ(d.bytes_not_stored, 4.0 * 32 * 2048 * 2048);
  const double pairs = 2048.0 * 2049 / 2;  // the causal half
  EXPECT_EQ(d.operations, 4 * 2.0 * 2048 * 4096 * 4096 + 2 * 2.0 * 4096 * pairs);
}

TEST(Describe, ParametersDoNotDependOnTheHeads) {
  for (const Index d : {4, 12, 512}) {
    for (Index heads = 1; heads <= d; ++heads) {
      if (d % heads != 0) continue;
      EXPECT_EQ(describe(config_of(d, heads), 3, 3).parameters, 4 * d * d);
      EXPECT_EQ(describe(config_of(d, heads), 3, 3, true).parameters, 4 * d * d + 4 * d);
      EXPECT_EQ(describe(config_of(d, heads), 3, 3).operations, describe(config_of(d, 1), 3, 3).operations);
      EXPECT_EQ(describe(config_of(d, heads), 3, 5).bytes_not_stored, 4.0 * static_cast<double>(heads) * 15);
    }
  }
}

TEST(Describe, GroupedAndFreeWidths) {
  const LayerConfig config = config_of(10, 6, [](LayerConfig& c) {
    c.num_kv_heads = 2, c.head_dim = 3, c.value_dim = 5, c.key_input_dim = 7, c.value_input_dim = 11, c.output_dim = 13;
  });
  const LayerDescription d = describe(config, 4, 9, true);
  EXPECT_EQ(step(d, "query projection").parameters, 18 * 10 + 18);
  EXPECT_EQ(step(d, "key projection").parameters, 6 * 7 + 6);
  EXPECT_EQ(step(d, "value projection").parameters, 10 * 11 + 10);
  EXPECT_EQ(step(d, "output projection").parameters, 13 * 30 + 13);
  EXPECT_EQ(step(d, "key heads").shape, (Dims{2, 9, 3}));
  EXPECT_EQ(step(d, "value heads").shape, (Dims{2, 9, 5}));
  EXPECT_EQ(step(d, "concatenation").shape, (Dims{4, 30}));
  EXPECT_EQ(step(d, "scores").operations, 2.0 * 6 * 36 * 3);
  EXPECT_EQ(step(d, "head outputs").operations, 2.0 * 6 * 36 * 5);
  EXPECT_EQ(d.config.num_kv_heads, 2);
}

// The closed form against counting, for every kind of visibility.
TEST(Describe, CountsVisiblePairs) {
  for (const bool causal : {false, true}) {
    for (const std::optional<Window>& window :
         {std::optional<Window>{}, std::optional<Window>{{2, {}}}, std::optional<Window>{{{}, 1}},
          std::optional<Window>{{0, 0}}, std::optional<Window>{{3, 2}}, std::optional<Window>{{100, 100}}}) {
      for (const auto& [n, m] : {std::pair<Index, Index>{6, 6}, {1, 9}, {4, 9}, {9, 4}, {0, 3}, {3, 0}, {1, 1}}) {
        double pairs = 0;
        for (Index i = 0; i < n; ++i) {
          for (Index j = 0; j < m; ++j) {
            const Index distance = j - (m - n + i);
            if (causal && distance > 0) continue;
            if (window && window->left && -distance > *window->left) continue;
            if (window && window->right && distance > *window->right) continue;
            ++pairs;
          }
        }
        const LayerConfig config = config_of(4, 2, [&](LayerConfig& c) { c.causal = causal, c.window = window; });
        EXPECT_EQ(step(describe(config, n, m), "scores").operations, 2 * 4 * pairs) << causal << " " << n << " " << m;
      }
    }
  }
}

TEST(Describe, HugeLengthsAreArithmetic) {
  const Index n = 1'000'000'000'000;
  const LayerDescription d = describe(config_of(4, 2, [](LayerConfig& c) { c.causal = true; }), n, n);
  EXPECT_NEAR(step(d, "scores").operations / 4e24, 1, 1e-9);
  EXPECT_NE(
      error_of([] { describe(config_of(4, 2), -1, 3); }).find("describe: expected lengths of 0 or more; got query_len -1"),
      std::string::npos);
  EXPECT_NE(error_of([] { describe(config_of(4, 3), 1, 1); }).find("divisors 1, 2, 4"), std::string::npos);
}

}  // namespace
}  // namespace multihead
