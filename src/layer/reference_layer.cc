// The layer by its definitions, in float64 throughout, one plain loop after another. Shares nothing with `forward` that it
// could be wrong together with but the argument checks, the rotary frequencies and the bucket numbers, which have tests of
// their own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "layer/call.h"
#include "layer/query_key_norm.h"
#include "layer/relative_bias.h"
#include "layer/rotary.h"
#include "layer/weights.h"
#include "multihead/layer.h"

namespace multihead {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// [rows, columns]
struct Matrix {
  Matrix(Index num_rows, Index num_columns)
      : rows(num_rows), columns(num_columns), values(static_cast<std::size_t>(num_rows * num_columns)) {}
  double& operator()(Index row, Index column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  double operator()(Index row, Index column) const { return values[static_cast<std::size_t>(row * columns + column)]; }

  Index rows, columns;
  std::vector<double> values;
};

double load(const kernels::Strided<const void>& array, Index offset) {
  return load_as_double(ConstTensorView(array.data, array.dtype, {}, {}), offset);
}

double load(const Tensor& tensor, Index offset) { return load_as_double(tensor, offset); }

void store(const kernels::Strided<void>& array, Index offset, double value) {
  if (array.data == nullptr) return;
  if (array.dtype == DType::kF64) {
    static_cast<double*>(array.data)[offset] = value;
  } else {
    static_cast<float*>(array.data)[offset] = static_cast<float>(value);
  }
}

// Entry `batch` of [batch, length, width].
Matrix matrix_of(const ConstTensorView& input, Index batch) {
  Matrix result(input.shape[1], input.shape[2]);
  for (Index i = 0; i < result.rows; ++i) {
    for (Index t = 0; t < result.columns; ++t) {
      result(i, t) = load_as_double(input, batch * input.strides[0] + i * input.strides[1] + t * input.strides[2]);
    }
  }
  return result;
}

// x W^T + b
Matrix linear(const Matrix& x, const Tensor& weight, const Tensor& bias) {
  Matrix y(x.rows, weight.shape()[0]);
  for (Index i = 0; i < y.rows; ++i) {
    for (Index column = 0; column < y.columns; ++column) {
      double sum = bias.empty() ? 0.0 : load(bias, column);
      for (Index t = 0; t < x.columns; ++t) sum += x(i, t) * load(weight, column * x.columns + t);
      y(i, column) = sum;
    }
  }
  return y;
}

void clip(const LayerConfig& config, Matrix& x) {
  if (!config.clip) return;
  const auto limit = static_cast<double>(*config.clip);
  for (double& value : x.values) value = std::clamp(value, -limit, limit);
}

void normalize(const LayerConfig& config, const Tensor& weight, const Tensor& bias, Matrix& x) {
  if (!config.query_key_norm) return;
  const QueryKeyNorm& norm = *config.query_key_norm;
  const Index span =
      norm_spans_all_heads(weight.shape(), x.columns / config.head_dim, config.head_dim) ? x.columns : config.head_dim;
  for (Index i = 0; i < x.rows; ++i) {
    for (Index first = 0; first < x.columns; first += span) {
      double mean = 0, variance = 0;
      for (Index t = first; t < first + span; ++t) mean += x(i, t) / static_cast<double>(span);
      if (norm.kind == QueryKeyNorm::Kind::kRms) mean = 0;
      for (Index t = first; t < first + span; ++t) variance += (x(i, t) - mean) * (x(i, t) - mean) / static_cast<double>(span);
      for (Index t = first; t < first + span; ++t) {
        const double factor = load(weight, t % weight.size()) + (norm.weight_plus_one ? 1.0 : 0.0);
        x(i, t) = (x(i, t) - mean) / std::sqrt(variance + norm.epsilon) * factor;
        if (!bias.empty()) x(i, t) += load(bias, t % bias.size());
      }
    }
  }
}

void rotate(const LayerConfig& config, Index first_position, Matrix& x) {
  if (!config.rotary) return;
  const RotaryFrequencies rotation = rotary_frequencies(*config.rotary);
  for (Index i = 0; i < x.rows; ++i) {
    for (Index head = 0; head < x.columns; head += config.head_dim) {
      for (Index j = 0; j < config.rotary->rotary_dim / 2; ++j) {
        const auto [first, second] = rotary_pair(*config.rotary, j);
        const double angle = static_cast<double>(first_position + i) * rotation.frequencies[static_cast<std::size_t>(j)];
        const double a = x(i, head + first), b = x(i, head + second);
        x(i, head + first) = rotation.amplitude * (a * std::cos(angle) - b * std::sin(angle));
        x(i, head + second) = rotation.amplitude * (a * std::sin(angle) + b * std::cos(angle));
      }
    }
  }
}

// One query of one head.
struct Row {
  Index batch, head, i, position;
};

class ReferenceLayer {
 public:
  ReferenceLayer(const LayerConfig& config, const LayerWeights& weights, const LayerCall& call, const CheckedObservation& seen)
      : config_(config), weights_(weights), call_(call), seen_(seen) {}

  // Entry `batch` of the result, [query_len, output_dim].
  Matrix forward(const LayerInputs& inputs, Index batch) const {
    Matrix q = linear(matrix_of(inputs.query, batch), weights_.query_weight, weights_.query_bias);
    Matrix k = linear(matrix_of(inputs.key, batch), weights_.key_weight, weights_.key_bias);
    Matrix v = linear(matrix_of(inputs.value, batch), weights_.value_weight, weights_.value_bias);
    for (Matrix* x : {&q, &k, &v}) clip(config_, *x);
    normalize(config_, weights_.query_norm, weights_.query_norm_bias, q);
    normalize(config_, weights_.key_norm, weights_.key_norm_bias, k);
    rotate(config_, call_.query_offset, q);
    rotate(config_, 0, k);
    Matrix concatenation(call_.query_len, config_.num_heads * config_.value_dim);
    for (Index head = 0; head < config_.num_heads; ++head) {
      for (Index i = 0; i < call_.query_len; ++i) attend({batch, head, i, call_.query_offset + i}, q, k, v, concatenation);
    }
    return linear(concatenation, weights_.output_weight, weights_.output_bias);
  }

 private:
  bool sees(const Row& row, Index j) const {
    const Window window = config_.window.value_or(Window{});
    if (config_.causal && j > row.position) return false;
    if (window.left && row.position - j > *window.left) return false;
    if (window.right && j - row.position > *window.right) return false;
    if (!call_.options.key_lengths.empty() && j >= call_.options.key_lengths[static_cast<std::size_t>(row.batch)]) return false;
    if (call_.mask.data != nullptr && load(call_.mask, call_.mask.offset(row.batch, row.head, row.i, j)) == 0) return false;
    return bias(row, j) != kMinusInfinity;
  }

  // What is added to the score besides ALiBi.
  double bias(const Row& row, Index j) const {
    double sum = call_.bias.data == nullptr ? 0.0 : load(call_.bias, call_.bias.offset(row.batch, row.head, row.i, j));
    if (config_.relative_bias) {
      const Index bucket = relative_bucket(*config_.relative_bias, weights_.relative_bias.shape()[0], j - row.position);
      sum += load(weights_.relative_bias, bucket * config_.num_heads + row.head);
    }
    return sum;
  }

  double score(const Row& row, Index j, const Matrix& q, const Matrix& k) const {
    const Index query_head = row.head * config_.head_dim;
    const Index key_head = row.head / (config_.num_heads / config_.num_kv_heads) * config_.head_dim;
    double dot = 0;
    for (Index t = 0; t < config_.head_dim; ++t) dot += q(row.i, query_head + t) * k(j, key_head + t);
    double score =
        config_.scale ? static_cast<double>(*config_.scale) * dot : dot / std::sqrt(static_cast<double>(config_.head_dim));
    const auto cap = static_cast<double>(config_.softcap.value_or(0));
    if (cap > 0) score = cap * std::tanh(score / cap);
    score += bias(row, j);
    if (config_.alibi) {
      const auto slope = static_cast<double>(call_.options.alibi_slopes[static_cast<std::size_t>(row.head)]);
      score -= slope * std::abs(static_cast<double>(row.position - j));
    }
    return score;
  }

  // One row of one head: scores, softmax over what it sees (a sink joins the denominator), weighted sum of the values.
  void attend(const Row& row, const Matrix& q, const Matrix& k, const Matrix& v, Matrix& concatenation) const {
    const double sink = weights_.sinks.empty() ? kMinusInfinity : load(weights_.sinks, row.head);
    std::vector<Index> keys;
    std::vector<double> scores;
    double maximum = sink;
    for (Index j = 0; j < call_.key_len; ++j) {
      if (!sees(row, j)) continue;
      keys.push_back(j);
      scores.push_back(score(row, j, q, k));
      maximum = std::fmax(maximum, scores.back());
    }
    double sum = keys.empty() && sink == kMinusInfinity ? 0.0 : std::exp(sink - maximum);
    for (const double score : scores) sum += std::exp(score - maximum);
    const double lse = sum == 0 ? kMinusInfinity : maximum + std::log(sum);
    store(seen_.lse, seen_.lse.offset(row.batch, row.head, row.i, 0), lse);
    for (Index j = 0; j < call_.key_len; ++j) {
      store(seen_.probabilities, seen_.probabilities.offset(row.batch, row.head, row.i, j), 0.0);
    }
    const Index value_head = row.head / (config_.num_heads / config_.num_kv_heads) * config_.value_dim;
    const auto draws = call_.dropout.row(static_cast<std::uint64_t>(row.batch), static_cast<std::uint64_t>(row.head),
                                         static_cast<std::uint64_t>(row.position));
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const double probability = std::exp(scores[n] - lse);
      const double weight = probability * static_cast<double>(call_.dropout.factor_of(draws, keys[n]));
      store(seen_.probabilities, seen_.probabilities.offset(row.batch, row.head, row.i, keys[n]), probability);
      for (Index t = 0; t < config_.value_dim; ++t) {
        concatenation(row.i, row.head * config_.value_dim + t) += weight * v(keys[n], value_head + t);
      }
    }
  }

  const LayerConfig& config_;
  const LayerWeights& weights_;
  const LayerCall& call_;
  const CheckedObservation& seen_;
};

}  // namespace

Tensor MultiHeadAttention::reference_forward(const ConstTensorView& input, const ConstTensorView& memory,
                                             const ForwardOptions& options, const ForwardObservation& seen) const {
  return reference_forward(input, memory, memory, options, seen);
}

Tensor MultiHeadAttention::reference_forward(const ConstTensorView& input, const ConstTensorView& key_input,
                                             const ConstTensorView& value_input, const ForwardOptions& options,
                                             const ForwardObservation& seen) const {
  const LayerInputs inputs{"MultiHeadAttention::reference_forward", input, key_input, value_input};
  const LayerCall call = check_call(inputs, config(), attention_options(config(), weights()), options);
  const std::initializer_list<DType> dtypes = {DType::kF32, DType::kF64};
  const CheckedObservation checked = check_observation(inputs.function, config(), call, seen, dtypes, dtypes);
  const ReferenceLayer layer(config(), weights(), call, checked);
  Tensor output(DType::kF64, {call.batch, call.query_len, config().output_dim});
  double* out = output.data<double>();
  for (Index batch = 0; batch < call.batch; ++batch) {
    const Matrix y = layer.forward(inputs, batch);
    out = std::copy(y.values.begin(), y.values.end(), out);
  }
  return output;
}

}  // namespace multihead
