// Captures of random calls, and what their maps must be by the definitions.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention_problem.h"
#include "constraints.h"
#include "multihead/observe.h"

namespace multihead::test {

/// Runs the call and keeps everything.
inline Capture capture_of(const Problem& problem) {
  Tensor output(problem.output_dtype, problem.shape.output());
  return capture(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, {true, true});
}

inline std::shared_ptr<const Capture> shared_capture_of(const Problem& problem) {
  return std::make_shared<const Capture>(capture_of(problem));
}

inline bool same_float(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// All probabilities of a call in float64, [batch, heads, query_len, key_len].
inline Tensor exact_probabilities(const Problem& problem) {
  Tensor output(DType::kF64, problem.shape.output()), probabilities(DType::kF64, problem.shape.scores());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                      probabilities.view());
  return probabilities;
}

/// A causal problem whose maps are [n, n], with values.
inline Problem causal_problem(Index heads, Index n, Index dim, std::uint64_t seed) {
  Problem problem =
      make_problem({.heads = heads, .kv_heads = 1, .query_len = n, .key_len = n, .head_dim = dim, .value_dim = 3}, seed);
  problem.options.causal = true;
  return problem;
}

/// The text of the InvalidArgument that `call` throws; empty, and a failure, when it throws nothing.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected InvalidArgument";
  return "";
}

/// Relative difference of two numbers, of which the second is right; 0 when both are 0.
inline double relative(double got, double want) {
  return got == want ? 0 : std::abs(got - want) / std::max(std::abs(want), 1e-300);
}

}  // namespace multihead::test
