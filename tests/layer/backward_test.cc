// Gradients of the layer against central differences of its definition in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "each_target.h"
#include "layer/central_difference.h"
#include "layer/gradient_products.h"
#include "layer/layer_test_util.h"
#include "multihead/layer_gradient.h"

namespace multihead {
namespace {

using test::derivative;

// A layer, its inputs, and a loss: the sum of its outputs, each times a number of its own.
struct Problem {
  LayerConfig config;
  LayerWeights weights;
  Tensor input, key_input, value_input;  // the last two empty in self attention, the last alone with a memory
  ForwardOptions options;
  Tensor factors;

  const Tensor& keys_from() const { return key_input.empty() ? input : key_input; }
  const Tensor& values_from() const { return value_input.empty() ? keys_from() : value_input; }

  static LayerWeights copy(const LayerWeights& from) {
    LayerWeights to;
    for (const auto& [target, source] : members(to, from)) {
      if (!source->empty()) *target = source->copy();
    }
    return to;
  }
  static std::vector<std::pair<Tensor*, const Tensor*>> members(LayerWeights& a, const LayerWeights& b) {
    return {{&a.query_weight, &b.query_weight},
            {&a.key_weight, &b.key_weight},
            {&a.value_weight, &b.value_weight},
            {&a.output_weight, &b.output_weight},
            {&a.query_bias, &b.query_bias},
            {&a.key_bias, &b.key_bias},
            {&a.value_bias, &b.value_bias},
            {&a.output_bias, &b.output_bias},
            {&a.query_norm, &b.query_norm},
            {&a.key_norm, &b.key_norm},
            {&a.query_norm_bias, &b.query_norm_bias},
            {&a.key_norm_bias, &b.key_norm_bias},
            {&a.sinks, &b.sinks},
            {&a.alibi_slopes, &b.alibi_slopes},
            {&a.relative_bias, &b.relative_bias}};
  }

  double loss() const {
    const MultiHeadAttention layer(config, copy(weights));
    const Tensor output = layer.reference_forward(input, keys_from(), values_from(), options);
    double sum = 0;
    for (Index i = 0; i < output.size(); ++i) sum += output.data<double>()[i] * load_as_double(factors, i);
    return sum;
  }
  LayerGradients gradients() const {
    const MultiHeadAttention layer(config, copy(weights));
    LayerTape tape;
    ForwardObservation seen;
    seen.tape = &tape;
    if (key_input.empty()) {
      layer.forward(input, options, seen);
      return layer_backward(layer, input, factors, tape, options);
    }
    if (value_input.empty()) {
      layer.forward(input, key_input, options, seen);
      return layer_backward(layer, input, key_input, factors, tape, options);
    }
    layer.forward(input, key_input, value_input, options, seen);
    return layer_backward(layer, input, key_input, value_input, factors, tape, options);
  }
};

Problem self_problem(const LayerConfig& config, bool with_bias, Index length = 6, Index batch = 2) {
  Problem problem;
  problem.config = config.resolved();
  problem.weights = random_weights(config, 3, with_bias);
  RandomNumbers random(17);
  problem.input = random.tensor({batch, length, problem.config.model_dim});
  problem.factors = random.tensor({batch, length, problem.config.output_dim});
  return problem;
}

// Every stride-th element of a tensor: each costs four passes in float64.
void expect_gradient(const char* name, Problem& problem, Tensor& tensor, const Tensor& gradient) {
  SCOPED_TRACE(name);
  ASSERT_EQ(gradient.empty(), tensor.empty());
  if (tensor.empty()) return;
  ASSERT_EQ(gradient.shape(), tensor.shape());
  double largest = 0.1;  // some gradients are 0, as that of a key bias, which moves all scores of a row alike
  for (Index i = 0; i < gradient.size(); ++i) largest = std::max(largest, std::abs(load_as_double(gradient, i)));
  const Index stride = std::max<Index>(1, tensor.size() / 12);
  for (Index i = 0; i < tensor.size(); i += stride) {
    const double expected = derivative(tensor, i, [&] { return problem.loss(); });
    EXPECT_NEAR(load_as_double(gradient, i), expected, 1e-5 * largest) << "element " << i;
  }
}

void expect_gradients(Problem problem) {
  LayerGradients gradients = problem.gradients();
  expect_gradient("input", problem, problem.input, gradients.input);
  expect_gradient("key input", problem, problem.key_input, gradients.key_input);
  expect_gradient("value input", problem, problem.value_input, gradients.value_input);
  const auto members = Problem::members(problem.weights, gradients.weights);
  for (std::size_t i = 0; i < members.size(); ++i)
    expect_gradient(("weight " + std::to_string(i)).c_str(), problem, *members[i].first, *members[i].second);
}

TEST(LayerBackward, SelfAttentionOnEveryTarget) {
  test::for_each_target([] {
    for (const bool with_bias : {false, true}) expect_gradients(self_problem(config_of(12, 3), with_bias));
  });
}

TEST(LayerBackward, GroupedHeadsOfAnotherSizeThanTheirValues) {
  expect_gradients(self_problem(config_of(10, 4,
                                          [](LayerConfig& c) {
                                            c.num_kv_heads = 2;
                                            c.head_dim = 6;
                                            c.value_dim = 3;
                                            c.output_dim = 7;
                                            c.causal = true;
                                          }),
                                true));
}

TEST(LayerBackward, WithDropout) {
  Problem problem = self_problem(config_of(12, 3, [](LayerConfig& c) { c.causal = true; }), true);
  problem.options.dropout = Dropout{0.3f, 11};
  const MultiHeadAttention layer(problem.config, Problem::copy(problem.weights));
  const Tensor output = layer.forward(problem.input, problem.options);
  EXPECT_LT(max_difference(output, layer.reference_forward(problem.input, problem.input, problem.options)), 1e-5);
  EXPECT_GT(max_difference(output, layer.forward(problem.input)), 1e-2);
  expect_gradients(std::move(problem));
}

TEST(LayerBackward, CrossAttention) {
  Problem problem = self_problem(config_of(8, 2,
                                           [](LayerConfig& c) {
                                             c.key_input_dim = 5;
                                             c.value_input_dim = 5;
                                           }),
                                 true);
  RandomNumbers random(5);
  problem.key_input = random.tensor({2, 9, 5});
  expect_gradients(std::move(problem));
}

TEST(LayerBackward, KeysAndValuesFromDifferentTensors) {
  Problem problem = self_problem(config_of(8, 2,
                                           [](LayerConfig& c) {
                                             c.key_input_dim = 5;
                                             c.value_input_dim = 3;
                                           }),
                                 false);
  RandomNumbers random(5);
  problem.key_input = random.tensor({2, 4, 5});
  problem.value_input = random.tensor({2, 4, 3});
  expect_gradients(std::move(problem));
}

TEST(LayerBackward, RotaryOfEveryKind) {
  for (const RotaryPairing pairing : {RotaryPairing::kHalfSplit, RotaryPairing::kInterleaved}) {
    for (const Index rotary_dim : {Index{0}, Index{4}}) {
      Problem problem = self_problem(config_of(16, 2,
                                               [&](LayerConfig& c) {
                                                 c.causal = true;
                                                 c.rotary = Rotary{.pairing = pairing, .rotary_dim = rotary_dim};
                                               }),
                                     false);
      problem.options.query_offset = 3;
      expect_gradients(std::move(problem));
    }
  }
  // An amplitude that is not 1.
  expect_gradients(self_problem(config_of(16, 2,
                                          [](LayerConfig& c) {
                                            c.rotary =
                                                Rotary{.scaling = YarnRotaryScaling{.factor = 4, .original_max_positions = 8}};
                                          }),
                                false));
}

TEST(LayerBackward, NormsOfEveryKindAndSpan) {
  for (const QueryKeyNorm::Kind kind : {QueryKeyNorm::Kind::kRms, QueryKeyNorm::Kind::kLayer}) {
    for (const int span : {0, 1, 2}) {
      const bool layer_norm = kind == QueryKeyNorm::Kind::kLayer;
      Problem problem = self_problem(config_of(12, 4,
                                               [&](LayerConfig& c) {
                                                 c.num_kv_heads = 2;
                                                 c.rotary = Rotary{.rotary_dim = 2};
                                                 c.query_key_norm = QueryKeyNorm{.kind = kind, .weight_plus_one = span == 1};
                                               }),
                                     true);
      RandomNumbers random(9);
      const auto weight = [&](Index heads) {
        const Index dim = problem.config.head_dim;
        return random.tensor(span == 0 ? Dims{dim} : span == 1 ? Dims{heads, dim} : Dims{heads * dim});
      };
      problem.weights.query_norm = weight(4);
      problem.weights.key_norm = weight(2);
      if (layer_norm) {
        problem.weights.query_norm_bias = weight(4);
        problem.weights.key_norm_bias = weight(2);
      }
      expect_gradients(std::move(problem));
    }
  }
}

TEST(LayerBackward, SinksSlopesCapsAndWindows) {
  Problem problem = self_problem(config_of(12, 3,
                                           [](LayerConfig& c) {
                                             c.alibi = true;
                                             c.softcap = 1.5F;
                                             c.window = Window{3, 1};
                                             c.scale = 0.7F;
                                           }),
                                 true);
  RandomNumbers random(2);
  problem.weights.sinks = random.tensor({3});
  problem.weights.alibi_slopes = random.tensor({3});
  problem.options.key_lengths = {6, 4};
  expect_gradients(std::move(problem));
}

TEST(LayerBackward, TheRelativeBiasAndOneMoreBeside) {
  for (const bool with_given : {false, true}) {
    for (const bool bidirectional : {false, true}) {
      Problem problem = self_problem(
          config_of(8, 2,
                    [&](LayerConfig& c) { c.relative_bias = RelativeBias{.max_distance = 6, .bidirectional = bidirectional}; }),
          false, 9);
      RandomNumbers random(2);
      problem.weights.relative_bias = random.tensor({8, 2});
      const Tensor given = random.tensor({2, 1, 9, 9});
      if (with_given) problem.options.attention_bias = given;
      expect_gradients(std::move(problem));
    }
  }
}

TEST(LayerBackward, ClampedNumbersGetNothing) {
  Problem problem = self_problem(config_of(12, 3,
                                           [](LayerConfig& c) {
                                             c.clip = 0.6F;
                                             c.rotary = Rotary{};
                                           }),
                                 true, 5);
  // Differences must not cross the edge of the clamp, where there is no derivative.
  const MultiHeadAttention layer(problem.config, Problem::copy(problem.weights));
  const LayerGradients gradients = problem.gradients();
  double largest = 0;
  int compared = 0;
  for (Index i = 0; i < gradients.input.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(gradients.input.data<float>()[i])));
  for (Index i = 0; i < problem.input.size(); i += 3) {
    const auto loss = [&] { return problem.loss(); };
    const double fine = derivative(problem.input, i, loss, 0x1p-14), finer = derivative(problem.input, i, loss, 0x1p-15);
    if (std::abs(fine - finer) > 1e-6 * largest) continue;  // an edge in between
    ++compared;
    EXPECT_NEAR(static_cast<double>(gradients.input.data<float>()[i]), fine, 2e-5 * largest) << i;
  }
  EXPECT_GT(compared, 30);
}

TEST(LayerBackward, SixteenBitWeightsAndInputs) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Problem problem = self_problem(config_of(12, 3), true);
    const Problem wide = self_problem(config_of(12, 3), true);
    problem.weights = random_weights(problem.config, 3, true, dtype);
    problem.input = Tensor::converted(problem.input, dtype);
    const LayerGradients narrow = problem.gradients();
    EXPECT_EQ(narrow.input.dtype(), DType::kF32);
    EXPECT_EQ(narrow.weights.query_weight.dtype(), DType::kF32);
    EXPECT_LT(max_difference(narrow.input, wide.gradients().input), dtype == DType::kF16 ? 0.02 : 0.15);
  }
}

TEST(LayerBackward, ThreadsChangeNoBit) {
  const Problem problem = self_problem(config_of(96, 6, [](LayerConfig& c) { c.causal = true; }), true, 130, 2);
  set_num_threads(1);
  const LayerGradients first = problem.gradients();
  for (const int threads : {2, 3, 7}) {
    set_num_threads(threads);
    LayerGradients now = problem.gradients();
    EXPECT_TRUE(same_bits(now.input, first.input)) << threads;
    for (const auto& [a, b] : Problem::members(now.weights, first.weights)) {
      if (a->empty()) continue;
      EXPECT_TRUE(same_bits(*a, *b)) << threads;
    }
  }
  set_num_threads(0);
}

TEST(LayerBackward, NothingInGivesNothingOut) {
  for (const auto& [batch, length] : {std::pair<Index, Index>{0, 5}, {2, 0}}) {
    const LayerGradients gradients = self_problem(config_of(12, 3), true, length, batch).gradients();
    EXPECT_EQ(gradients.input.shape(), (Dims{batch, length, 12}));
    for (Index i = 0; i < gradients.weights.query_weight.size(); ++i)
      EXPECT_EQ(gradients.weights.query_weight.data<float>()[i], 0.0F);
    EXPECT_EQ(gradients.weights.query_bias.data<float>()[0], 0.0F);
  }
}

TEST(LayerBackward, RefusesATapeOfAnotherCall) {
  const Problem problem = self_problem(config_of(12, 3), true);
  const MultiHeadAttention layer(problem.config, Problem::copy(problem.weights));
  LayerTape tape;
  EXPECT_NE(error_of([&] { layer_backward(layer, problem.input, problem.factors, tape); }).find("tape"), std::string::npos);
  ForwardObservation seen;
  seen.tape = &tape;
  layer.forward(problem.input.view().slice(1, 0, 5), {}, seen);
  EXPECT_NE(error_of([&] { layer_backward(layer, problem.input, problem.factors, tape); }).find("tape"), std::string::npos);
  layer.forward(problem.input, {}, seen);
  EXPECT_NE(
      error_of([&] { layer_backward(layer, problem.input, problem.factors.view().slice(1, 0, 5), tape); }).find("grad_output"),
      std::string::npos);
  Tensor lse(DType::kF32, {2, 3, 6});
  seen.lse = lse.view();
  layer.forward(problem.input, {}, seen);
  EXPECT_TRUE(same_bits(tape.lse, lse)) << "asked for by both";
}

TEST(GradientProducts, AgreeWithSumsInFloat64) {
  RandomNumbers random(4);
  for (const auto& [rows, terms, columns] :
       {std::array<Index, 3>{1, 1, 1}, {5, 7, 49}, {100, 300, 200}, {3, 0, 4}, {0, 3, 4}, {193, 129, 1}}) {
    const Tensor a = random.tensor({rows, terms}), b = random.tensor({terms, columns});
    Tensor a_transposed = Tensor::copy_of(a.view().transposed(0, 1));
    Tensor c(DType::kF32, {rows, columns}), d(DType::kF32, {rows, columns});
    multiply(a.data<float>(), b.data<float>(), rows, terms, columns, c.data<float>());
    multiply_transposed(a_transposed.data<float>(), b.data<float>(), rows, terms, columns, d.data<float>());
    EXPECT_TRUE(same_bits(c, d));
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) {
        double sum = 0;
        for (Index t = 0; t < terms; ++t) sum += load_as_double(a, i * terms + t) * load_as_double(b, t * columns + j);
        ASSERT_NEAR(static_cast<double>(c.data<float>()[i * columns + j]), sum, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace multihead
