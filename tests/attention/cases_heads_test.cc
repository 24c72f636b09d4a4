// Broadcasting, head mapping, sinks, ALiBi and value widths: what people reported about other systems (cases O13–O15, O17–O19).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

void expect_output(const Problem& problem, const std::vector<double>& right) {
  for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), right, 2e-6)); });
}

TEST(AttentionCases, O13BiasOfEveryRankBroadcasts) {
  Problem problem = grid_problem({.heads = 2, .kv_heads = 2, .query_len = 2, .key_len = 4, .head_dim = 4, .value_dim = 4});
  const std::vector<double> row{0, -1, -kInfinity, 0.5};
  for (const Dims& shape :
       {Dims{4}, Dims{1, 4}, Dims{2, 4}, Dims{1, 1, 1, 4}, Dims{1, 1, 2, 4}, Dims{1, 2, 2, 4}, Dims{1, 2, 1, 4}}) {
    problem.set_bias(filled(DType::kF32, shape, [&](Index n) { return row[static_cast<std::size_t>(n % 4)]; }));
    SCOPED_TRACE(multihead::to_string(shape));
    expect_output(problem,
                  {-0.291813686, -0.232830405, 0.333186314, -0.791813686, -0.587623752, 0.257008311, 0.037376248, -1.087623752,
                   0.086267302, 0.687737733, -0.437262267, -0.413732698, 0.473256348, 0.514726161, -0.610273839, -0.026743652});
  }
  for (const Dims& shape : {Dims{3}, Dims{2, 3}, Dims{3, 4}, Dims{1, 3, 2, 4}, Dims{2, 1, 2, 4}, Dims{1, 1, 2, 5}}) {
    problem.set_bias(Tensor(DType::kF32, shape));
    try {
      run(problem);
      ADD_FAILURE() << "accepted a bias of shape " << multihead::to_string(shape);
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("attention_bias"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(multihead::to_string(shape)), std::string::npos) << error.what();
    }
  }
}

// Rank 3 means [heads, q, k], [batch, q, k] or [batch * heads, q, k] in different systems: refused with all three named.
TEST(AttentionCases, O13O14RankThreeIsRefused) {
  for (const Dims& shape : {Dims{1, 1, 4}, Dims{2, 2, 4}}) {
    for (const bool is_mask : {true, false}) {
      Problem problem =
          grid_problem({.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 2, .key_len = 4, .head_dim = 4, .value_dim = 4});
      if (is_mask) problem.set_mask(Tensor(DType::kBool, shape));
      if (!is_mask) problem.set_bias(Tensor(DType::kF32, shape));
      try {
        run(problem);
        ADD_FAILURE() << "accepted rank 3";
      } catch (const InvalidArgument& error) {
        const std::string text = error.what();
        const std::vector<std::string> words{is_mask ? "mask" : "attention_bias", "[heads, queries, keys]",
                                             "[batch, queries, keys]", "[batch * heads, queries, keys]",
                                             multihead::to_string(shape)};
        for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
      }
    }
  }
}

TEST(AttentionCases, O14PaddingOfEachSample) {
  Problem problem =
      uniform_problem({.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 1, .key_len = 2, .head_dim = 1, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(),
                                [](Index n) { return 10.0 * static_cast<double>(n / 4) + static_cast<double>(n % 2); });
  problem.set_mask(filled(DType::kBool, {2, 1, 1, 2}, [](Index n) { return n == 0 || n == 3 ? 1 : 0; }));
  expect_output(problem, {0, 0, 11, 11});
  problem.set_mask(filled(DType::kBool, {2, 2, 1, 2}, [](Index n) { return n / 4 == n % 2 ? 1 : 0; }));
  expect_output(problem, {0, 0, 11, 11});
}

TEST(AttentionCases, O15WhichKvHeadServesWhichQueryHead) {
  const auto heads = [](Index query_heads, Index kv_heads) {
    Problem problem = uniform_problem({.heads = query_heads, .kv_heads = kv_heads, .head_dim = 3, .value_dim = 1});
    problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index h) { return 1.0 + static_cast<double>(h); });
    return problem;
  };
  expect_output(heads(4, 2), {1, 1, 2, 2});
  expect_output(heads(6, 2), {1, 1, 1, 2, 2, 2});
  expect_output(heads(9, 3), {1, 1, 1, 2, 2, 2, 3, 3, 3});
  expect_output(heads(5, 1), {1, 1, 1, 1, 1});
  expect_output(heads(5, 5), {1, 2, 3, 4, 5});
  for (const auto& [query_heads, kv_heads] : {std::pair<Index, Index>{5, 2}, {2, 4}, {1, 0}}) {
    try {
      run(heads(query_heads, kv_heads));
      ADD_FAILURE() << query_heads << " over " << kv_heads;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("multiple of num_kv_heads"), std::string::npos) << error.what();
    }
  }
}

TEST(AttentionCases, O17SinksPerHead) {
  Problem problem = uniform_problem({.heads = 4, .kv_heads = 4, .query_len = 3, .key_len = 4, .head_dim = 2, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index) { return 1; });
  problem.options.sinks = {0, 1, 2, -2};
  expect_output(problem, {0.8, 0.8, 0.8, 0.595390325, 0.595390325, 0.595390325, 0.351214356, 0.351214356, 0.351214356,
                          0.967273444, 0.967273444, 0.967273444});
  problem.options.sinks = {-HUGE_VALF, 100, -HUGE_VALF, 1e30f};
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_TRUE(near(values_of(result.output), {1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0}, 2e-6));
    const double four = std::log(4);
    EXPECT_TRUE(near(values_of(result.lse), {four, four, four, 100, 100, 100, four, four, four, 1e30, 1e30, 1e30}, 2e-6));
  });
  problem.options.sinks.assign(4, 3e38f);
  for_each_target([&] { EXPECT_EQ(values_of(run(problem).output), std::vector<double>(12, 0)); });
}

TEST(AttentionCases, O17SinkOfARowThatSeesNothing) {
  Problem problem = uniform_problem({.heads = 2, .kv_heads = 1, .query_len = 2, .key_len = 3, .head_dim = 2, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index) { return 7; });
  problem.options.sinks = {0.75f, -HUGE_VALF};
  problem.options.key_lengths = {0};
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_EQ(values_of(result.output), (std::vector<double>{0, 0, 0, 0}));
    EXPECT_TRUE(near(values_of(result.lse), {0.75, 0.75, -kInfinity, -kInfinity}, 1e-6));
  });
}

TEST(AttentionCases, O18AlibiBias) {
  Problem problem = uniform_problem({.query_len = 3, .key_len = 3, .head_dim = 2, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index j) { return static_cast<double>(j); });
  problem.options.alibi_slopes = {1};
  problem.options.causal = true;
  for_each_target([&] { EXPECT_NEAR(load_as_double(run(problem).output, 2), 1.575210383, 4e-6); });
  // The row decoded at cache position 2.
  Problem decoded = uniform_problem({.query_len = 1, .key_len = 3, .head_dim = 2, .value_dim = 1});
  decoded.inputs.value = problem.inputs.value.copy();
  decoded.options = problem.options;
  expect_output(decoded, {1.575210383});
  // Future keys are as far as past ones: |distance|.
  problem.options.causal = false;
  for_each_target([&] { EXPECT_NEAR(load_as_double(run(problem).output, 1), 1, 4e-6); });
}

TEST(AttentionCases, O18AlibiFollowsTheQueryOffset) {
  Problem problem = uniform_problem({.query_len = 1, .key_len = 3, .head_dim = 2, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index j) { return static_cast<double>(j); });
  problem.options.alibi_slopes = {1};
  problem.options.top_left = true;
  expect_output(problem, {2 - 1.575210383});
}

TEST(AttentionCases, O19ValueWidthDiffers) {
  Problem problem = grid_problem({.heads = 2, .kv_heads = 1, .query_len = 1, .key_len = 3, .head_dim = 4, .value_dim = 2});
  expect_output(problem, {-0.051300010, -0.564684532, -0.656922034, 0.451712569});
  expect_right(make_problem(
      {.batch = 8, .heads = 4, .kv_heads = 1, .query_len = 1, .key_len = 36, .head_dim = 32, .value_dim = 24}, 191));
  expect_right(make_problem({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 2, .value_dim = 100}, 192));
  expect_right(make_problem({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 70, .value_dim = 1}, 193));
}

}  // namespace
}  // namespace multihead::test
