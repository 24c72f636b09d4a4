// The reference's gradients against central differences of the reference's output.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "backward_checks.h"
#include "constraints.h"

namespace multihead::test {
namespace {

// sum(grad_output * output) in float64.
double loss_of(const Problem& problem, const Tensor& grad_output) {
  Tensor output(DType::kF64, problem.shape.output());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options);
  double loss = 0;
  for (Index n = 0; n < output.size(); ++n) loss += load_as_double(grad_output, n) * output.data<double>()[n];
  return loss;
}

// d loss / d x by the difference of fourth order. The step is a power of two and inputs are multiples of 1/8, so that x plus
// and minus steps are exact in f32.
double difference(float& x, const std::function<double()>& loss) {
  constexpr float kStep = 0x1p-9f;
  const float at = x;
  const auto loss_at = [&](float steps) {
    x = at + steps * kStep;
    return loss();
  };
  const double slope = (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * static_cast<double>(kStep));
  x = at;
  return slope;
}

void expect_differences(Problem& problem, const Tensor& grad_output, const std::string& name) {
  Gradients exact = gradients_filled(problem, DType::kF64, DType::kF64, kNaN);
  reference_attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, grad_output, exact.views(),
                               problem.options);
  const auto check = [&](const char* what, const Tensor& gradient, float* values) {
    double largest = 0;
    for (Index n = 0; n < gradient.size(); ++n) largest = std::max(largest, std::abs(gradient.data<double>()[n]));
    for (Index n = 0; n < gradient.size(); ++n) {
      if (!std::isfinite(values[n])) {
        EXPECT_EQ(gradient.data<double>()[n], 0) << name << ": " << what << " " << n;
        continue;
      }
      const double measured = difference(values[n], [&] { return loss_of(problem, grad_output); });
      EXPECT_NEAR(gradient.data<double>()[n], measured, 1e-6 * std::max(largest, 1e-3)) << name << ": " << what << " " << n;
    }
  };
  check("query", exact.query, problem.inputs.query.data<float>());
  check("key", exact.key, problem.inputs.key.data<float>());
  check("value", exact.value, problem.inputs.value.data<float>());
  if (exact.bias.rank() > 0) check("bias", exact.bias, problem.bias.data<float>());
  if (exact.slopes.rank() > 0) check("slopes", exact.slopes, problem.options.alibi_slopes.data());
  if (exact.sinks.rank() > 0) check("sinks", exact.sinks, problem.options.sinks.data());
}

Tensor eighths(const Dims& shape, double hidden, Random& random) {
  return filled(DType::kF32, shape,
                [&](Index) { return random.chance(hidden) ? -kInfinity : static_cast<double>(random.between(-11, 11)) / 8; });
}

// Every subset of what can be asked for, on small calls.
TEST(AttentionBackwardReference, CentralDifferences) {
  for (unsigned variant = 0; variant < 64; ++variant) {
    Random random(31000 + variant);
    const Index kv_heads = random.between(1, 2);
    Problem problem = grid_problem({.batch = random.between(1, 2),
                                    .heads = kv_heads * random.between(1, 2),
                                    .kv_heads = kv_heads,
                                    .query_len = random.between(1, 4),
                                    .key_len = random.between(1, 5),
                                    .head_dim = random.between(1, 3),
                                    .value_dim = random.between(1, 3)});
    const Shape& s = problem.shape;
    std::string name = to_string(s);
    const auto with = [&](unsigned bit, const char* what) {
      if ((variant >> bit) % 2 == 0) return false;
      name += std::string("; ") + what;
      return true;
    };
    if (with(0, "softcap")) problem.options.softcap = 1.5f;
    if (with(1, "causal, window")) problem.options.causal = true, problem.options.window = Window{2, 1};
    if (with(2, "bias")) {
      const std::array shapes{s.scores(),
                              Dims{s.query_len, s.key_len},
                              Dims{s.key_len},
                              Dims{1, s.heads, 1, s.key_len},
                              Dims{s.batch, 1, s.query_len, 1},
                              Dims{1, 1, 1, 1}};
      problem.set_bias(eighths(shapes[variant % shapes.size()], variant % shapes.size() == 5 ? 0 : 0.2, random));
    }
    if (with(3, "slopes, sinks")) {
      for (Index h = 0; h < s.heads; ++h) {
        problem.options.alibi_slopes.push_back(static_cast<float>(random.between(-4, 8)) / 8);
        problem.options.sinks.push_back(h == 1 ? -HUGE_VALF : static_cast<float>(random.between(-8, 8)) / 8);
      }
    }
    if (with(4, "mask, scale")) {
      problem.set_mask(random_mask(s.scores(), 0.7, random));
      problem.options.scale = -0.75f;
    }
    if (with(5, "dropout")) problem.options.dropout = Dropout{0.4f, variant};
    expect_differences(problem, grid(s.output(), 4), name);
  }
}

TEST(AttentionBackwardReference, PackedSequencesAndKeyLengths) {
  Problem packed = grid_problem({.heads = 2, .kv_heads = 1, .query_len = 5, .key_len = 6, .head_dim = 2, .value_dim = 3});
  packed.options.packed = PackedSequences{{0, 2, 2, 5}, {0, 3, 4, 6}};
  packed.options.causal = true;
  expect_differences(packed, grid(packed.shape.output(), 4), "packed");
  Problem lengths =
      grid_problem({.batch = 3, .heads = 2, .kv_heads = 2, .query_len = 2, .key_len = 4, .head_dim = 2, .value_dim = 1});
  lengths.options.key_lengths = {4, 0, 2};
  expect_differences(lengths, grid(lengths.shape.output(), 4), "key lengths");
}

}  // namespace
}  // namespace multihead::test
