// The backward pass of a problem, its definition in float64, and the comparison of the two.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "attention_checks.h"
#include "multihead/gradient.h"

namespace multihead::test {

/// All gradients of a problem; those of what the problem does not have are empty.
struct Gradients {
  Tensor query, key, value, bias, slopes, sinks;

  AttentionGradients views() {
    const auto view = [](Tensor& tensor) {
      return tensor.rank() == 0 ? std::nullopt : std::optional<TensorView>(tensor.view());
    };
    return {view(query), view(key), view(value), view(bias), view(slopes), view(sinks)};
  }
  std::array<std::pair<const char*, const Tensor*>, 6> named() const {
    return {{{"query", &query}, {"key", &key}, {"value", &value}, {"bias", &bias}, {"slopes", &slopes}, {"sinks", &sinks}}};
  }
};

/// Room for all gradients of a problem, filled with `value`.
inline Gradients gradients_filled(const Problem& problem, DType dtype, DType of_heads, double value) {
  const auto make = [&](DType type, const Dims& shape) { return filled(type, shape, [&](Index) { return value; }); };
  Gradients gradients;
  gradients.query = make(dtype, problem.shape.query());
  gradients.key = make(dtype, problem.shape.key());
  gradients.value = make(dtype, problem.shape.value());
  if (problem.options.attention_bias) gradients.bias = make(dtype, problem.options.attention_bias->shape);
  if (!problem.options.alibi_slopes.empty()) gradients.slopes = make(of_heads, {problem.shape.heads});
  if (!problem.options.sinks.empty()) gradients.sinks = make(of_heads, {problem.shape.heads});
  return gradients;
}

/// A gradient of the output, in the problem's type.
inline Tensor grad_output_of(const Problem& problem, std::uint64_t seed) {
  Random random(seed);
  return filled(problem.inputs.query.dtype(), problem.shape.output(), [&](Index) { return random.normal(); });
}

/// attention_backward() after attention(), into memory that was filled with NaN.
inline Gradients run_backward(const Problem& problem, const Tensor& grad_output) {
  const Result result = run(problem);
  Gradients gradients = gradients_filled(problem, problem.output_dtype, DType::kF32, kNaN);
  attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse, grad_output,
                     gradients.views(), problem.options);
  return gradients;
}

/// The definition in float64, and for every element the sum of the absolute values of its terms.
struct ExactGradients {
  Gradients gradients, magnitudes;  ///< f64
  double growth = 1;                ///< the worst row's
};

namespace detail {

// Element (b, h, i, t) of a dense [batch, heads, rows, columns] tensor.
inline double& element(Tensor& tensor, Index plane, Index row, Index column) {
  return tensor.data<double>()[(plane * tensor.shape()[2] + row) * tensor.shape()[3] + column];
}

inline double size_of_element(const ConstTensorView& tensor, Index plane, Index row, Index column) {
  const double x = load_as_double(tensor, (plane * tensor.shape[2] + row) * tensor.shape[3] + column);
  return std::isfinite(x) ? std::abs(x) : 0;  // what is poisoned is compared as such
}

// Adds what pair (i, j) may weigh in each gradient. `score`: |P (dP - D)| without cancellation.
inline void add_magnitudes(const Problem& problem, const std::array<Index, 4>& at, double probability, double score,
                           const ConstTensorView& grad_output, Gradients& to) {
  const auto& [b, h, i, j] = at;
  const Shape& s = problem.shape;
  const Index plane = b * s.heads + h, kv_plane = b * s.kv_heads + h / (s.heads / s.kv_heads);
  const double scale = std::abs(problem.options.scale ? static_cast<double>(*problem.options.scale)
                                                      : 1 / std::sqrt(static_cast<double>(s.head_dim)));
  for (Index t = 0; t < s.value_dim; ++t) {
    element(to.value, kv_plane, j, t) += probability * size_of_element(grad_output, plane, i, t);
  }
  for (Index t = 0; t < s.head_dim; ++t) {
    element(to.query, plane, i, t) += scale * score * size_of_element(problem.inputs.key, kv_plane, j, t);
    element(to.key, kv_plane, j, t) += scale * score * size_of_element(problem.inputs.query, plane, i, t);
  }
  if (to.bias.rank() > 0) to.bias.data<double>()[Visibility::broadcast_offset(to.bias, at)] += score;
  if (to.slopes.rank() > 0) {
    to.slopes.data<double>()[h] += score * std::abs(static_cast<double>(Visibility::distance(problem, b, i, j)));
  }
}

}  // namespace detail

inline ExactGradients exact_backward(const Problem& problem, const Tensor& grad_output) {
  const Shape& s = problem.shape;
  ExactGradients exact;
  exact.gradients = gradients_filled(problem, DType::kF64, DType::kF64, kNaN);
  exact.magnitudes = gradients_filled(problem, DType::kF64, DType::kF64, 0);
  reference_attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, grad_output,
                               exact.gradients.views(), problem.options);
  const Visibility sees(problem);
  const double lift = problem.options.dropout ? 1 / (1 - static_cast<double>(problem.options.dropout->probability)) : 1;
  for (const double growth : detail::growth_of(problem, sees)) {
    if (std::isfinite(growth)) exact.growth = std::max(exact.growth, growth);
  }
  const Tensor sizes = exact_of(problem, sees).magnitude;  // what the output sums up, without cancellation
  Tensor output(DType::kF64, s.output()), lse(DType::kF64, s.lse()), probabilities(DType::kF64, s.scores());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, lse.view(),
                      probabilities.view());
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const Index plane = b * s.heads + h, kv_plane = b * s.kv_heads + h / (s.heads / s.kv_heads);
      for (Index i = 0; i < s.query_len; ++i) {
        double mean = 0;
        for (Index t = 0; t < s.value_dim; ++t) {
          mean += detail::size_of_element(grad_output, plane, i, t) * detail::size_of_element(sizes, plane, i, t);
        }
        for (Index j = 0; j < s.key_len; ++j) {
          const double p = probabilities.data<double>()[(plane * s.query_len + i) * s.key_len + j];
          if (!(p > 0)) continue;
          double product = 0;
          for (Index t = 0; t < s.value_dim; ++t) {
            product += detail::size_of_element(grad_output, plane, i, t) *
                       detail::size_of_element(problem.inputs.value, kv_plane, j, t);
          }
          detail::add_magnitudes(problem, {b, h, i, j}, lift * p, p * (lift * product + mean), grad_output, exact.magnitudes);
        }
        if (exact.magnitudes.sinks.rank() > 0) {
          const double sink = static_cast<double>(problem.options.sinks[static_cast<std::size_t>(h)]);
          const double weight = std::exp(sink - lse.data<double>()[plane * s.query_len + i]);
          if (weight > 0) exact.magnitudes.sinks.data<double>()[h] += weight * mean;
        }
      }
    }
  }
  return exact;
}

/// The contract of accuracy.h for gradients. Those in f32 of inputs in 16 bits are held to f32 when the output was f32, too.
inline ::testing::AssertionResult within_contract(const ExactGradients& exact, const Gradients& got) {
  const auto named = got.named(), want_named = exact.gradients.named(), sizes = exact.magnitudes.named();
  const Accuracy bound = accuracy_of("gradients", got.query.dtype());
  for (std::size_t g = 0; g < named.size(); ++g) {
    const Tensor &result = *named[g].second, &wanted = *want_named[g].second, &magnitude = *sizes[g].second;
    if (!(result.shape() == wanted.shape())) return ::testing::AssertionFailure() << named[g].first << ": shapes differ";
    for (Index n = 0; n < result.size() && result.rank() > 0; ++n) {
      const double x = load_as_double(result, n), want = wanted.data<double>()[n];
      if (x == want || (std::isnan(x) && std::isnan(want))) continue;
      const double allowed = exact.growth * bound.relative_frobenius * magnitude.data<double>()[n] + bound.absolute;
      if (std::abs(x - want) <= allowed) continue;
      return ::testing::AssertionFailure() << "gradient of " << named[g].first << ", element " << n << ": " << x << ", exact "
                                           << want << ", allowed error " << allowed << " (growth " << exact.growth << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const Gradients& a, const Gradients& b) {
  const auto left = a.named(), right = b.named();
  for (std::size_t g = 0; g < left.size(); ++g) {
    if (left[g].second->rank() == 0 && right[g].second->rank() == 0) continue;
    if (auto verdict = same_bits(*left[g].second, *right[g].second); !verdict) {
      return verdict << " (gradient of " << left[g].first << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

/// attention_backward() under every target against the definition.
inline void expect_right_backward(const Problem& problem, std::uint64_t seed, const std::string& name) {
  const Tensor grad_output = grad_output_of(problem, seed);
  const ExactGradients exact = exact_backward(problem, grad_output);
  for_each_target([&] { EXPECT_TRUE(within_contract(exact, run_backward(problem, grad_output))) << name; });
}

inline void expect_right_backward(const Problem& problem, std::uint64_t seed) {
  expect_right_backward(problem, seed, to_string(problem.shape));
}

}  // namespace multihead::test
