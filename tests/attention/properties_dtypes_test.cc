// Element types and hard numbers: every family of inputs in every type, and what rounding happens where.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};

TEST(AttentionNumbers, EveryFamilyInEveryType) {
  std::uint64_t seed = 15000;
  for (const auto& [family, name] : kFamilies) {
    for (const DType dtype : kTypes) {
      for (const Shape& shape :
           {Shape{.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 61, .head_dim = 20, .value_dim = 16},
            Shape{.heads = 2, .kv_heads = 2, .query_len = 25, .key_len = 250, .head_dim = 64, .value_dim = 64},
            Shape{.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = 1500, .head_dim = 32, .value_dim = 32}}) {
        for (const bool causal : {false, true}) {
          Problem problem = make_problem(shape, ++seed, dtype, family);
          problem.options.causal = causal;
          SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(dtype)));
          expect_right(problem);
        }
      }
    }
  }
}

TEST(AttentionNumbers, EveryFamilyUnderSoftcapAlibiAndSinks) {
  std::uint64_t seed = 16000;
  for (const auto& [family, name] : kFamilies) {
    for (const DType dtype : kTypes) {
      Problem problem = make_problem(
          {.heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 150, .head_dim = 20, .value_dim = 16}, ++seed, dtype, family);
      problem.options.softcap = 20.0f;
      problem.options.alibi_slopes = alibi_slopes(4);
      problem.options.sinks = {-5, 0, 5, -HUGE_VALF};
      SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(dtype)));
      expect_right(problem);
    }
  }
}

// Output may be of another type than the inputs; 16-bit inputs with an f32 output are exact to f32.
TEST(AttentionNumbers, OutputTypeIsFree) {
  std::uint64_t seed = 17000;
  for (const DType inputs : kTypes) {
    for (const DType output : kTypes) {
      Problem problem = make_problem(
          {.heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 150, .head_dim = 24, .value_dim = 40}, ++seed, inputs);
      problem.output_dtype = output;
      expect_right(problem);
    }
  }
}

// There is one rounding, at the output: that of the f32 result.
TEST(AttentionNumbers, OutputIsTheRoundedF32Result) {
  for (const DType inputs : kTypes) {
    for (const Index query_len : {1, 30}) {
      Problem problem = make_problem(
          {.heads = 4, .kv_heads = 2, .query_len = query_len, .key_len = 500, .head_dim = 24, .value_dim = 40}, 18000, inputs);
      for_each_target([&] {
        problem.output_dtype = DType::kF32;
        const Result wide = run(problem);
        for (const DType output : {DType::kF16, DType::kBF16}) {
          problem.output_dtype = output;
          const Result narrow = run(problem);
          EXPECT_TRUE(same_bits(narrow.output, Tensor::converted(wide.output, output)));
          EXPECT_TRUE(same_bits(narrow.lse, wide.lse));
        }
      });
    }
  }
}

TEST(AttentionNumbers, OutputBeyondTheRangeOfF16IsInfinite) {
  Problem problem = uniform_problem({.query_len = 2, .key_len = 3, .head_dim = 4, .value_dim = 2});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index n) { return n % 2 == 0 ? 1e5 : 65519; });
  problem.output_dtype = DType::kF16;
  for_each_target([&] {
    EXPECT_EQ(values_of(run(problem).output), (std::vector<double>{kInfinity, 65504, kInfinity, 65504}));
  });
}

TEST(AttentionNumbers, EveryScale) {
  std::uint64_t seed = 19000;
  for (const float scale : {0.0f, -0.0f, 1.0f, -1.0f, 0.001f, -3.5f, 100.0f, 1e-30f, 1e-40f}) {
    Problem problem =
        make_problem({.heads = 2, .kv_heads = 1, .query_len = 27, .key_len = 70, .head_dim = 16, .value_dim = 16}, ++seed);
    problem.options.scale = scale;
    problem.options.causal = true;
    expect_right(problem);
  }
}

TEST(AttentionNumbers, EverySoftcap) {
  std::uint64_t seed = 20000;
  for (const float softcap : {1e-6f, 0.01f, 1.0f, 30.0f, 1e4f, 1e30f}) {
    for (const float scale : {0.01f, 1.0f, 50.0f}) {
      Problem problem =
          make_problem({.heads = 2, .kv_heads = 1, .query_len = 27, .key_len = 70, .head_dim = 16, .value_dim = 16}, ++seed);
      problem.options.softcap = softcap;
      problem.options.scale = scale;
      expect_right(problem);
    }
  }
  // 0 is off.
  Problem problem = make_problem({.query_len = 3, .key_len = 7, .head_dim = 4, .value_dim = 4}, 20100);
  for_each_target([&] {
    const Result off = run(problem);
    AttentionOptions zero;
    zero.softcap = 0.0f;
    EXPECT_TRUE(same_bits(off, run(problem.inputs.query, problem.inputs.key, problem.inputs.value, zero, DType::kF32)));
  });
}

// A finite bias is a number, however negative: it lowers a weight and hides nothing.
TEST(AttentionNumbers, FiniteBiasDoesNotHide) {
  Problem problem = uniform_problem({.query_len = 1, .key_len = 40, .head_dim = 4, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index j) { return static_cast<double>(j); });
  for (const double bias : {-1e4, -1e9, -1e30, static_cast<double>(std::numeric_limits<float>::lowest())}) {
    problem.set_bias(filled(DType::kF32, {40}, [&](Index) { return bias; }));
    for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {19.5}, 2e-6)) << bias; });
  }
}

}  // namespace
}  // namespace multihead::test
