// Masks and NaN: what people reported about other systems (cases O1–O6), with the right values.
#include <gtest/gtest.h>

#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

TEST(AttentionCases, O1RowWithEveryKeyMasked) {
  Problem problem = grid_problem({.query_len = 4, .key_len = 4, .head_dim = 4, .value_dim = 4});
  problem.set_mask(filled(DType::kBool, {4, 4}, [](Index n) { return n / 4 < 2 && n % 4 < 2 ? 1 : 0; }));
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_TRUE(near(values_of(result.output),
                     {-0.191577310, -0.013449497, 0.433422690, -0.691577310, -0.735948492, 0.694233039, -0.110948492,
                      -1.235948492, 0, 0, 0, 0, 0, 0, 0, 0},
                     2e-6));
    EXPECT_EQ(result.lse.data<float>()[2], -kInfinity);
    EXPECT_EQ(result.lse.data<float>()[3], -kInfinity);
    EXPECT_TRUE(same_bits(result.output.view().slice(2, 2, 4), Tensor(DType::kF32, {1, 1, 2, 4})));
  });
}

TEST(AttentionCases, O2NanOrInfinityInMaskedPosition) {
  const auto count = [](Index n) { return static_cast<double>(n); };
  const auto make = [&] {
    Problem problem = uniform_problem({.query_len = 2, .key_len = 2, .head_dim = 4, .value_dim = 4});
    problem.inputs = {filled(DType::kF32, problem.shape.query(), count), filled(DType::kF32, problem.shape.key(), count),
                      filled(DType::kF32, problem.shape.value(), count)};
    problem.set_mask(filled(DType::kBool, {2, 2}, [](Index n) { return n % 2 == 0 ? 1 : 0; }));
    return problem;
  };
  const std::vector<double> right{0, 1, 2, 3, 0, 1, 2, 3};
  for (const double intruder : {0.0, kNaN, kInfinity, -kInfinity}) {
    Problem key = make(), value = make();
    set_element(key.inputs.key, 4, intruder);
    for (Index t = 4; t < 8; ++t) set_element(value.inputs.value, t, intruder);
    for_each_target([&] {
      EXPECT_EQ(values_of(run(key).output), right) << "key holds " << intruder;
      EXPECT_EQ(values_of(run(value).output), right) << "value holds " << intruder;
    });
  }
}

TEST(AttentionCases, O3FloatMaskIsAddedNotTested) {
  Problem problem = grid_problem({.query_len = 2, .key_len = 2, .head_dim = 2, .value_dim = 2});
  const std::vector<double> bias{0.5, -0.25, 1.0, 0.75};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    problem.set_bias(filled(dtype, {2, 2}, [&](Index n) { return bias[static_cast<std::size_t>(n)]; }));
    for_each_target([&] {
      EXPECT_TRUE(near(values_of(run(problem).output), {-0.701941408, 0.251989070, -0.727876240, 0.345354464}, 2e-6));
    });
  }
  // A mask of numbers is refused rather than read as "non-zero".
  problem.options.attention_bias.reset();
  problem.options.mask = problem.bias.view();
  EXPECT_THROW(run(problem), InvalidArgument);
}

TEST(AttentionCases, O4PaddingAndCausality) {
  Problem boolean = grid_problem({.query_len = 5, .key_len = 4 + 1, .head_dim = 4, .value_dim = 4});
  boolean.options.causal = true;
  boolean.set_mask(filled(DType::kBool, {5}, [](Index j) { return j >= 3 ? 1 : 0; }));
  const std::vector<double> last_rows{0, -1.125, 0.625, -0.5, 0.087561201, -1.037438799, 0.511170439, -0.412438799};
  for_each_target([&] {
    const Result result = run(boolean);
    EXPECT_TRUE(same_bits(result.output.view().slice(2, 0, 3), Tensor(DType::kF32, {1, 1, 3, 4})));
    EXPECT_TRUE(near(values_of(result.output.view().slice(2, 3, 5)), last_rows, 2e-6));
  });
}

// The caller adds two "most negative" masks: the sum overflows to -inf, which means not visible, and so row by row.
TEST(AttentionCases, O4TwoMostNegativeMasksAdded) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  Problem summed = grid_problem({.query_len = 5, .key_len = 5, .head_dim = 4, .value_dim = 4});
  summed.set_bias(filled(DType::kF32, {5, 5}, [&](Index n) {
    const float padding = n % 5 >= 3 ? 0.0f : kLowest, causal = n % 5 > n / 5 ? kLowest : 0.0f;
    return static_cast<double>(padding + causal);
  }));
  const std::vector<double> last_rows{0, -1.125, 0.625, -0.5, 0.087561201, -1.037438799, 0.511170439, -0.412438799};
  for_each_target([&] {
    const Result result = run(summed);
    EXPECT_TRUE(near(values_of(result.output.view().slice(2, 3, 5)), last_rows, 2e-6));
    // Rows 0 … 2 see keys with the finite bias only: at that size all scores round to one f32 number, in float64 they differ.
    for (const double x : values_of(result.output)) EXPECT_TRUE(std::isfinite(x));
  });
}

TEST(AttentionCases, O5SoftcapComesBeforeEveryKindOfMask) {
  const auto make = [] {
    Problem problem = uniform_problem({.query_len = 1, .key_len = 3, .head_dim = 1, .value_dim = 1});
    problem.inputs.query = filled(DType::kF32, {1, 1, 1, 1}, [](Index) { return 1; });
    problem.inputs.key = filled(DType::kF32, {1, 1, 3, 1}, [](Index j) {
      return std::vector{2, 1, 3}[static_cast<std::size_t>(j)];
    });
    problem.inputs.value = filled(DType::kF32, {1, 1, 3, 1}, [](Index j) { return std::pow(10, j == 2 ? 3 : j); });
    problem.options.scale = 1.0f;
    problem.options.softcap = 2.0f;
    return problem;
  };
  std::vector<Problem> problems;
  for (int kind = 0; kind < 5; ++kind) problems.push_back(make());
  problems[0].set_mask(filled(DType::kBool, {3}, [](Index j) { return j < 2 ? 1 : 0; }));
  problems[1].set_bias(filled(DType::kF32, {3}, [](Index j) { return j < 2 ? 0 : -kInfinity; }));
  problems[2].options.causal = true;
  problems[2].options.query_offsets = {1};
  problems[3].options.window = Window{std::nullopt, 0};
  problems[3].options.query_offsets = {1};
  problems[4].options.key_lengths = {2};
  for (const Problem& problem : problems) {
    for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {4.191247352}, 2e-6)); });
  }
}

// A bias is added outside the cap: with the cap at 1, a bias of 5 must still lift its key by 5.
TEST(AttentionCases, O5BiasIsOutsideTheCap) {
  Problem problem = uniform_problem({.query_len = 1, .key_len = 2, .head_dim = 1, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, {1, 1, 2, 1}, [](Index j) { return static_cast<double>(j); });
  problem.options.softcap = 1.0f;
  problem.set_bias(filled(DType::kF32, {2}, [](Index j) { return 5.0 * static_cast<double>(j); }));
  for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {1 / (1 + std::exp(-5.0))}, 2e-6)); });
}

TEST(AttentionCases, O6CausalAndKeyMaskOnOddSizes) {
  Problem problem = grid_problem({.heads = 13, .kv_heads = 13, .query_len = 7, .key_len = 7, .head_dim = 37, .value_dim = 37});
  problem.options.causal = true;
  problem.set_mask(filled(DType::kBool, {7}, [](Index j) { return j == 1 || j == 2 || j == 5 ? 1 : 0; }));
  const auto head = [](const Tensor& output, Index h, Index row, Index columns) {
    return values_of(output.view().slice(1, h, h + 1).slice(2, row, row + 1).slice(3, 0, columns));
  };
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_TRUE(same_bits(result.output.view().slice(2, 0, 1), Tensor(DType::kF32, {1, 13, 1, 37})));
    EXPECT_TRUE(same_bits(result.output.view().slice(2, 1, 2), problem.inputs.value.view().slice(2, 1, 2)));
    EXPECT_TRUE(near(head(result.output, 0, 2, 3), {0.559165839, -0.428180915, 1.184165839}, 2e-6));
    EXPECT_TRUE(near(head(result.output, 12, 6, 3), {0.181458601, -0.691085928, 0.806458601}, 2e-6));
  });
  Tensor output(DType::kF64, problem.shape.output()), probabilities(DType::kF64, problem.shape.scores());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                      probabilities.view());
  EXPECT_TRUE(near(head(probabilities, 0, 2, 7), {0, 0.952120610, 0.047879390, 0, 0, 0, 0}, 1e-8));
  EXPECT_TRUE(near(head(probabilities, 12, 6, 7), {0, 0.203396705, 0.087810599, 0, 0, 0.708792696, 0}, 1e-8));
}

}  // namespace
}  // namespace multihead::test
