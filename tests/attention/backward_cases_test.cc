// What went wrong in other systems' backward passes.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backward_checks.h"

namespace multihead::test {
namespace {

TEST(AttentionBackwardCases, O16SharedHeadsAreSummed) {
  const Problem problem =
      grid_problem({.heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 3, .head_dim = 2, .value_dim = 2});
  const Tensor grad = grid(problem.shape.output(), 4);
  const std::vector<double> key{0.275078041, 0.848028879,  -0.141616709, -0.465747161, -0.133461332, -0.382281718,
                                0.530429414, -0.621209231, -0.410287474, 0.508977833,  -0.120141941, 0.112231398};
  const std::vector<double> value{-0.115834955, -0.656845908, -0.194928704, -0.480312011, -0.314236341, -0.487842081,
                                  0.673341026,  0.264161591,  0.605601206,  0.246573481,  0.471057768,  0.239264928};
  Gradients exact = gradients_filled(problem, DType::kF64, DType::kF64, kNaN);
  reference_attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, grad, exact.views());
  EXPECT_TRUE(near(values_of(exact.key), key, 1e-9));
  EXPECT_TRUE(near(values_of(exact.value), value, 1e-9));
  for_each_target([&] {
    const Gradients got = run_backward(problem, grad);
    EXPECT_TRUE(near(values_of(got.key), key, 1e-6));
    EXPECT_TRUE(near(values_of(got.value), value, 1e-6));
  });
  Problem one = make_problem({.heads = 4, .kv_heads = 2, .head_dim = 2, .value_dim = 1}, 1);
  const Tensor grad_output = filled(DType::kF32, one.shape.output(), [](Index h) { return std::exp2(static_cast<double>(h)); });
  for_each_target([&] {
    const Gradients got = run_backward(one, grad_output);
    EXPECT_EQ(values_of(got.value), (std::vector<double>{3, 12}));
    EXPECT_EQ(values_of(got.query), std::vector<double>(8, 0));
    EXPECT_EQ(values_of(got.key), std::vector<double>(4, 0));
  });
}

TEST(AttentionBackwardCases, O25TheSameBitsEveryTime) {
  for (const bool causal : {false, true}) {
    Problem problem = grid_problem(
        {.batch = 2, .heads = 4, .kv_heads = 4, .query_len = 300, .key_len = 300, .head_dim = 64, .value_dim = 64});
    problem.options.causal = causal;
    const Tensor grad_output = grid(problem.shape.output(), 4);
    set_num_threads(1);
    const Gradients first = run_backward(problem, grad_output);
    for (const int threads : {1, 2, 3, 4}) {
      set_num_threads(threads);
      for (int repeat = 0; repeat < 5; ++repeat) {
        EXPECT_TRUE(same_bits(first, run_backward(problem, grad_output))) << threads << " threads";
      }
    }
    set_num_threads(0);
  }
}

TEST(AttentionBackwardCases, O33OnlyTheBias) {
  for (const Dims& shape : {Dims{1, 1, 64, 64}, Dims{1, 1, 1, 64}}) {
    Problem problem = grid_problem({.query_len = 64, .key_len = 64, .head_dim = 16, .value_dim = 16});
    problem.set_bias(grid(shape, 5));
    const Tensor grad_output = filled(DType::kF32, problem.shape.output(), [](Index) { return 1.0; });
    const ExactGradients exact = exact_backward(problem, grad_output);
    for_each_target([&] {
      const Result result = run(problem);
      Tensor bias = filled(DType::kF32, shape, [](Index) { return kNaN; });
      attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse, grad_output,
                         {{}, {}, {}, bias.view(), {}, {}}, problem.options);
      double largest = 0;
      for (Index n = 0; n < bias.size(); ++n) {
        const double want = exact.gradients.bias.data<double>()[n];
        EXPECT_NEAR(load_as_double(bias, n), want, 5e-6 * exact.magnitudes.bias.data<double>()[n]);
        largest = std::max(largest, std::abs(want));
      }
      EXPECT_GT(largest, 1e-3);
      // Each row of P (dP - D) sums to 0, and so does the sum of the rows.
      for (Index row = 0; row < shape[2]; ++row) {
        double sum = 0;
        for (Index j = 0; j < 64; ++j) sum += load_as_double(bias, row * 64 + j);
        EXPECT_NEAR(sum, 0, 2e-5);
      }
    });
  }
}

}  // namespace
}  // namespace multihead::test
