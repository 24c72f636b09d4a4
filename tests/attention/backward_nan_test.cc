// What is not visible contributes nothing to any gradient, whatever the memory holds; what is visible propagates.
#include <gtest/gtest.h>

#include "backward_checks.h"
#include "constraints.h"

namespace multihead::test {
namespace {

const Shape kShape{.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 60, .key_len = 130, .head_dim = 20, .value_dim = 12};

void poison_row(Tensor& tensor, Index row, double value = kNaN) {
  const Index width = tensor.shape()[3];
  for (Index t = 0; t < width; ++t) set_element(tensor, row * width + t, value);
}

// Keys that nobody sees hold NaN and infinities: no bit of a gradient changes.
TEST(AttentionBackwardNan, HiddenKeys) {
  for (int variant = 0; variant < 3; ++variant) {
    Problem clean = make_problem(kShape, 40000);
    if (variant == 0) clean.options.key_lengths = {100, 100};
    if (variant == 1) clean.set_mask(filled(DType::kBool, {kShape.key_len}, [](Index j) { return j < 100 ? 1.0 : 0.0; }));
    if (variant == 2) clean.set_bias(filled(DType::kF32, {kShape.key_len}, [](Index j) { return j < 100 ? 0.0 : -kInfinity; }));
    Problem poisoned = make_problem(kShape, 40000);
    poisoned.options = clean.options;
    if (variant != 0) {
      for (Tensor* tensor : {&clean.inputs.key, &clean.inputs.value}) {
        for (Index row = 0; row < 4 * kShape.key_len; ++row) {
          if (row % kShape.key_len >= 100) poison_row(*tensor, row, 1.0);
        }
      }
    }
    for (Tensor* tensor : {&poisoned.inputs.key, &poisoned.inputs.value}) {
      for (Index row = 0; row < 4 * kShape.key_len; ++row) {
        if (row % kShape.key_len >= 100) poison_row(*tensor, row, row % 2 == 0 ? kNaN : kInfinity);
      }
    }
    const Tensor grad_output = grad_output_of(clean, 1);
    for_each_target([&] {
      EXPECT_TRUE(same_bits(run_backward(clean, grad_output), run_backward(poisoned, grad_output))) << "variant " << variant;
    });
  }
}

// Single hidden pairs of rows that are otherwise seen, in every combination of poisoned tensors, against the definition.
TEST(AttentionBackwardNan, HiddenPairs) {
  for (int which = 0; which < 16; ++which) {
    Problem problem = make_problem(kShape, 40100);
    problem.options.causal = true;
    problem.options.softcap = which % 3 == 0 ? std::optional<float>(2.0f) : std::nullopt;
    Tensor grad_output = grad_output_of(problem, 2);
    if (which & 1) poison_row(problem.inputs.key, 120);
    if (which & 2) poison_row(problem.inputs.value, 124);
    if (which & 4) poison_row(problem.inputs.query, 13);
    if (which & 8) poison_row(grad_output, 7);
    const ExactGradients exact = exact_backward(problem, grad_output);
    for_each_target([&] { EXPECT_TRUE(within_contract(exact, run_backward(problem, grad_output))) << "tensors " << which; });
  }
}

// Rows that see nothing, with NaN in their query and their grad_output.
TEST(AttentionBackwardNan, RowsThatSeeNothing) {
  Problem problem = make_problem(kShape, 40200);
  problem.options.causal = true;
  problem.options.query_offsets = {-20};
  problem.options.sinks = {0.5f, -HUGE_VALF, 1.0f, -2.0f};
  Tensor grad_output = grad_output_of(problem, 3);
  for (Index plane = 0; plane < 8; ++plane) {
    for (const Index i : {0, 5, 19}) {
      poison_row(problem.inputs.query, plane * kShape.query_len + i);
      poison_row(grad_output, plane * kShape.query_len + i);
    }
  }
  const ExactGradients exact = exact_backward(problem, grad_output);
  for_each_target([&] {
    const Gradients got = run_backward(problem, grad_output);
    EXPECT_TRUE(within_contract(exact, got));
    for (const auto& [name, tensor] : got.named()) {
      for (Index n = 0; n < tensor->size() && tensor->rank() > 0; ++n) {
        ASSERT_TRUE(std::isfinite(load_as_double(*tensor, n))) << name << " " << n;
      }
    }
    for (Index i = 0; i < 20 * kShape.head_dim; ++i) EXPECT_EQ(load_as_double(got.query, i), 0);
  });
}

// A score whose product overflows where it is hidden.
TEST(AttentionBackwardNan, HiddenOverflow) {
  Problem problem = make_problem(kShape, 40300);
  problem.options.causal = true;
  Tensor grad_output = grad_output_of(problem, 4);
  poison_row(problem.inputs.value, 125, 1e30);
  poison_row(grad_output, 3, 1e30);
  for_each_target([&] {
    const Gradients got = run_backward(problem, grad_output);
    for (Index t = 0; t < 3 * kShape.head_dim; ++t) EXPECT_TRUE(std::isfinite(load_as_double(got.query, t)));
    for (Index t = 0; t < kShape.head_dim; ++t) {
      EXPECT_TRUE(std::isfinite(load_as_double(got.key, 125 * kShape.head_dim + t)));
    }
  });
}

}  // namespace
}  // namespace multihead::test
