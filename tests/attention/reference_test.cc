// reference_attention and alibi_slopes: what the definition adds to attention (f64, coefficients), and its corner cases.
#include <gtest/gtest.h>

#include <vector>

#include "attention_checks.h"
#include "constraints.h"
#include "storage.h"

namespace multihead::test {
namespace {

struct Reference {
  Tensor output, lse, probabilities;
};

Reference reference(const Problem& problem, DType dtype = DType::kF64) {
  const auto nan = [](Index) { return kNaN; };
  Reference result{filled(dtype, problem.shape.output(), nan), filled(dtype, problem.shape.lse(), nan),
                   filled(dtype, problem.shape.scores(), nan)};
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, problem.options,
                      result.lse.view(), result.probabilities.view());
  return result;
}

TEST(Reference, RowsSumToOneAndMakeTheOutput) {
  for_each_combination(1, 24000, [](const Problem& problem, const std::string& name) {
    const Reference result = reference(problem);
    const Shape& s = problem.shape;
    for (Index row = 0; row < s.batch * s.heads * s.query_len; ++row) {
      const double* p = result.probabilities.data<double>() + row * s.key_len;
      const Index kv = row / (s.heads * s.query_len) * s.kv_heads + row / s.query_len % s.heads / (s.heads / s.kv_heads);
      double sum = 0;
      std::vector<double> mean(static_cast<std::size_t>(s.value_dim));
      for (Index j = 0; j < s.key_len; ++j) {
        sum += p[j];
        for (Index t = 0; t < s.value_dim; ++t) {
          mean[static_cast<std::size_t>(t)] +=
              p[j] * load_as_double(problem.inputs.value, (kv * s.key_len + j) * s.value_dim + t);
        }
      }
      const double lse = result.lse.data<double>()[row];
      const auto head = static_cast<std::size_t>(row / s.query_len % s.heads);
      const double sink = problem.options.sinks.empty() ? 0 : std::exp(static_cast<double>(problem.options.sinks[head]) - lse);
      if (sum > 0) {
        EXPECT_NEAR(sum + sink, 1, 1e-12) << name;
      }
      if (problem.options.dropout) continue;  // coefficients are those before it
      for (Index t = 0; t < s.value_dim; ++t) {
        ASSERT_NEAR(result.output.data<double>()[row * s.value_dim + t], mean[static_cast<std::size_t>(t)], 1e-12) << name;
      }
    }
  });
}

TEST(Reference, NarrowResultsAreTheRoundedWideOnes) {
  const Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 7, .key_len = 20, .head_dim = 9, .value_dim = 5}, 24100);
  const Reference wide = reference(problem), narrow = reference(problem, DType::kF32);
  EXPECT_TRUE(same_bits(Tensor::converted(wide.output, DType::kF32), narrow.output));
  EXPECT_TRUE(same_bits(Tensor::converted(wide.lse, DType::kF32), narrow.lse));
  EXPECT_TRUE(same_bits(Tensor::converted(wide.probabilities, DType::kF32), narrow.probabilities));
}

TEST(Reference, StridesDoNotMatter) {
  const Problem problem =
      make_problem({.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 7, .key_len = 20, .head_dim = 9, .value_dim = 5}, 24200,
                   DType::kF16);
  const Reference dense = reference(problem);
  for (const auto& [layout, name] : kLayouts) {
    const Stored query(problem.inputs.query, layout), key(problem.inputs.key, layout), value(problem.inputs.value, layout);
    const Stored output(dense.output, layout), lse(dense.lse, layout), probabilities(dense.probabilities, layout);
    reference_attention(query, key, value, output, {}, lse.view(), probabilities.view());
    EXPECT_TRUE(same_bits(dense.output, output.view())) << name;
    EXPECT_TRUE(same_bits(dense.lse, lse.view())) << name;
    EXPECT_TRUE(same_bits(dense.probabilities, probabilities.view())) << name;
    EXPECT_TRUE(output.surroundings_intact() && lse.surroundings_intact() && probabilities.surroundings_intact()) << name;
  }
}

// Pairs of different sequences and keys beyond a length have coefficient 0, and it is written.
TEST(Reference, CoefficientsOutsideEverySequenceAreZero) {
  Problem problem = make_problem({.query_len = 4, .key_len = 5, .head_dim = 3, .value_dim = 2}, 24300);
  problem.options.packed = PackedSequences{{0, 1, 4}, {0, 3, 5}};
  Reference result = reference(problem);
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 5; ++j)
      EXPECT_EQ(result.probabilities.data<double>()[i * 5 + j] > 0, (i < 1) == (j < 3)) << i << ", " << j;
  }
  problem.options.packed.reset();
  problem.options.key_lengths = {2};
  result = reference(problem);
  for (Index n = 0; n < 20; ++n) EXPECT_EQ(result.probabilities.data<double>()[n] > 0, n % 5 < 2) << n;
}

// In a row with a visible NaN the pairs that are not visible are still 0.
TEST(Reference, HiddenCoefficientsAreZeroBesideNaN) {
  Problem problem = make_problem({.query_len = 2, .key_len = 4, .head_dim = 3, .value_dim = 2}, 24400);
  problem.options.causal = true;
  set_element(problem.inputs.key, 0, kNaN);
  const Reference result = reference(problem);
  EXPECT_EQ(result.probabilities.data<double>()[3], 0.0);
  EXPECT_TRUE(std::isnan(result.probabilities.data<double>()[1]));
}

TEST(Reference, ExactInFloat64) {
  Problem problem = uniform_problem({.query_len = 1, .key_len = 3, .head_dim = 1, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index j) { return static_cast<double>(j); });
  problem.inputs.query = filled(DType::kF32, problem.shape.query(), [](Index) { return 1; });
  problem.inputs.key = filled(DType::kF32, problem.shape.key(), [](Index j) { return 700.0 * static_cast<double>(j); });
  const Reference result = reference(problem);
  EXPECT_DOUBLE_EQ(result.lse.data<double>()[0], 1400);
  EXPECT_DOUBLE_EQ(result.output.data<double>()[0], 2 - std::exp(-700.0));
}

TEST(AlibiSlopes, PowersOfTwoAndBetween) {
  const auto powers = [](std::vector<double> exponents) {
    std::vector<float> slopes;
    for (const double e : exponents) slopes.push_back(static_cast<float>(std::exp2(e)));
    return slopes;
  };
  EXPECT_EQ(alibi_slopes(0), std::vector<float>());
  EXPECT_EQ(alibi_slopes(1), powers({-8}));
  EXPECT_EQ(alibi_slopes(2), powers({-4, -8}));
  EXPECT_EQ(alibi_slopes(3), powers({-4, -8, -2}));
  EXPECT_EQ(alibi_slopes(6), powers({-2, -4, -6, -8, -1, -3}));
  EXPECT_EQ(alibi_slopes(8), powers({-1, -2, -3, -4, -5, -6, -7, -8}));
  EXPECT_EQ(alibi_slopes(12), powers({-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5}));
  EXPECT_EQ(alibi_slopes(1000).size(), 1000u);
  EXPECT_THROW(alibi_slopes(-1), InvalidArgument);
}

}  // namespace
}  // namespace multihead::test
