#include "bench_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "multihead/accuracy.h"

namespace multihead::cli {
namespace {

constexpr Index kSample = 16;
constexpr Index kLayerSample = 4;
constexpr Index kHeadStep = 7;  // coprime to every number of heads in the table: the sample meets as many heads as it has rows

template <typename Real>
double norm(const Real* values, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::sqrt(sum);
}

// ‖result − exact‖₂; both dense.
double distance(const ConstTensorView& result, const Tensor& exact) {
  double sum = 0;
  for (Index i = 0; i < exact.size(); ++i) {
    const double difference = load_as_double(result, i) - exact.data<double>()[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

// NaN counts as infinitely wrong.
void add_row(double error, double scale, double allowed, BenchError& worst) {
  worst.within = worst.within && error <= allowed;
  worst.relative = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst.relative, error / scale);
}

ConstTensorView head_of(const ConstTensorView& view, Index head) { return view.slice(1, head, head + 1); }

// Query row i of one head, against keys and values of its kv head.
void check_row(const AttentionAnswer& answer, Index head, Index i, BenchError& worst) {
  const Index kv_head = head / (answer.query.shape[1] / answer.key.shape[1]);
  const Index keys = answer.key.shape[2], head_dim = answer.key.shape[3], value_dim = answer.value.shape[3];
  const Tensor key = Tensor::converted(head_of(answer.key, kv_head), DType::kF32);
  const Tensor value = Tensor::converted(head_of(answer.value, kv_head), DType::kF32);
  const Tensor query = Tensor::converted(head_of(answer.query, head).slice(2, i, i + 1), DType::kF32);
  const Tensor result = Tensor::copy_of(head_of(answer.output, head).slice(2, i, i + 1));
  AttentionOptions options = answer.options;
  options.query_offsets = {keys - answer.query.shape[2] + i};
  Tensor exact(DType::kF64, {1, 1, 1, value_dim}), probabilities(DType::kF64, {1, 1, 1, keys});
  reference_attention(query, key, value, exact, options, std::nullopt, probabilities.view());

  std::vector<double> magnitude(static_cast<std::size_t>(value_dim));
  double longest_key = 0;
  for (Index j = 0; j < keys; ++j) {
    const double probability = probabilities.data<double>()[j];
    if (probability == 0) continue;
    longest_key = std::max(longest_key, norm(key.data<float>() + j * head_dim, head_dim));
    const float* row = value.data<float>() + j * value_dim;
    for (std::size_t t = 0; t < magnitude.size(); ++t) magnitude[t] += probability * std::abs(static_cast<double>(row[t]));
  }
  const Accuracy contract = accuracy_of("output", answer.output.dtype);
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const double growth = accuracy_growth(scale * norm(query.data<float>(), head_dim) * longest_key);
  const double whole = norm(magnitude.data(), value_dim);
  add_row(distance(result, exact), whole,
          growth * contract.relative_frobenius * whole + contract.absolute * std::sqrt(static_cast<double>(value_dim)), worst);
}

}  // namespace

BenchError check_attention(const AttentionAnswer& answer) {
  BenchError worst;
  const Index heads = answer.query.shape[1], rows = answer.query.shape[2];
  for (Index s = 0; s < kSample; ++s) check_row(answer, s * kHeadStep % heads, s * (rows - 1) / (kSample - 1), worst);
  return worst;
}

BenchError check_layer(const MultiHeadAttention& layer, const ConstTensorView& input, const ConstTensorView& output) {
  const Index length = input.shape[1], rows = std::min<Index>(kLayerSample, length);
  const bool causal = layer.config().causal;
  const Index first = causal ? 0 : length - rows;
  ForwardOptions options;
  options.query_offset = first;
  const Tensor exact =
      layer.reference_forward(input.slice(1, first, first + rows), causal ? input.slice(1, 0, rows) : input, options);
  const double scale = std::sqrt(static_cast<double>(output.shape[2]));
  const double allowed = accuracy_of("output", DType::kF32).relative_frobenius * scale;
  BenchError worst;
  for (Index i = 0; i < rows; ++i) {
    const Tensor exact_row = Tensor::copy_of(exact.view().slice(1, i, i + 1));
    add_row(distance(output.slice(1, first + i, first + i + 1), exact_row), scale, allowed, worst);
  }
  return worst;
}

}  // namespace multihead::cli
