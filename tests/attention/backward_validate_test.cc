// What attention_backward refuses, before it writes anything.
#include <gtest/gtest.h>

#include "backward_checks.h"

namespace multihead::test {
namespace {

void expect_refused(const Problem& problem, const AttentionGradients& gradients, const std::string& part) {
  const Result result = run(problem);
  try {
    attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse,
                       grad_output_of(problem, 1), gradients, problem.options);
    FAIL() << "not refused: " << part;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).rfind("attention_backward: ", 0), 0u) << error.what();
  }
}

TEST(AttentionBackwardValidate, GradientsOfWhatIsNotThere) {
  const Problem problem = make_problem({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 4}, 1);
  Tensor bias(DType::kF32, {4}), heads(DType::kF32, {2});
  AttentionGradients gradients;
  gradients.attention_bias = bias.view();
  expect_refused(problem, gradients, "options.attention_bias is not there");
  gradients = {};
  gradients.alibi_slopes = heads.view();
  expect_refused(problem, gradients, "options.alibi_slopes is not there");
  gradients = {};
  gradients.sinks = heads.view();
  expect_refused(problem, gradients, "options.sinks is not there");
}

TEST(AttentionBackwardValidate, ShapesTypesAndOverlap) {
  Problem problem = make_problem({.heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6}, 2);
  problem.set_bias(Tensor(DType::kF32, {3, 4}));
  Tensor key(DType::kF32, {1, 2, 4, 5}), query(DType::kF64, {1, 2, 3, 5}), bias(DType::kF32, {1, 1, 3, 4}),
      value(DType::kF32, {6});
  AttentionGradients gradients;
  gradients.key = key.view();
  expect_refused(problem, gradients, "expected gradients.key of shape [1, 1, 4, 5]; got [1, 2, 4, 5]");
  gradients = {};
  gradients.query = query.view();
  expect_refused(problem, gradients, "gradients.query of f32 or f16 or bf16; got f64");
  gradients = {};
  gradients.attention_bias = bias.view();
  expect_refused(problem, gradients, "gradients.attention_bias of shape [3, 4]; got [1, 1, 3, 4]");
  gradients = {};
  gradients.value = TensorView(value.data<float>(), DType::kF32, {1, 1, 4, 6}, {0, 0, 0, 1});
  expect_refused(problem, gradients, "would write two elements to one place");
}

TEST(AttentionBackwardValidate, InputsOfOtherShapes) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6}, 3);
  const Result result = run(problem);
  const Tensor right = grad_output_of(problem, 1), wrong(DType::kF32, {1, 2, 3, 5});
  const auto call = [&](const Tensor& output, const Tensor& lse, const Tensor& grad) {
    attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, lse, grad, {});
  };
  EXPECT_THROW(call(wrong, result.lse, right), InvalidArgument);
  EXPECT_THROW(call(result.output, result.lse, wrong), InvalidArgument);
  EXPECT_THROW(call(result.output, Tensor(DType::kF32, {1, 2, 4}), right), InvalidArgument);
  EXPECT_NO_THROW(call(result.output, result.lse, right));
}

}  // namespace
}  // namespace multihead::test
