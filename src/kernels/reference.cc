#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace multihead::kernels {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

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

// The rows of query, key or value of one head as doubles: [rows, columns]. Each is converted when it is first asked for: what
// no query sees is never read.
class Rows {
 public:
  Rows(const Strided<const void>& array, Index columns) : array_(array), columns_(columns) {}

  void start(Index batch, Index head, Index first_row, Index count) {
    batch_ = batch, head_ = head, first_row_ = first_row;
    loaded_.assign(static_cast<std::size_t>(count), false);
    values_.resize(static_cast<std::size_t>(count * columns_));
  }

  const double* operator[](Index row) {
    double* out = values_.data() + row * columns_;
    if (!loaded_[static_cast<std::size_t>(row)]) {
      loaded_[static_cast<std::size_t>(row)] = true;
      switch (array_.dtype) {
        case DType::kF32:
          convert<float>(row, out);
          break;
        case DType::kF16:
          convert<Float16>(row, out);
          break;
        default:
          convert<BFloat16>(row, out);
          break;
      }
    }
    return out;
  }

 private:
  template <typename T>
  void convert(Index row, double* out) const {
    const T* from = static_cast<const T*>(array_.data);
    for (Index t = 0; t < columns_; ++t) out[t] = static_cast<float>(from[array_.offset(batch_, head_, first_row_ + row, t)]);
  }

  const Strided<const void>& array_;
  Index columns_, batch_ = 0, head_ = 0, first_row_ = 0;
  std::vector<bool> loaded_;
  std::vector<double> values_;
};

// One row: the query at row `row` of `sequence`, for one query head.
struct Row {
  Index head, row, position;
};

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

// What one row needs and leaves: per key of the sequence, and per column of the output.
struct Scratch {
  Rows query_rows, key_rows, value_rows;
  std::vector<bool> visible;
  std::vector<double> scores, probabilities, totals;
};

double score(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key, Scratch& scratch) {
  const double* query_row = scratch.query_rows[at.row];
  const double* key_row = scratch.key_rows[key];
  double dot = 0;
  for (Index t = 0; t < problem.head_dim; ++t) dot += query_row[t] * key_row[t];
  double score = problem.scale * dot;
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

// The four passes over one row. Leaves probabilities and totals, returns lse.
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
    for (std::size_t t = 0; t < totals.size(); ++t) totals[t] += probabilities[j] * value_row[t];
  }
  return base + std::log(sum);
}

void store_row(const AttentionProblem& problem, const Sequence& sequence, const Row& at, const Scratch& scratch, double lse,
               const ReferenceOutputs& outputs) {
  const Index row = sequence.query_begin + at.row;
  for (Index t = 0; t < problem.value_dim; ++t) {
    store(outputs.output, outputs.output.offset(sequence.batch, at.head, row, t), scratch.totals[static_cast<std::size_t>(t)]);
  }
  if (outputs.lse.data != nullptr) store(outputs.lse, outputs.lse.offset(sequence.batch, at.head, row, 0), lse);
  for (Index j = 0; outputs.probabilities.data != nullptr && j < sequence.key_len; ++j) {
    store(outputs.probabilities, outputs.probabilities.offset(sequence.batch, at.head, row, sequence.key_begin + j),
          scratch.probabilities[static_cast<std::size_t>(j)]);
  }
}

}  // namespace

void reference_attention(const AttentionProblem& problem, const ReferenceOutputs& outputs) {
  Scratch scratch{Rows(problem.query, problem.head_dim),
                  Rows(problem.key, problem.head_dim),
                  Rows(problem.value, problem.value_dim),
                  {},
                  {},
                  {},
                  {}};
  scratch.totals.assign(static_cast<std::size_t>(problem.value_dim), 0.0);
  for (const Sequence& sequence : problem.sequences) {
    const auto keys = static_cast<std::size_t>(sequence.key_len);
    scratch.visible.assign(keys, false);
    scratch.scores.assign(keys, kMinusInfinity);
    scratch.probabilities.assign(keys, 0.0);
    for (Index head = 0; head < problem.num_heads; ++head) {
      scratch.query_rows.start(sequence.batch, head, sequence.query_begin, sequence.query_len);
      if (head % problem.group == 0) {
        scratch.key_rows.start(sequence.key_batch, head / problem.group, sequence.key_begin, sequence.key_len);
        scratch.value_rows.start(sequence.key_batch, head / problem.group, sequence.key_begin, sequence.key_len);
      }
      for (Index i = 0; i < sequence.query_len; ++i) {
        const Row at{head, i, sequence.query_offset + i};
        const double lse = attend(problem, sequence, at, scratch);
        store_row(problem, sequence, at, scratch, lse, outputs);
      }
    }
  }
}

}  // namespace multihead::kernels
