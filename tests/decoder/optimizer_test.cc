#include <gtest/gtest.h>

#include "decoder/tiny_decoder.h"
#include "multihead/training.h"

namespace multihead {
namespace {

// AdamW as in its paper, in float64, for one number.
struct OneNumber {
  double weight, mean = 0, square = 0;
  void step(const OptimizerConfig& c, double gradient, double rate, double decay, int t) {
    mean = c.beta1 * mean + (1 - c.beta1) * gradient;
    square = c.beta2 * square + (1 - c.beta2) * gradient * gradient;
    const double m = mean / (1 - std::pow(c.beta1, t)), v = square / (1 - std::pow(c.beta2, t));
    weight -= rate * (m / (std::sqrt(v) + c.epsilon) + decay * weight);
  }
};

TEST(LearningRate, WarmsUpAndFallsAlongACosine) {
  const OptimizerConfig config{.steps = 101, .warmup = 10, .learning_rate = 2, .final_rate = 0.25};
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 9), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 10), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 55), (2 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1000), 0.5);
  const OptimizerConfig all_warmup{.steps = 5, .warmup = 5, .learning_rate = 1};
  EXPECT_DOUBLE_EQ(learning_rate_at(all_warmup, 4), 1);
}

TEST(Optimizer, AgreesWithItsPaper) {
  const OptimizerConfig config{.steps = 20, .warmup = 3, .learning_rate = 0.05, .weight_decay = 0.2, .clip = 0};
  DecoderWeights weights = test::tiny_weights({}, 1);
  OptimizerState state = start_optimizer(weights);
  // A matrix decays, a norm does not.
  OneNumber matrix{load_as_double(weights.embedding, 5)}, norm{load_as_double(weights.final_norm, 2)};
  for (int t = 1; t <= 20; ++t) {
    const DecoderWeights gradients = test::tiny_weights({}, static_cast<std::uint64_t>(100 + t));
    const double rate = learning_rate_at(config, t - 1);
    matrix.step(config, load_as_double(gradients.embedding, 5), rate, 0.2, t);
    norm.step(config, load_as_double(gradients.final_norm, 2), rate, 0, t);
    optimizer_step(config, weights, gradients, state);
    EXPECT_EQ(state.step, t);
    EXPECT_NEAR(load_as_double(weights.embedding, 5), matrix.weight, 1e-6) << t;
    EXPECT_NEAR(load_as_double(weights.final_norm, 2), norm.weight, 1e-6) << t;
  }
}

TEST(Optimizer, ClipsTheNormOfAllTogether) {
  DecoderWeights gradients = test::tiny_weights({}, 4);
  double squares = 0;
  for_each_weight(gradients, [&](const std::string&, Tensor& tensor) {
    for (Index i = 0; i < tensor.size(); ++i) squares += load_as_double(tensor, i) * load_as_double(tensor, i);
  });
  const auto first_mean = [&](double clip) {
    DecoderWeights weights = test::tiny_weights({}, 1);
    OptimizerState state = start_optimizer(weights);
    EXPECT_NEAR(optimizer_step({.clip = clip}, weights, gradients, state), std::sqrt(squares), 1e-6 * std::sqrt(squares));
    return load_as_double(state.mean.embedding, 3);
  };
  const double plain = 0.1 * load_as_double(gradients.embedding, 3);
  EXPECT_NEAR(first_mean(0), plain, 1e-7);
  EXPECT_NEAR(first_mean(2 * std::sqrt(squares)), plain, 1e-7);
  EXPECT_NEAR(first_mean(0.5), plain * 0.5 / std::sqrt(squares), 1e-7);
}

TEST(Optimizer, AGradientThatIsNotFiniteChangesNoWeight) {
  DecoderWeights weights = test::tiny_weights({}, 1), gradients = test::tiny_weights({}, 4);
  OptimizerState state = start_optimizer(weights);
  gradients.final_norm.data<float>()[1] = NAN;
  EXPECT_FALSE(std::isfinite(optimizer_step({}, weights, gradients, state)));
  const DecoderWeights before = test::tiny_weights({}, 1);
  for (Index i = 0; i < before.embedding.size(); ++i)
    ASSERT_EQ(weights.embedding.data<float>()[i], before.embedding.data<float>()[i]);
  EXPECT_EQ(state.mean.embedding.data<float>()[0], 0.0F);
}

TEST(Optimizer, Refusals) {
  for (const OptimizerConfig& config : {OptimizerConfig{.steps = 0},
                                        {.steps = 5, .warmup = 6},
                                        {.learning_rate = 0},
                                        {.learning_rate = INFINITY},
                                        {.final_rate = 2},
                                        {.beta1 = 1},
                                        {.beta2 = -0.1},
                                        {.epsilon = 0},
                                        {.weight_decay = -1},
                                        {.clip = NAN}}) {
    EXPECT_THROW(check_optimizer(config), InvalidArgument);
  }
  DecoderWeights weights = test::tiny_weights({}, 1);
  OptimizerState state = start_optimizer(weights);
  EXPECT_THROW(optimizer_step({}, weights, test::tiny_weights({.tied = false}, 1), state), InvalidArgument);
  EXPECT_THROW(optimizer_step({}, weights, test::tiny_weights({.hidden_dim = 30}, 1), state), InvalidArgument);
  EXPECT_THROW(start_optimizer(test::tiny_weights({}, 1, DType::kF16)), InvalidArgument);
}

}  // namespace
}  // namespace multihead
