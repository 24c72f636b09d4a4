#include "kernels/reference_row.h"

#include <algorithm>
#include <cmath>

namespace multihead::kernels::reference {

double load(const Strided<const void>& array, Index offset) {
  return load_as_double(ConstTensorView(array.data, array.dtype, {}, {}), offset);
}

void store(const Strided<void>& array, Index offset, double value) {
  switch (array.dtype) {
    case DType::kF64:
      static_cast<double*>(array.data)[offset] = value;
      break;
    case DType::kF32:
      static_cast<float*>(array.data)[offset] = static_cast<float>(value);
      break;
    case DType::kF16:
      static_cast<Float16*>(array.data)[offset] = Float16(static_cast<float>(value));
      break;
    default:
      static_cast<BFloat16*>(array.data)[offset] = BFloat16(static_cast<float>(value));
      break;
  }
}

// Written out from the definition, on purpose not with key_range, which the fast kernels use: the two check each other.
bool is_visible(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key) {
  if (problem.causal && key > at.position) return false;
  if (problem.window_left != kUnlimited && at.position - key > problem.window_left) return false;
  if (problem.window_right != kUnlimited && key - at.position > problem.window_right) return false;
  const Index row = sequence.query_begin + at.row;
  const Index column = sequence.key_begin + key;
  if (problem.mask.data != nullptr &&
      static_cast<const std::uint8_t*>(problem.mask.data)[problem.mask.offset(sequence.batch, at.head, row, column)] == 0) {
    return false;
  }
  return problem.bias.data == nullptr ||
         load(problem.bias, problem.bias.offset(sequence.batch, at.head, row, column)) != kMinusInfinity;
}

Scratch make_scratch(const AttentionProblem& problem) {
  Scratch scratch{Rows(problem.query, problem.head_dim),
                  Rows(problem.key, problem.head_dim),
                  Rows(problem.value, problem.value_dim),
                  {},
                  {},
                  {},
                  {}};
  scratch.totals.assign(static_cast<std::size_t>(problem.value_dim), 0.0);
  return scratch;
}

void start_sequence(const Sequence& sequence, Scratch& scratch) {
  const auto keys = static_cast<std::size_t>(sequence.key_len);
  scratch.visible.assign(keys, false);
  scratch.scores.assign(keys, kMinusInfinity);
  scratch.probabilities.assign(keys, 0.0);
}

void start_head(const AttentionProblem& problem, const Sequence& sequence, Index head, Scratch& scratch) {
  scratch.query_rows.start(sequence.batch, head, sequence.query_begin, sequence.query_len);
  if (head % problem.group != 0) return;
  scratch.key_rows.start(sequence.key_batch, head / problem.group, sequence.key_begin, sequence.key_len);
  scratch.value_rows.start(sequence.key_batch, head / problem.group, sequence.key_begin, sequence.key_len);
}

double scaled_product(const AttentionProblem& problem, const Row& at, Index key, Scratch& scratch) {
  const double* query_row = scratch.query_rows[at.row];
  const double* key_row = scratch.key_rows[key];
  double dot = 0;
  for (Index t = 0; t < problem.head_dim; ++t) dot += query_row[t] * key_row[t];
  return problem.scale * dot;
}

namespace {

double score(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key, Scratch& scratch) {
  double score = scaled_product(problem, at, key, scratch);
  if (problem.softcap > 0) score = problem.softcap * std::tanh(score / problem.softcap);
  if (problem.bias.data != nullptr) {
    score += load(problem.bias,
                  problem.bias.offset(sequence.batch, at.head, sequence.query_begin + at.row, sequence.key_begin + key));
  }
  if (problem.alibi_slopes != nullptr) {
    score -= static_cast<double>(problem.alibi_slopes[at.head]) * std::abs(static_cast<double>(at.position - key));
  }
  return score;
}

}  // namespace

double attend(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Scratch& scratch) {
  auto& [query_rows, key_rows, value_rows, visible, scores, probabilities, totals] = scratch;
  const auto keys = static_cast<std::size_t>(sequence.key_len);
  const double sink = problem.sinks != nullptr ? static_cast<double>(problem.sinks[at.head]) : kMinusInfinity;
  // 1. Scores of what may be seen.
  bool sees_any = false;
  for (std::size_t j = 0; j < keys; ++j) {
    const auto key = static_cast<Index>(j);
    visible[j] = is_visible(problem, sequence, at, key);
    sees_any = sees_any || visible[j];
    scores[j] = visible[j] ? score(problem, sequence, at, key, scratch) : kMinusInfinity;
  }
  // 2. The maximum, the sink included.
  double maximum = sink;
  for (std::size_t j = 0; j < keys; ++j) maximum = std::fmax(maximum, scores[j]);
  // 3. Exponentials and their sum. A visible score of -inf has probability 0 and contributes nothing.
  const double base = maximum == kMinusInfinity ? 0.0 : maximum;
  double sum = std::exp(sink - base);
  for (std::size_t j = 0; j < keys; ++j) {
    probabilities[j] = visible[j] ? std::exp(scores[j] - base) : 0.0;
    sum += probabilities[j];
  }
  // What is not visible is selected to be 0, not computed: where a NaN is visible, 0 / sum would be NaN.
  for (std::size_t j = 0; j < keys; ++j) probabilities[j] = visible[j] ? probabilities[j] / sum : 0.0;
  // 4. The weighted mean of the values. 0 / 0: a row whose visible scores are all -inf has no answer.
  std::fill(totals.begin(), totals.end(), sees_any ? 0.0 / sum : 0.0);
  for (std::size_t j = 0; j < keys && !totals.empty(); ++j) {
    if (!visible[j] || scores[j] == kMinusInfinity) continue;
    const double* value_row = value_rows[static_cast<Index>(j)];
    const double weight = probabilities[j] * dropout_factor(problem, sequence, at, static_cast<Index>(j));
    for (std::size_t t = 0; t < totals.size(); ++t) totals[t] += weight * value_row[t];
  }
  return base + std::log(sum);
}

}  // namespace multihead::kernels::reference
