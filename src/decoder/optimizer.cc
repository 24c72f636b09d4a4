#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/message.h"
#include "base/parallel.h"
#include "multihead/training.h"

namespace multihead {
namespace {

constexpr Index kPiece = 1 << 14;

std::vector<Tensor*> tensors_of(DecoderWeights& weights) {
  std::vector<Tensor*> tensors;
  for_each_weight(weights, [&](const std::string&, Tensor& tensor) { tensors.push_back(&tensor); });
  return tensors;
}

std::vector<const Tensor*> tensors_of(const DecoderWeights& weights) {
  std::vector<const Tensor*> tensors;
  for_each_weight(weights, [&](const std::string&, const Tensor& tensor) { tensors.push_back(&tensor); });
  return tensors;
}

// The norm of all gradients together; in float64, in one order.
double norm_of(const std::vector<const Tensor*>& gradients) {
  double sum = 0;
  for (const Tensor* gradient : gradients) {
    const float* g = gradient->data<float>();
    double part = 0;
    for (Index i = 0, count = gradient->size(); i < count; ++i) part += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    sum += part;
  }
  return std::sqrt(sum);
}

// Numbers of one step. With t the step from 1: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
// w = w - rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w).
struct Step {
  float scale, beta1, beta2, rate, mean_factor, square_factor, epsilon, decay;
};

void update(const Step& step, const Tensor& gradient, Tensor& weight, Tensor& mean, Tensor& square) {
  const float decay = weight.rank() > 1 ? step.decay : 0;
  const Index count = weight.size(), pieces = (count + kPiece - 1) / kPiece;
  const float* g = gradient.data<float>();
  float *w = weight.data<float>(), *m = mean.data<float>(), *v = square.data<float>();
  parallel_for(pieces, threads_for(pieces), [&](Index piece, int) {
    for (Index i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) {
      const float scaled = g[i] * step.scale;
      m[i] = step.beta1 * m[i] + (1 - step.beta1) * scaled;
      v[i] = step.beta2 * v[i] + (1 - step.beta2) * scaled * scaled;
      const float direction = m[i] * step.mean_factor / (std::sqrt(v[i] * step.square_factor) + step.epsilon);
      w[i] -= step.rate * (direction + decay * w[i]);
    }
  });
}

}  // namespace

void check_optimizer(const OptimizerConfig& c) {
  constexpr const char* kFunction = "optimizer";
  const auto positive = [&](const char* name, double value) {
    require(std::isfinite(value) && value > 0, kFunction, ": ", name, ": expected a positive number; got ", value);
  };
  const auto fraction = [&](const char* name, double value) {
    require(value >= 0 && value < 1, kFunction, ": ", name, ": expected a number from 0, below 1; got ", value);
  };
  require(c.steps > 0, kFunction, ": steps: expected a positive number; got ", c.steps);
  require(c.warmup >= 0 && c.warmup <= c.steps, kFunction, ": warmup: expected 0 to ", c.steps, " steps; got ", c.warmup);
  positive("learning_rate", c.learning_rate);
  require(c.final_rate >= 0 && c.final_rate <= 1, kFunction, ": final_rate: expected 0 to 1; got ", c.final_rate);
  fraction("beta1", c.beta1);
  fraction("beta2", c.beta2);
  positive("epsilon", c.epsilon);
  require(std::isfinite(c.weight_decay) && c.weight_decay >= 0, kFunction, ": weight_decay: expected a number from 0; got ",
          c.weight_decay);
  require(std::isfinite(c.clip) && c.clip >= 0, kFunction, ": clip: expected a number from 0; got ", c.clip);
}

double learning_rate_at(const OptimizerConfig& config, Index step) {
  if (step < config.warmup) return config.learning_rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup);
  const auto rest = static_cast<double>(std::max<Index>(1, config.steps - 1 - config.warmup));
  const double done = std::min(1.0, static_cast<double>(step - config.warmup) / rest);
  const double height = (1 + std::cos(std::numbers::pi * done)) / 2;
  return config.learning_rate * (config.final_rate + (1 - config.final_rate) * height);
}

OptimizerState start_optimizer(const DecoderWeights& weights) {
  OptimizerState state{0, copy_weights(weights), copy_weights(weights)};
  for (DecoderWeights* part : {&state.mean, &state.square}) {
    for (Tensor* tensor : tensors_of(*part)) {
      require(tensor->dtype() == DType::kF32, "start_optimizer: expected f32 weights; got ", name_of(tensor->dtype()));
      std::fill_n(tensor->data<float>(), tensor->size(), 0.0F);
    }
  }
  return state;
}

double optimizer_step(const OptimizerConfig& config, DecoderWeights& weights, const DecoderWeights& gradients,
                      OptimizerState& state) {
  const auto w = tensors_of(weights), m = tensors_of(state.mean), v = tensors_of(state.square);
  const auto g = tensors_of(gradients);
  require(w.size() == g.size() && w.size() == m.size() && w.size() == v.size(), "optimizer_step: expected gradients of ",
          w.size(), " weights; got ", g.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    require(w[i]->shape() == g[i]->shape() && w[i]->shape() == m[i]->shape() && w[i]->shape() == v[i]->shape(),
            "optimizer_step: expected a gradient ", w[i]->shape(), "; got ", g[i]->shape());
  }
  const double norm = norm_of(g), rate = learning_rate_at(config, state.step);
  const auto number = static_cast<double>(++state.step);
  if (!std::isfinite(norm)) return norm;
  const double scale = config.clip > 0 && norm > config.clip ? config.clip / norm : 1;
  const Step step{static_cast<float>(scale),
                  static_cast<float>(config.beta1),
                  static_cast<float>(config.beta2),
                  static_cast<float>(rate),
                  static_cast<float>(1 / (1 - std::pow(config.beta1, number))),
                  static_cast<float>(1 / (1 - std::pow(config.beta2, number))),
                  static_cast<float>(config.epsilon),
                  static_cast<float>(config.weight_decay)};
  for (std::size_t i = 0; i < w.size(); ++i) update(step, *g[i], *w[i], *m[i], *v[i]);
  return norm;
}

}  // namespace multihead
