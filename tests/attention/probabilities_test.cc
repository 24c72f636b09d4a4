// attention_probabilities: every coefficient, recomputed from query, key and lse.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention_checks.h"
#include "constraints.h"
#include "storage.h"

namespace multihead::test {
namespace {

Tensor coefficients(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& lse,
                    const AttentionOptions& options, DType dtype = DType::kF32) {
  Tensor result = filled(dtype, {query.shape[0], query.shape[1], query.shape[2], key.shape[2]}, [](Index) { return kNaN; });
  attention_probabilities(query, key, lse, result, options);
  return result;
}

Tensor coefficients(const Problem& problem, const Tensor& lse, DType dtype = DType::kF32) {
  return coefficients(problem.inputs.query, problem.inputs.key, lse, problem.options, dtype);
}

Tensor exact_coefficients(const Problem& problem) {
  Tensor output(DType::kF64, problem.shape.output()), result(DType::kF64, problem.shape.scores());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                      result.view());
  return result;
}

// Within the contract where a pair is visible, exactly 0 where it is not, and never anything unwritten.
::testing::AssertionResult coefficients_within(const Problem& problem, const Visibility& sees,
                                               const std::vector<double>& growth, const Tensor& exact, const Tensor& got) {
  const Shape& s = problem.shape;
  const double absolute = accuracy_of("probabilities", got.dtype()).absolute;
  const ConstTensorView view = got;
  for (Index n = 0; n < exact.size(); ++n) {
    const double p = load_as_double(view, n), right = exact.data<double>()[n];
    const Index row = n / s.key_len;
    const bool visible = sees(row / (s.query_len * s.heads), row / s.query_len % s.heads, row % s.query_len, n % s.key_len);
    if (visible ? std::abs(p - right) <= absolute * growth[static_cast<std::size_t>(row)] : p == 0 && !std::signbit(p))
      continue;
    return ::testing::AssertionFailure() << "row " << row << ", key " << n % s.key_len << (visible ? "" : " (not visible)")
                                         << ": " << p << ", exact " << right;
  }
  return ::testing::AssertionSuccess();
}

void check(const Problem& problem, const std::string& name) {
  const Visibility sees(problem);
  const Tensor exact = exact_coefficients(problem);
  const std::vector<double> growth = exact_of(problem, sees).growth;
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_TRUE(coefficients_within(problem, sees, growth, exact, coefficients(problem, result.lse, problem.output_dtype)))
        << name;
  });
}

TEST(AttentionProbabilities, UnderEachConstraint) { for_each_combination(1, 27000, check); }

TEST(AttentionProbabilities, UnderEveryPairOfConstraints) { for_each_combination(2, 27100, check); }

TEST(AttentionProbabilities, EveryFamily) {
  std::uint64_t seed = 27500;
  for (const auto& [family, name] : kFamilies) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      check(make_problem({.heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 450, .head_dim = 20, .value_dim = 1}, ++seed,
                         dtype, family),
            name);
    }
  }
}

TEST(AttentionProbabilities, KnownCoefficients) {
  for_each_target([&] {
    // Case O3: an additive mask without a zero in it.
    Problem added = grid_problem({.query_len = 2, .key_len = 2, .head_dim = 2, .value_dim = 2});
    const std::vector<double> bias{0.5, -0.25, 1.0, 0.75};
    added.set_bias(filled(DType::kF32, {2, 2}, [&](Index n) { return bias[static_cast<std::size_t>(n)]; }));
    EXPECT_TRUE(near(values_of(coefficients(added, run(added).lse).view().slice(2, 0, 1)), {0.723106253, 0.276893747}, 2e-6));
    // Case O5: a masked key under softcap.
    Problem capped = uniform_problem({.query_len = 1, .key_len = 3, .head_dim = 1, .value_dim = 1});
    capped.inputs.query = filled(DType::kF32, {1, 1, 1, 1}, [](Index) { return 1; });
    capped.inputs.key = filled(DType::kF32, {1, 1, 3, 1}, [](Index j) {
      return std::vector{2, 1, 3}[static_cast<std::size_t>(j)];
    });
    capped.options.scale = 1.0f;
    capped.options.softcap = 2.0f;
    capped.options.key_lengths = {2};
    EXPECT_TRUE(near(values_of(coefficients(capped, run(capped).lse)), {0.645416961, 0.354583039, 0}, 2e-6));
    // Case O30: causality is not lost.
    Problem causal = uniform_problem({.query_len = 3, .key_len = 3, .head_dim = 2, .value_dim = 1});
    causal.options.causal = true;
    EXPECT_TRUE(
        near(values_of(coefficients(causal, run(causal).lse)), {1, 0, 0, 0.5, 0.5, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0}, 2e-6));
  });
}

// Case O30: the output is the coefficients times the values of the same call.
TEST(AttentionProbabilities, TimesValueIsTheOutput) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 250, .head_dim = 20, .value_dim = 6}, 27600);
  problem.options.causal = true;
  problem.options.sinks = {0, 1, -1, 2};
  for_each_target([&] {
    const Result result = run(problem);
    const Tensor p = coefficients(problem, result.lse);
    for (Index row = 0; row < 2 * 4 * 30; ++row) {
      const Index kv = row / 120 * 2 + row / 30 % 4 / 2;
      double sum = std::exp(static_cast<double>(problem.options.sinks[static_cast<std::size_t>(row / 30 % 4)]) -
                            load_as_double(result.lse, row));
      std::vector<double> mean(6);
      for (Index j = 0; j < 250; ++j) {
        const double weight = static_cast<double>(p.data<float>()[row * 250 + j]);
        sum += weight;
        for (Index t = 0; t < 6; ++t) {
          mean[static_cast<std::size_t>(t)] +=
              weight * static_cast<double>(problem.inputs.value.data<float>()[(kv * 250 + j) * 6 + t]);
        }
      }
      EXPECT_NEAR(sum, 1, 4e-6);
      for (Index t = 0; t < 6; ++t)
        EXPECT_NEAR(load_as_double(result.output, row * 6 + t), mean[static_cast<std::size_t>(t)], 1e-5);
    }
  });
}

TEST(AttentionProbabilities, BitsDependOnNothingElse) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 70, .key_len = 450, .head_dim = 20, .value_dim = 6}, 27700);
  problem.options.causal = true;
  for_each_target([&] {
    const Result result = run(problem);
    const Tensor all = coefficients(problem, result.lse);
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(all, coefficients(problem, result.lse))) << threads << " threads";
    }
    set_num_threads(1);
    // One row of one head.
    AttentionOptions options = problem.options;
    options.query_offsets = {380 + 33};
    const auto row = [](const Tensor& t) { return ConstTensorView(t.view().slice(0, 1, 2).slice(1, 3, 4).slice(2, 33, 34)); };
    const Tensor one = coefficients(row(problem.inputs.query), problem.inputs.key.view().slice(0, 1, 2).slice(1, 1, 2),
                                    row(result.lse), options);
    EXPECT_TRUE(same_bits(one, row(all)));
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      EXPECT_TRUE(same_bits(Tensor::converted(all, dtype), coefficients(problem, result.lse, dtype))) << name_of(dtype);
    }
  });
}

TEST(AttentionProbabilities, AnyStrides) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 26, .key_len = 130, .head_dim = 20, .value_dim = 6}, 27800);
  problem.options.key_lengths = {130, 57};
  const Result result = run(problem);
  const Tensor dense = coefficients(problem, result.lse);
  for (const auto& [layout, name] : kLayouts) {
    const Stored query(problem.inputs.query, layout), key(problem.inputs.key, layout), lse(result.lse, layout),
        out(Tensor(DType::kF32, problem.shape.scores()), layout);
    attention_probabilities(query, key, lse, out, problem.options);
    EXPECT_TRUE(same_bits(dense, out.view())) << name;
    EXPECT_TRUE(out.surroundings_intact()) << name;
  }
}

// A visible NaN is seen in the coefficients of its rows; pairs that are not visible stay 0 beside it.
TEST(AttentionProbabilities, NaNIsShownWhereItIsVisible) {
  Problem problem = make_problem({.query_len = 30, .key_len = 61, .head_dim = 12, .value_dim = 7}, 27900);
  problem.options.causal = true;
  set_element(problem.inputs.key, 45 * 12, kNaN);
  for_each_target([&] {
    const Tensor p = coefficients(problem, run(problem).lse);
    for (Index i = 0; i < 30; ++i) {
      for (Index j = 0; j < 61; ++j) {
        const double x = load_as_double(p, i * 61 + j);
        if (j > i + 31) {
          EXPECT_EQ(x, 0) << i << ", " << j;
        } else {
          EXPECT_EQ(std::isnan(x), i >= 14) << i << ", " << j;
        }
      }
    }
  });
}

TEST(AttentionProbabilities, EmptyShapes) {
  for (const Shape& shape :
       {Shape{.batch = 0, .query_len = 3, .key_len = 4, .head_dim = 5}, Shape{.query_len = 0, .key_len = 4, .head_dim = 5},
        Shape{.query_len = 3, .key_len = 0, .head_dim = 5},
        Shape{.heads = 0, .kv_heads = 2, .query_len = 3, .key_len = 4, .head_dim = 5}}) {
    const Problem problem = make_problem(shape, 27950);
    EXPECT_EQ(coefficients(problem, run(problem).lse).shape(), shape.scores());
  }
}

// An lse near 100 as f32 is off by up to 4e-6, and all coefficients of its row by that factor.
TEST(AttentionProbabilities, AnLseOfTwoPrecisions) {
  Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 70, .key_len = 210, .head_dim = 16, .value_dim = 3}, 27960);
  problem.options.scale = 8.0f;
  problem.options.causal = true;
  for_each_target([&] {
    Tensor output(DType::kF32, problem.shape.output()), exact(DType::kF64, problem.shape.lse());
    attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, exact.view());
    const Result result = run(problem);
    EXPECT_TRUE(same_bits(output, result.output));
    EXPECT_TRUE(same_bits(Tensor::converted(exact, DType::kF32), result.lse));
    const auto farthest_from_one = [&](const Tensor& lse) {
      const Tensor p = coefficients(problem, lse);
      double farthest = 0;
      for (Index row = 0; row < lse.size(); ++row) {
        double sum = 0;
        for (Index j = 0; j < problem.shape.key_len; ++j) {
          sum += static_cast<double>(p.data<float>()[row * problem.shape.key_len + j]);
        }
        farthest = std::max(farthest, std::abs(sum - 1));
      }
      return farthest;
    };
    EXPECT_LT(farthest_from_one(exact), 5e-7);
    EXPECT_GT(farthest_from_one(result.lse), 1e-6);
  });
}

TEST(AttentionProbabilities, RefusesByName) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6}, 27980);
  Tensor right(DType::kF32, {1, 2, 3, 4}), wrong(DType::kF32, {1, 2, 4, 3}), wide(DType::kF64, {1, 2, 3, 4});
  const Tensor lse(DType::kF32, {1, 2, 3}), wrong_lse(DType::kF32, {1, 1, 3});
  const auto refuses = [&](const std::vector<std::string>& words, const Tensor& given_lse, const TensorView& out) {
    try {
      attention_probabilities(problem.inputs.query, problem.inputs.key, given_lse, out);
      ADD_FAILURE() << "accepted what should name " << words.front();
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()).rfind("attention_probabilities: ", 0), 0u) << error.what();
      for (const std::string& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refuses({"lse", "[1, 2, 3]", "[1, 1, 3]"}, wrong_lse, right);
  refuses({"probabilities", "[1, 2, 3, 4]", "[1, 2, 4, 3]"}, lse, wrong);
  refuses({"probabilities", "f64"}, lse, wide);
  TensorView overlapping = right;
  overlapping.strides[2] = 1;
  refuses({"probabilities", "two elements"}, lse, overlapping);
}

}  // namespace
}  // namespace multihead::test
