// Causal alignment, windows and caches: what people reported about other systems (cases O7–O9, O27, O28).
#include <gtest/gtest.h>

#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

// Query and key zero, value[j] = first + step * j: the output is the mean of the visible positions.
Problem means(Index query_len, Index key_len, double first = 0, double step = 1) {
  Problem problem = uniform_problem({.query_len = query_len, .key_len = key_len, .head_dim = 2, .value_dim = 1});
  problem.inputs.value =
      filled(DType::kF32, problem.shape.value(), [&](Index j) { return first + step * static_cast<double>(j); });
  return problem;
}

void expect_output(const Problem& problem, const std::vector<double>& right) {
  for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), right, 2e-6)); });
}

TEST(AttentionCases, O7CausalWithFewerQueriesThanKeys) {
  Problem problem = grid_problem({.query_len = 2, .key_len = 4, .head_dim = 4, .value_dim = 4});
  problem.options.causal = true;
  expect_output(problem,
                {-0.753235452, 0.259015458, -0.128235452, 0.272399981, -0.670041780, 0.377034221, -0.045041780, -0.867262249});
  problem.options.query_offsets = {2};
  expect_output(problem,
                {-0.753235452, 0.259015458, -0.128235452, 0.272399981, -0.670041780, 0.377034221, -0.045041780, -0.867262249});
  problem.options.query_offsets.clear();
  problem.options.top_left = true;
  expect_output(problem, {-0.875, 0.875, -0.25, -1.375, -0.735948492, 0.694233039, -0.110948492, -1.235948492});
}

TEST(AttentionCases, O7CausalWithMoreQueriesThanKeys) {
  Problem problem = means(4, 2);
  problem.options.causal = true;
  expect_output(problem, {0, 0, 0, 0.5});
  problem.options.top_left = true;
  expect_output(problem, {0, 0.5, 0.5, 0.5});
}

TEST(AttentionCases, O7DecodingSeesTheWholeCache) {
  Problem problem = means(1, 16);
  problem.options.causal = true;
  expect_output(problem, {7.5});
}

TEST(AttentionCases, O7OffsetsAreNotClamped) {
  Problem problem = means(3, 4);
  problem.options.causal = true;
  problem.options.query_offsets = {-2};
  expect_output(problem, {0, 0, 0});
  problem.options.query_offsets = {100};
  expect_output(problem, {1.5, 1.5, 1.5});
  problem.options.query_offsets = {-1};
  expect_output(problem, {0, 0, 0.5});
  for (const Index far : {-(Index{1} << 48), Index{1} << 48}) {
    problem.options.query_offsets = {far};
    expect_output(problem, far < 0 ? std::vector<double>{0, 0, 0} : std::vector<double>{1.5, 1.5, 1.5});
  }
}

TEST(AttentionCases, O8LastKeysCountsItself) {
  Problem problem = means(6, 6);
  problem.options.causal = true;
  problem.options.window = last_keys(3);
  expect_output(problem, {0, 0.5, 1, 2, 3, 4});
  problem.options.window = last_keys(1);
  expect_output(problem, {0, 1, 2, 3, 4, 5});
  for (const Index width : {6, 7, 1000}) {
    problem.options.window = last_keys(width);
    expect_output(problem, {0, 0.5, 1, 1.5, 2, 2.5});
  }
}

TEST(AttentionCases, O8RightSideWithoutCausality) {
  Problem problem = means(6, 6);
  problem.options.window = Window{0, 2};
  expect_output(problem, {1, 2, 3, 4, 4.5, 5});
  problem.options.window = Window{std::nullopt, 1};
  expect_output(problem, {0.5, 1, 1.5, 2, 2.5, 2.5});
  problem.options.window = Window{std::nullopt, std::nullopt};
  expect_output(problem, {2.5, 2.5, 2.5, 2.5, 2.5, 2.5});
  problem.options.window = Window{INT64_MAX, INT64_MAX - 1};
  expect_output(problem, {2.5, 2.5, 2.5, 2.5, 2.5, 2.5});
}

// Every option alone: an early exit for "nothing masked" must not drop any of them.
TEST(AttentionCases, O9EachOptionAlone) {
  const std::vector<double> plain(8, 3.5);
  Problem problem = means(8, 8);
  expect_output(problem, plain);
  problem.options.window = Window{1, 1};
  expect_output(problem, {0.5, 1, 2, 3, 4, 5, 6, 6.5});
  problem = means(8, 8);
  problem.options.key_lengths = {3};
  expect_output(problem, std::vector<double>(8, 1));
  problem = means(8, 8);
  problem.options.sinks = {std::log(8.0f)};
  expect_output(problem, std::vector<double>(8, 1.75));
  problem = means(1, 2);
  problem.options.alibi_slopes = {1};
  expect_output(problem, {1 / (1 + std::exp(-1.0))});
  problem = means(1, 2);
  problem.inputs.query = filled(DType::kF32, {1, 1, 1, 2}, [](Index) { return 1; });
  problem.inputs.key = filled(DType::kF32, {1, 1, 2, 2}, [](Index n) { return n / 2 == 1 ? 50 : 0; });
  problem.options.scale = 1.0f;
  problem.options.softcap = 1.0f;
  expect_output(problem, {1 / (1 + std::exp(-1.0))});
}

TEST(AttentionCases, O27ChunksOnTopOfACache) {
  const Problem whole = [] {
    Problem problem = grid_problem({.query_len = 6, .key_len = 6, .head_dim = 2, .value_dim = 2});
    problem.options.causal = true;
    return problem;
  }();
  const std::vector<std::vector<Index>> cuts{{4, 6}, {1, 6}, {3, 6}, {1, 2, 3, 4, 5, 6}, {4, 5, 6}};
  for_each_target([&] {
    const Result right = run(whole);
    EXPECT_TRUE(
        near(values_of(right.output.view().slice(2, 4, 6)), {-0.023875732, -0.719664792, -0.136700475, 0.169810491}, 2e-6));
    for (const std::vector<Index>& cut : cuts) {
      Index begin = 0;
      for (const Index end : cut) {
        const Result chunk = run(whole.inputs.query.view().slice(2, begin, end), whole.inputs.key.view().slice(2, 0, end),
                                 whole.inputs.value.view().slice(2, 0, end), whole.options, DType::kF32);
        EXPECT_TRUE(same_bits(chunk.output, right.output.view().slice(2, begin, end))) << "rows " << begin << " to " << end;
        begin = end;
      }
    }
  });
  Problem two = means(2, 6);
  two.options.causal = true;
  expect_output(two, {2.0, 2.5});
}

TEST(AttentionCases, O28WindowAtTheMomentTheCacheFills) {
  for (const Index length : {8, 9, 10}) {
    Problem problem = means(1, length, 10.0, 0.1);
    problem.options.causal = true;
    problem.options.window = last_keys(8);
    expect_output(problem, {10.35 + 0.1 * static_cast<double>(length - 8)});
    // The same in a longer buffer that is filled to `length`: masked by window as well as by length.
    problem = means(1, 16, 10.0, 0.1);
    problem.options.causal = true;
    problem.options.window = last_keys(8);
    problem.options.key_lengths = {length};
    expect_output(problem, {10.35 + 0.1 * static_cast<double>(length - 8)});
  }
}

}  // namespace
}  // namespace multihead::test
