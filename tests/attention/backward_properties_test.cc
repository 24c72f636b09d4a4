// The fused gradients against the definition: every constraint and their combinations, sizes, types, layouts, emptiness.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "backward_checks.h"
#include "constraints.h"
#include "storage.h"

namespace multihead::test {
namespace {

TEST(AttentionBackward, EveryConstraint) {
  for_each_combination(1, 32000,
                       [](const Problem& problem, const std::string& name) { expect_right_backward(problem, 1, name); });
}

TEST(AttentionBackward, EveryPairOfConstraints) {
  for_each_combination(2, 32100,
                       [](const Problem& problem, const std::string& name) { expect_right_backward(problem, 2, name); });
}

// Three and more at a time: every seventh combination of three.
TEST(AttentionBackward, ThreeConstraintsAtATime) {
  int count = 0;
  for_each_combination(3, 33000, [&](const Problem& problem, const std::string& name) {
    if (++count % 7 == 0) expect_right_backward(problem, 3, name);
  });
}

TEST(AttentionBackward, OddSizes) {
  std::uint64_t seed = 34000;
  for (const Index queries : {1, 2, 23, 24, 25, 47, 95, 96, 97, 200}) {
    for (const Index keys : {1, 3, 5, 95, 96, 97, 385}) {
      const Index kv_heads = 1 + (queries + keys) % 2;
      Problem problem = make_problem({.heads = kv_heads * (1 + queries % 3),
                                      .kv_heads = kv_heads,
                                      .query_len = queries,
                                      .key_len = keys,
                                      .head_dim = 1 + (7 * queries + keys) % 37,
                                      .value_dim = 1 + (queries + 5 * keys) % 53},
                                     ++seed);
      problem.options.causal = (queries + keys) % 4 == 1;
      expect_right_backward(problem, seed);
    }
  }
}

TEST(AttentionBackward, EveryWidthOfAHead) {
  for (Index dim = 1; dim <= 80; ++dim) {
    Problem problem = make_problem({.query_len = 30, .key_len = 11, .head_dim = dim, .value_dim = 81 - dim},
                                   35000 + static_cast<std::uint64_t>(dim));
    expect_right_backward(problem, 5);
  }
  for (const Index dim : {256, 1000}) {
    Problem problem = make_problem({.query_len = 100, .key_len = 100, .head_dim = dim, .value_dim = dim}, 35100);
    problem.options.causal = true;
    expect_right_backward(problem, 6);
  }
}

TEST(AttentionBackward, FamiliesOfInputs) {
  for (const auto& [family, name] : kFamilies) {
    if (family == Family::kDenormal) continue;  // gradients among subnormal numbers have no relative accuracy
    const Problem problem =
        make_problem({.heads = 2, .kv_heads = 1, .query_len = 40, .key_len = 120, .head_dim = 16, .value_dim = 16}, 36000,
                     DType::kF32, family);
    expect_right_backward(problem, 7, name);
  }
}

TEST(AttentionBackward, EmptySizes) {
  const Shape plain{.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6};
  for (const auto member : {&Shape::batch, &Shape::query_len, &Shape::key_len, &Shape::head_dim, &Shape::value_dim}) {
    Shape shape = plain;
    shape.*member = 0;
    Problem problem = make_problem(shape, 37000);
    problem.options.scale = 0.5f;
    problem.options.sinks = {0.5f, 1.0f};
    expect_right_backward(problem, 8);
  }
  Problem none = make_problem(plain, 37001);
  none.options.key_lengths = {0, 4};
  expect_right_backward(none, 9);
}

// Results in any layout have the dense ones' bits, and nothing else is written.
TEST(AttentionBackward, AnyStrides) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 29, .key_len = 110, .head_dim = 20, .value_dim = 12}, 38000);
  Random random(38000);
  problem.options.causal = true;
  problem.set_bias(detail::bias(DType::kF32, {2, 1, 29, 110}, 0.1, random));
  const Tensor grad_output = grad_output_of(problem, 10);
  for_each_target([&] {
    const Result result = run(problem);
    const Gradients dense = run_backward(problem, grad_output);
    for (const auto& [layout, name] : kLayouts) {
      const Stored query(problem.inputs.query, layout), key(problem.inputs.key, layout), value(problem.inputs.value, layout);
      const Stored output(result.output, layout), lse(result.lse, layout), grad(grad_output, layout);
      const Stored grad_query(dense.query, layout), grad_key(dense.key, layout), grad_value(dense.value, layout);
      const Stored grad_bias(dense.bias, layout);
      for (const Stored* stored : {&grad_query, &grad_key, &grad_value, &grad_bias}) {
        for (const Index offset : Stored::offsets_of(stored->view())) set_element(stored->view(), offset, kNaN);
      }
      attention_backward(query, key, value, output, lse, grad,
                         {grad_query.view(), grad_key.view(), grad_value.view(), grad_bias.view(), {}, {}}, problem.options);
      EXPECT_TRUE(same_bits(grad_query, dense.query)) << name << " query";
      EXPECT_TRUE(same_bits(grad_key, dense.key)) << name << " key";
      EXPECT_TRUE(same_bits(grad_value, dense.value)) << name << " value";
      EXPECT_TRUE(same_bits(grad_bias, dense.bias)) << name << " bias";
      for (const Stored* stored : {&grad_query, &grad_key, &grad_value, &grad_bias}) {
        EXPECT_TRUE(stored->surroundings_intact()) << name;
      }
    }
  });
}

TEST(AttentionBackward, SixteenBitsAreSummedInF32) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Problem problem = make_problem(
        {.heads = 4, .kv_heads = 1, .query_len = 150, .key_len = 200, .head_dim = 32, .value_dim = 24}, 39000, dtype);
    problem.output_dtype = DType::kF32;  // output and gradients: held to the bounds of f32
    expect_right_backward(problem, 11);
    problem.output_dtype = dtype;
    expect_right_backward(problem, 12);
  }
}

// What is wanted does not depend on what else is.
TEST(AttentionBackward, EachGradientAlone) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 30, .key_len = 120, .head_dim = 12, .value_dim = 9}, 39100);
  Random random(39100);
  problem.set_bias(detail::bias(DType::kF32, {30, 120}, 0.2, random));
  problem.options.alibi_slopes = {0.5f, 0.25f};
  problem.options.sinks = {0.5f, -1.0f};
  const Tensor grad_output = grad_output_of(problem, 13);
  for_each_target([&] {
    const Result result = run(problem);
    const Gradients all = run_backward(problem, grad_output);
    for (int which = 0; which < 6; ++which) {
      Gradients one = gradients_filled(problem, DType::kF32, DType::kF32, kNaN);
      AttentionGradients wanted, views = one.views();
      const std::array members{&AttentionGradients::query,        &AttentionGradients::key,
                               &AttentionGradients::value,        &AttentionGradients::attention_bias,
                               &AttentionGradients::alibi_slopes, &AttentionGradients::sinks};
      const auto member = members[static_cast<std::size_t>(which)];
      wanted.*member = views.*member;
      attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse, grad_output,
                         wanted, problem.options);
      const auto index = static_cast<std::size_t>(which);
      EXPECT_TRUE(same_bits(*one.named()[index].second, *all.named()[index].second)) << one.named()[index].first;
    }
  });
}

}  // namespace
}  // namespace multihead::test
