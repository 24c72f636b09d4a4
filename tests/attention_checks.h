// The definition of right for a call, and the comparison of results with it and with each other.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "attention_problem.h"
#include "each_target.h"
#include "multihead/accuracy.h"
#include "multihead/attention.h"

namespace multihead::test {

struct Result {
  Tensor output, lse;
};

/// attention() into fresh memory that was filled with NaN, so that an element that is not written shows.
inline Result run(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                  const AttentionOptions& options, DType output_dtype) {
  const auto nan = [](Index) { return kNaN; };
  Result result{filled(output_dtype, {query.shape[0], query.shape[1], query.shape[2], value.shape[3]}, nan),
                filled(DType::kF32, {query.shape[0], query.shape[1], query.shape[2]}, nan)};
  attention(query, key, value, result.output, options, result.lse.view());
  return result;
}

inline Result run(const Problem& problem) {
  return run(problem.inputs.query, problem.inputs.key, problem.inputs.value, problem.options, problem.output_dtype);
}

/// The definition in float64, and the two factors of the accuracy contract.
struct Exact {
  Tensor output, lse;          ///< f64
  Tensor magnitude;            ///< f64, sum_j p_j |value_j|, shaped as output
  std::vector<double> growth;  ///< per row
};

namespace detail {

inline double norm_of_row(const ConstTensorView& rows, Index row, Index width) {
  double sum = 0;
  for (Index t = 0; t < width; ++t) {
    const double x = load_as_double(rows, row * width + t);
    sum += x * x;
  }
  return std::sqrt(sum);
}

// accuracy_growth of every row, from the norms of what it sees.
inline std::vector<double> growth_of(const Problem& problem, const Visibility& sees) {
  const Shape& s = problem.shape;
  const AttentionOptions& options = problem.options;
  const double scale =
      std::abs(options.scale ? static_cast<double>(*options.scale) : 1 / std::sqrt(static_cast<double>(s.head_dim)));
  const ConstTensorView queries = problem.inputs.query, keys = problem.inputs.key;
  std::vector<double> growth;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const auto head = static_cast<std::size_t>(h);
      const Index first_key = (b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.key_len;
      std::vector<double> key_norms;
      for (Index j = 0; j < s.key_len; ++j) key_norms.push_back(norm_of_row(keys, first_key + j, s.head_dim));
      const double slope = options.alibi_slopes.empty() ? 0 : std::abs(static_cast<double>(options.alibi_slopes[head]));
      const double sink =
          options.sinks.empty() || options.sinks[head] == -HUGE_VALF ? 0 : std::abs(static_cast<double>(options.sinks[head]));
      for (Index i = 0; i < s.query_len; ++i) {
        const double query_norm = norm_of_row(queries, (b * s.heads + h) * s.query_len + i, s.head_dim);
        double largest = sink;
        for (Index j = 0; j < s.key_len; ++j) {
          if (!sees(b, h, i, j)) continue;
          double size = scale * query_norm * key_norms[static_cast<std::size_t>(j)];
          if (options.attention_bias) size += std::abs(Visibility::broadcast_element(*options.attention_bias, {b, h, i, j}));
          if (slope > 0) size += slope * std::abs(static_cast<double>(Visibility::distance(problem, b, i, j)));
          largest = std::max(largest, size);
        }
        growth.push_back(accuracy_growth(largest));
      }
    }
  }
  return growth;
}

}  // namespace detail

/// One run of the reference on [value, |value|] gives the output and its magnitude.
inline Exact exact_of(const Problem& problem, const Visibility& sees) {
  const Shape& s = problem.shape;
  const ConstTensorView value = problem.inputs.value;
  const Tensor both = filled(value.dtype, {s.batch, s.kv_heads, s.key_len, 2 * s.value_dim}, [&](Index n) {
    const Index row = n / (2 * s.value_dim), t = n % (2 * s.value_dim);
    const double x = load_as_double(value, row * s.value_dim + t % s.value_dim);
    return t < s.value_dim ? x : std::abs(x);
  });
  Tensor outputs(DType::kF64, {s.batch, s.heads, s.query_len, 2 * s.value_dim});
  Exact exact;
  exact.lse = Tensor(DType::kF64, s.lse());
  reference_attention(problem.inputs.query, problem.inputs.key, both, outputs, problem.options, exact.lse.view());
  exact.output = Tensor::copy_of(outputs.view().slice(3, 0, s.value_dim));
  exact.magnitude = Tensor::copy_of(outputs.view().slice(3, s.value_dim, 2 * s.value_dim));
  exact.growth = detail::growth_of(problem, sees);
  return exact;
}

inline Exact exact_of(const Problem& problem) { return exact_of(problem, Visibility(problem)); }

/// Holds a row of width `width` to its bounds; NaN and infinities must be where the exact result has them.
inline ::testing::AssertionResult row_within(const Exact& exact, const ConstTensorView& output, Index row, Index width) {
  const Accuracy bound = accuracy_of("output", output.dtype);
  const double* exact_row = exact.output.data<double>() + row * width;
  const double* magnitudes = exact.magnitude.data<double>() + row * width;
  double error = 0, magnitude = 0;
  for (Index t = 0; t < width; ++t) {
    const double got = load_as_double(output, row * width + t), want = exact_row[t];
    if (!std::isfinite(want) || !std::isfinite(got)) {
      if (got == want || (std::isnan(got) && std::isnan(want))) continue;
      return ::testing::AssertionFailure() << "row " << row << ", column " << t << ": " << got << ", exact " << want;
    }
    error += (got - want) * (got - want);
    magnitude += magnitudes[t] * magnitudes[t];
  }
  const double growth = exact.growth[static_cast<std::size_t>(row)];
  const double allowed =
      growth * bound.relative_frobenius * std::sqrt(magnitude) + bound.absolute * std::sqrt(static_cast<double>(width));
  if (std::sqrt(error) <= allowed) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "row " << row << " of " << name_of(output.dtype) << " output is off by "
                                       << std::sqrt(error) << " in norm; allowed " << allowed << " (growth " << growth << ")";
}

inline ::testing::AssertionResult within_contract(const Exact& exact, const Result& result) {
  if (!(result.output.shape() == exact.output.shape())) return ::testing::AssertionFailure() << "shapes differ";
  const ConstTensorView output = result.output, lse = result.lse;
  const Index rows = exact.lse.size(), width = output.shape[3];
  for (Index row = 0; row < rows; ++row) {
    if (const auto verdict = row_within(exact, output, row, width); !verdict) return verdict;
    const double got = load_as_double(lse, row), want = exact.lse.data<double>()[row];
    if (got == want || (std::isnan(got) && std::isnan(want))) continue;
    const double allowed = accuracy_of("lse", DType::kF32).absolute * exact.growth[static_cast<std::size_t>(row)];
    if (std::abs(got - want) <= allowed) continue;
    return ::testing::AssertionFailure() << "lse of row " << row << ": " << got << ", exact " << want << ", allowed error "
                                         << allowed;
  }
  return ::testing::AssertionSuccess();
}

/// attention() under every target against the definition.
inline void expect_right(const Problem& problem) {
  const Exact exact = exact_of(problem);
  for_each_target([&] { EXPECT_TRUE(within_contract(exact, run(problem))) << to_string(problem.shape); });
}

/// Equal element for element, bit for bit; any NaN equals any NaN.
inline ::testing::AssertionResult same_bits(const ConstTensorView& a, const ConstTensorView& b) {
  if (!(a.shape == b.shape) || a.dtype != b.dtype) return ::testing::AssertionFailure() << "shapes or types differ";
  const Tensor left = Tensor::copy_of(a), right = Tensor::copy_of(b);
  const std::size_t size = size_of(a.dtype);
  for (Index n = 0; n < left.size(); ++n) {
    const auto at = static_cast<std::size_t>(n) * size;
    if (std::memcmp(left.data<char>() + at, right.data<char>() + at, size) == 0) continue;
    const double x = load_as_double(left, n), y = load_as_double(right, n);
    if (std::isnan(x) && std::isnan(y)) continue;
    return ::testing::AssertionFailure() << "element " << n << " of " << to_string(a.shape) << ": " << x << " and " << y;
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const Result& a, const Result& b) {
  if (auto verdict = same_bits(a.output, b.output); !verdict) return verdict << " (output)";
  if (auto verdict = same_bits(a.lse, b.lse); !verdict) return verdict << " (lse)";
  return ::testing::AssertionSuccess();
}

/// The dense values of a view as doubles, and their comparison with numbers from a case.
inline std::vector<double> values_of(const ConstTensorView& view) {
  const Tensor dense = Tensor::copy_of(view);
  std::vector<double> values;
  for (Index n = 0; n < dense.size(); ++n) values.push_back(load_as_double(dense, n));
  return values;
}

inline ::testing::AssertionResult near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " values, expected " << want.size();
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (got[n] == want[n] || std::abs(got[n] - want[n]) <= tolerance * std::max(1.0, std::abs(want[n]))) continue;
    return ::testing::AssertionFailure() << "value " << n << ": " << got[n] << ", expected " << want[n];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace multihead::test
