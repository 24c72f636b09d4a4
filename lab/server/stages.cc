#include "lab/server/stages.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "multihead/capture.h"
#include "multihead/error.h"

namespace multihead::lab {
namespace {

// f32 coefficients of equal heads are equal; of heads that are equal up to rounding of their projections, nearly.
constexpr double kSame = 1e-6;

LayerWeights weights_of(const Problem& problem) {
  const auto weight = [](const Matrix& matrix) { return tensor_of(transposed(matrix), {matrix.cols, matrix.rows}); };
  LayerWeights weights;
  weights.query_weight = weight(problem.query_weight);
  weights.key_weight = weight(problem.key_weight);
  weights.value_weight = weight(problem.value_weight);
  weights.output_weight = weight(problem.output_weight);
  return weights;
}

// [1, heads, rows, dim] -> all heads beside each other in columns.
Matrix joined(const Tensor& tensor) {
  const Index heads = tensor.shape()[1], rows = tensor.shape()[2], dim = tensor.shape()[3];
  return matrix_of(Tensor::copy_of(tensor.view().transposed(1, 2)), 0, rows, heads * dim);
}

// What the layer computed on its way, and every coefficient from it.
struct Observed {
  Tensor result;  // [1, n, output_dim]
  Capture capture;
  Tensor probabilities;  // [1, heads, n, m]
};

Observed observe(const MultiHeadAttention& layer, const Matrix& input, const Matrix& memory) {
  Observed seen;
  ForwardObservation observation;
  observation.capture = &seen.capture;
  observation.capture_values = true;
  seen.result = layer.forward(tensor_of(input, {1, input.rows, input.cols}), tensor_of(memory, {1, memory.rows, memory.cols}),
                              {}, observation);
  const Capture& capture = seen.capture;
  seen.probabilities = Tensor(DType::kF32, {1, capture.num_heads(), input.rows, memory.rows});
  attention_probabilities(capture.query, capture.key, capture.lse, seen.probabilities, capture.options);
  return seen;
}

std::vector<OnlineStep> online_row(const HeadStages& head, Index row, Mask mask) {
  std::vector<OnlineStep> steps;
  OnlineStep now;
  now.max = -std::numeric_limits<double>::infinity();
  now.output.resize(static_cast<std::size_t>(head.value.cols));
  for (Index key = 0; key < head.scores.cols; ++key) {
    if (!visible(mask, row, key)) continue;
    now.key = key;
    now.score = head.scores.at(row, key);
    const double max = std::max(now.max, now.score);
    now.rescale = std::exp(now.max - max);
    now.weight = std::exp(now.score - max);
    now.max = max;
    now.sum = now.sum * now.rescale + now.weight;
    for (Index t = 0; t < head.value.cols; ++t) {
      double& sum = now.output[static_cast<std::size_t>(t)];
      sum = sum * now.rescale + now.weight * head.value.at(key, t);
    }
    steps.push_back(now);
  }
  return steps;
}

// The wrong way: coefficients of a softmax that saw everything, with the future's set to 0 afterwards.
void mask_after_softmax(HeadStages& head) {
  for (Index i = 0; i < head.probabilities.rows; ++i) {
    for (Index j = 0; j < head.probabilities.cols; ++j) {
      if (!visible(Mask::kAfterSoftmax, i, j)) head.probabilities.at(i, j) = 0;
    }
  }
  head.output = product(head.probabilities, head.value);
}

HeadStages head_stages(const Problem& problem, const Stages& stages, const Observed& seen, Index h) {
  const LayerConfig& config = stages.config;
  const Index n = stages.query.rows, m = stages.key.rows, dim = config.head_dim, value_dim = config.value_dim;
  HeadStages head;
  head.query = part(stages.query, 0, n, h * dim, dim);
  head.key = part(stages.key, 0, m, h * dim, dim);
  head.value = part(stages.value, 0, m, h * value_dim, value_dim);
  head.products = product(head.query, transposed(head.key));
  head.scores = head.products;
  for (double& score : head.scores.values) score *= stages.scale;
  head.probabilities = matrix_of(seen.probabilities, h * n * m, n, m);
  head.output = matrix_of(seen.capture.output, h * n * value_dim, n, value_dim);
  head.lse = matrix_of(seen.capture.lse, h * n, 1, n).values;
  if (problem.mask == Mask::kAfterSoftmax) {
    mask_after_softmax(head);
  } else {
    for (Index i = 0; i < n; ++i) head.online.push_back(online_row(head, i, problem.mask));
  }
  head.contribution = product(head.output, part(problem.output_weight, h * value_dim, value_dim, 0, config.output_dim));
  return head;
}

}  // namespace

bool visible(Mask mask, Index i, Index j) { return mask == Mask::kNone || j <= i; }

Stages compute(const Problem& problem) {
  Stages stages;
  stages.config = problem.config();
  const LayerConfig& config = stages.config;
  stages.scale = config.scale ? static_cast<double>(*config.scale) : 1 / std::sqrt(static_cast<double>(config.head_dim));
  const MultiHeadAttention layer(config, weights_of(problem));
  const Matrix& input = problem.input;
  const Observed seen = observe(layer, input, problem.key_input());
  stages.query = joined(seen.capture.query);
  stages.key = joined(seen.capture.key);
  stages.value = joined(seen.capture.value);
  stages.concat = Matrix(input.rows, config.num_heads * config.value_dim);
  for (Index h = 0; h < config.num_heads; ++h) {
    const HeadStages& head = stages.heads.emplace_back(head_stages(problem, stages, seen, h));
    for (Index i = 0; i < input.rows; ++i) {
      for (Index t = 0; t < config.value_dim; ++t) stages.concat.at(i, h * config.value_dim + t) = head.output.at(i, t);
    }
  }
  const Matrix projected = product(stages.concat, problem.output_weight);
  stages.output = problem.mask == Mask::kAfterSoftmax ? projected : matrix_of(seen.result, 0, input.rows, config.output_dim);
  stages.check = largest_difference(projected, stages.output);
  return stages;
}

Problem regrouped(const Problem& problem, Index num_heads) {
  // The engine refuses a number that does not divide the projections' width, with its own text.
  LayerConfig config;
  config.model_dim = problem.query_weight.cols;
  config.num_heads = num_heads;
  Problem other = problem;
  other.num_heads = num_heads;
  other.head_dim = config.resolved().head_dim;
  return other;
}

ScoreIdentity score_identity(const Stages& one, const Stages& several) {
  ScoreIdentity identity;
  identity.factor = one.scale / several.scale;
  identity.left = one.heads.front().scores;
  identity.right = Matrix(identity.left.rows, identity.left.cols);
  for (const HeadStages& head : several.heads) {
    for (std::size_t i = 0; i < identity.right.values.size(); ++i)
      identity.right.values[i] += identity.factor * head.scores.values[i];
  }
  identity.difference = largest_difference(identity.left, identity.right);
  return identity;
}

Findings findings(const Problem& problem, const Stages& stages) {
  Findings found;
  const auto heads = static_cast<Index>(stages.heads.size());
  const auto head = [&](Index h) -> const HeadStages& { return stages.heads[static_cast<std::size_t>(h)]; };
  for (Index a = 0; a < heads; ++a) {
    for (Index b = a + 1; b < heads; ++b) {
      if (largest_difference(head(a).probabilities, head(b).probabilities) > kSame) continue;
      found.equal_maps.emplace_back(a, b);
      if (largest_difference(head(a).output, head(b).output) <= kSame) found.equal_heads.emplace_back(a, b);
    }
  }
  const Index dim = stages.config.value_dim, out = problem.output_weight.cols;
  found.averaged = heads > 1;
  for (Index h = 1; h < heads; ++h) {
    found.averaged &= part(problem.output_weight, h * dim, dim, 0, out) == part(problem.output_weight, 0, dim, 0, out);
  }
  return found;
}

}  // namespace multihead::lab
