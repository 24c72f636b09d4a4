// Every combination of two and three constraints, and random larger ones, against the definition; and the same bits with NaN
// in all that may not be read.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_checks.h"
#include "constraints.h"

namespace multihead::test {
namespace {

// NaN into each row of key and value that no query sees.
void poison_rows(const Visibility& sees, const Shape& s, Inputs& inputs) {
  const Index group = s.heads / s.kv_heads;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index kv = 0; kv < s.kv_heads; ++kv) {
      for (Index j = 0; j < s.key_len; ++j) {
        bool seen = false;
        for (Index h = kv * group; h < (kv + 1) * group; ++h) {
          for (Index i = 0; i < s.query_len; ++i) seen = seen || sees(b, h, i, j);
        }
        if (seen) continue;
        const Index row = (b * s.kv_heads + kv) * s.key_len + j;
        for (Index t = 0; t < s.head_dim; ++t) set_element(inputs.key, row * s.head_dim + t, kNaN);
        for (Index t = 0; t < s.value_dim; ++t) set_element(inputs.value, row * s.value_dim + t, kNaN);
      }
    }
  }
}

// NaN into each element of a bias that belongs only to pairs hidden by something else. -inf stays: it may be what hides a pair.
void poison_bias(const Visibility& sees, const Shape& s, Tensor& bias) {
  std::vector<bool> matters(static_cast<std::size_t>(bias.size()), false);
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      for (Index i = 0; i < s.query_len; ++i) {
        for (Index j = 0; j < s.key_len; ++j) {
          if (sees(b, h, i, j)) matters[static_cast<std::size_t>(Visibility::broadcast_offset(bias, {b, h, i, j}))] = true;
        }
      }
    }
  }
  for (std::size_t n = 0; n < matters.size(); ++n) {
    const auto offset = static_cast<Index>(n);
    if (!matters[n] && load_as_double(bias, offset) != -kInfinity) set_element(bias, offset, kNaN);
  }
}

Problem poisoned(const Problem& problem, const Visibility& sees) {
  Problem result;
  result.shape = problem.shape;
  result.options = problem.options;
  result.output_dtype = problem.output_dtype;
  result.inputs = {problem.inputs.query.copy(), problem.inputs.key.copy(), problem.inputs.value.copy()};
  poison_rows(sees, result.shape, result.inputs);
  if (!problem.options.attention_bias) return result;
  result.set_bias(problem.bias.copy());
  poison_bias(sees, result.shape, result.bias);
  return result;
}

void check(const Problem& problem, const std::string& name) {
  const Visibility sees(problem);
  const Exact exact = exact_of(problem, sees);
  const Problem with_nan = poisoned(problem, sees);
  for_each_target([&] {
    const Result clean = run(problem);
    EXPECT_TRUE(within_contract(exact, clean)) << name;
    EXPECT_TRUE(same_bits(clean, run(with_nan))) << "with NaN in what is not visible: " << name;
  });
}

TEST(AttentionConstraints, EachAlone) { for_each_combination(1, 6000, check); }

TEST(AttentionConstraints, EveryPair) { for_each_combination(2, 6100, check); }

TEST(AttentionConstraints, EveryTriple) { for_each_combination(3, 7000, check); }

TEST(AttentionConstraints, ManyAtOnce) {
  Random random(9000);
  int combined = 0;
  while (combined < 300) {
    std::vector<std::size_t> chosen;
    for (std::size_t n = 0; n < constraints().size(); ++n) {
      if (random.chance(0.35)) chosen.push_back(n);
    }
    Problem problem;
    std::string name;
    if (chosen.size() < 4 || !combine(chosen, static_cast<std::uint64_t>(9000 + combined), problem, name)) continue;
    ++combined;
    check(problem, name);
  }
}

// The reference and the tests' own reading of the headers agree on what is visible: probability 0 exactly where it is not.
TEST(AttentionConstraints, TheReferenceSeesWhatTheHeadersSay) {
  for_each_combination(2, 9500, [](const Problem& problem, const std::string& name) {
    const Visibility sees(problem);
    Tensor output(DType::kF64, problem.shape.output()), probabilities(DType::kF64, problem.shape.scores());
    reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                        probabilities.view());
    const Shape& s = problem.shape;
    for (Index n = 0; n < probabilities.size(); ++n) {
      const bool visible = sees(n / (s.key_len * s.query_len * s.heads), n / (s.key_len * s.query_len) % s.heads,
                                n / s.key_len % s.query_len, n % s.key_len);
      ASSERT_EQ(probabilities.data<double>()[n] > 0, visible) << name;
    }
  });
}

}  // namespace
}  // namespace multihead::test
