// Gradients' bits do not depend on the number of threads, on batch neighbours or on who calls.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backward_checks.h"
#include "constraints.h"

namespace multihead::test {
namespace {

void expect_same_on_any_threads(const Problem& problem) {
  const Tensor grad_output = grad_output_of(problem, 1);
  for_each_target([&] {
    const Gradients one = run_backward(problem, grad_output);
    for (const int threads : {2, 3, 4, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(one, run_backward(problem, grad_output))) << threads << " threads; " << to_string(problem.shape);
    }
    set_num_threads(1);
  });
}

TEST(AttentionBackwardDeterminism, AnyNumberOfThreads) {
  for (const bool causal : {false, true}) {
    for (const Index length : {97, 500, 1000}) {
      Problem one = make_problem({.query_len = length, .key_len = length, .head_dim = 24, .value_dim = 40}, 41000);
      one.options.causal = causal;
      expect_same_on_any_threads(one);
    }
    Problem groups = make_problem(
        {.batch = 2, .heads = 6, .kv_heads = 2, .query_len = 150, .key_len = 400, .head_dim = 16, .value_dim = 16}, 41001);
    groups.options.causal = causal;
    groups.options.window = Window{170, std::nullopt};
    expect_same_on_any_threads(groups);
  }
}

// Gradients that several heads, batch entries or chunks of keys share.
TEST(AttentionBackwardDeterminism, SharedGradients) {
  const Shape shape{.batch = 3, .heads = 4, .kv_heads = 2, .query_len = 60, .key_len = 300, .head_dim = 16, .value_dim = 8};
  const std::vector<Dims> shapes{{300}, {60, 300}, {60, 1}, {1, 1, 1, 1}, {1, 4, 1, 1}, {3, 1, 60, 300}, {3, 4, 1, 1}};
  for (const Dims& bias : shapes) {
    Problem problem = make_problem(shape, 41100);
    Random random(41100);
    problem.set_bias(detail::bias(DType::kF32, bias, 0, random));
    problem.options.alibi_slopes = alibi_slopes(4);
    problem.options.sinks = {0, 1, 2, 3};
    expect_same_on_any_threads(problem);
  }
}

TEST(AttentionBackwardDeterminism, SharedGradientsOfPackedSequences) {
  for (const Dims& bias : std::vector<Dims>{{300}, {1}, {250, 1}}) {
    Problem problem =
        make_problem({.heads = 2, .kv_heads = 1, .query_len = 250, .key_len = 300, .head_dim = 16, .value_dim = 8}, 41200);
    Random random(41200);
    problem.options.packed = PackedSequences{{0, 100, 120, 250}, {0, 110, 290, 300}};
    problem.set_bias(detail::bias(DType::kF32, bias, 0, random));
    problem.options.alibi_slopes = alibi_slopes(2);
    expect_same_on_any_threads(problem);
  }
}

// Each head of each batch entry on its own gives the bits that it has among the others.
TEST(AttentionBackwardDeterminism, NeighboursDoNotMix) {
  const Problem problem = make_problem(
      {.batch = 3, .heads = 4, .kv_heads = 2, .query_len = 110, .key_len = 210, .head_dim = 20, .value_dim = 20}, 41300);
  const Tensor grad_output = grad_output_of(problem, 2);
  for_each_target([&] {
    const Gradients all = run_backward(problem, grad_output);
    for (Index b = 0; b < 3; ++b) {
      for (Index h = 0; h < 2; ++h) {
        const auto part = [&](const Tensor& tensor, Index heads) {
          return ConstTensorView(tensor.view().slice(0, b, b + 1).slice(1, h * heads, (h + 1) * heads));
        };
        Problem one;
        one.shape = problem.shape;
        one.shape.batch = 1, one.shape.heads = 2, one.shape.kv_heads = 1;
        one.inputs = {Tensor::copy_of(part(problem.inputs.query, 2)), Tensor::copy_of(part(problem.inputs.key, 1)),
                      Tensor::copy_of(part(problem.inputs.value, 1))};
        const Gradients got = run_backward(one, Tensor::copy_of(part(grad_output, 2)));
        EXPECT_TRUE(same_bits(got.query, part(all.query, 2)));
        EXPECT_TRUE(same_bits(got.key, part(all.key, 1)));
        EXPECT_TRUE(same_bits(got.value, part(all.value, 1)));
      }
    }
  });
}

TEST(AttentionBackwardDeterminism, ManyCallersAtOnce) {
  Problem problem = make_problem({.query_len = 300, .key_len = 400, .head_dim = 16, .value_dim = 16}, 41400);
  problem.options.causal = true;
  const Tensor grad_output = grad_output_of(problem, 3);
  set_num_threads(3);
  const Gradients expected = run_backward(problem, grad_output);
  std::vector<Gradients> got(4);
  std::vector<std::thread> callers;
  for (Gradients& mine : got) callers.emplace_back([&] { mine = run_backward(problem, grad_output); });
  for (std::thread& caller : callers) caller.join();
  for (const Gradients& mine : got) EXPECT_TRUE(same_bits(expected, mine));
  set_num_threads(0);
}

}  // namespace
}  // namespace multihead::test
