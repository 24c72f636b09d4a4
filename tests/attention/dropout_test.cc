// What is dropped: how often, how independently, of what it depends and of what it does not. That the results are right is held
// to the definition with all other constraints (constraints.h).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "backward_checks.h"
#include "multihead/runtime.h"
#include "multihead/statistics.h"
#include "observe/observe_testing.h"

namespace multihead::test {
namespace {

// Which pairs are kept: with equal scores and an identity for values the output is the coefficients, [heads, queries, keys].
Tensor kept(const Dropout& dropout, Index heads, Index queries, Index keys) {
  const Tensor query(DType::kF32, {1, heads, queries, 1}), key(DType::kF32, {1, heads, keys, 1});
  Tensor value(DType::kF32, {1, heads, keys, keys}), output(DType::kF32, {1, heads, queries, keys});
  for (Index h = 0; h < heads; ++h) {
    for (Index j = 0; j < keys; ++j) value.data<float>()[(h * keys + j) * keys + j] = 1;
  }
  AttentionOptions options;
  options.dropout = dropout;
  attention(query, key, value, output, options);
  return output;
}

TEST(Dropout, KeepsAsManyAsAskedForAndLiftsThem) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const Tensor weights = kept({p, 7}, 2, 300, 250);
    Index count = 0;
    for (Index n = 0; n < weights.size(); ++n) {
      const float weight = weights.data<float>()[n];
      if (weight == 0) continue;
      ++count;
      ASSERT_NEAR(weight, 1 / (250 * (1 - p)), 1e-6 / (1 - p));
    }
    const double all = static_cast<double>(weights.size()), expected = all * (1 - static_cast<double>(p));
    EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected * static_cast<double>(p))) << p;
  }
}

// Neighbours in any direction, and the same pair under a neighbouring seed, agree half the time.
TEST(Dropout, DrawsAreIndependent) {
  constexpr Index kHeads = 4, kQueries = 200, kKeys = 200;
  const Tensor a = kept({0.5f, 41}, kHeads, kQueries, kKeys), b = kept({0.5f, 42}, kHeads, kQueries, kKeys);
  const auto agreement = [&](const Tensor& left, const Tensor& right, Index step) {
    Index agree = 0;
    const Index count = left.size() - step;
    for (Index n = 0; n < count; ++n) agree += (left.data<float>()[n] > 0) == (right.data<float>()[n + step] > 0) ? 1 : 0;
    return (static_cast<double>(agree) - static_cast<double>(count) / 2) / std::sqrt(static_cast<double>(count) / 4);
  };
  EXPECT_LT(std::abs(agreement(a, b, 0)), 5) << "seeds";
  for (const Index step : {1, 2, 3, 4, 8, 16, 64, 128}) {
    EXPECT_LT(std::abs(agreement(a, a, step)), 5) << "keys " << step;
    EXPECT_LT(std::abs(agreement(a, a, step * kKeys)), 5) << "queries " << step;
  }
  for (Index head = 1; head < kHeads; ++head) EXPECT_LT(std::abs(agreement(a, a, head * kQueries * kKeys)), 5) << "heads";
}

// Rows and columns as a whole: the numbers kept in each scatter as those of a coin do.
TEST(Dropout, RowsAndColumnsScatterAsTheyShould) {
  constexpr Index kSide = 256;
  const Tensor weights = kept({0.25f, 3}, 1, kSide, kSide);
  std::vector<double> rows(kSide), columns(kSide);
  for (Index n = 0; n < weights.size(); ++n) {
    const double one = weights.data<float>()[n] > 0 ? 1 : 0;
    rows[static_cast<std::size_t>(n / kSide)] += one;
    columns[static_cast<std::size_t>(n % kSide)] += one;
  }
  for (const auto& counts : {rows, columns}) {
    double chi_squared = 0;  // of kSide values with variance kSide * 0.25 * 0.75
    for (const double count : counts) chi_squared += (count - 192) * (count - 192) / (kSide * 0.25 * 0.75);
    EXPECT_NEAR(chi_squared, kSide, 5 * std::sqrt(2.0 * kSide));
  }
}

Problem dropping(DType dtype = DType::kF32) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 130, .key_len = 700, .head_dim = 24, .value_dim = 20}, 52, dtype);
  problem.options.causal = true;
  problem.options.dropout = Dropout{0.3f, 5};
  return problem;
}

TEST(Dropout, OfLongRowsInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Problem problem = dropping(dtype);
    expect_right(problem);
    expect_right_backward(problem, 53);
  }
}

TEST(Dropout, DoesNotDependOnThreadsOrCuts) {
  const Problem problem = dropping();
  const Tensor grad_output = grad_output_of(problem, 54);
  for_each_target([&] {
    set_num_threads(1);
    const Result whole = run(problem);
    const Gradients gradients = run_backward(problem, grad_output);
    for (const int threads : {2, 5}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(run(problem), whole));
      EXPECT_TRUE(same_bits(run_backward(problem, grad_output), gradients));
    }
    set_num_threads(0);
    for (const Index row : {0, 1, 64, 129}) {  // alone, a row would go through the decoding kernel
      AttentionOptions options = problem.options;
      options.query_offsets = {700 - 130 + row};
      const ConstTensorView query = problem.inputs.query;
      const Result alone = run(query.slice(2, row, row + 1), problem.inputs.key, problem.inputs.value, options, DType::kF32);
      EXPECT_TRUE(same_bits(alone.output, whole.output.view().slice(2, row, row + 1))) << row;
    }
  });
}

TEST(Dropout, LeavesLseAndCoefficientsAlone) {
  const Problem problem = dropping();
  Problem plain = dropping();
  plain.options.dropout.reset();
  const Result result = run(problem), without = run(plain);
  EXPECT_TRUE(same_bits(result.lse, without.lse));
  EXPECT_FALSE(same_bits(result.output, without.output));
  plain.options.dropout = Dropout{0, 9};
  EXPECT_TRUE(same_bits(run(plain), without)) << "a probability of 0";
  Tensor coefficients(DType::kF32, problem.shape.scores()), plain_ones(DType::kF32, problem.shape.scores());
  attention_probabilities(problem.inputs.query, problem.inputs.key, result.lse, coefficients, problem.options);
  attention_probabilities(problem.inputs.query, problem.inputs.key, without.lse, plain_ones, plain.options);
  EXPECT_TRUE(same_bits(coefficients, plain_ones));
}

TEST(Dropout, UnderObservation) {
  const Problem problem = dropping(DType::kBF16);
  for_each_target([&] {
    const Result result = run(problem);
    Tensor output(problem.output_dtype, problem.shape.output()), lse(DType::kF32, problem.shape.lse());
    attention_with_statistics(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options,
                              lse.view());
    EXPECT_TRUE(same_bits(Result{std::move(output), std::move(lse)}, result));
  });
  Tensor output(problem.output_dtype, problem.shape.output());
  const Capture taken = capture(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options);
  EXPECT_FALSE(taken.options.dropout.has_value());
  EXPECT_TRUE(same_bits(output, run(problem).output));
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  Problem problem = dropping();
  for (const float p : {-0.1f, 1.0f, 2.0f, std::numeric_limits<float>::quiet_NaN()}) {
    problem.options.dropout->probability = p;
    try {
      run(problem);
      FAIL() << p;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("dropout: expected a probability from 0 to below 1; got "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace multihead::test
