#include "kernels/reference.h"

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
    case DType::kF64: static_cast<double*>(array.data)[offset] = value; break;
    case DType::kF32: static_cast<float*>(array.data)[offset] = static_cast<float>(value); break;
    case DType::kF16: static_cast<Float16*>(array.data)[offset] = Float16(static_cast<float>(value)); break;
    default: static_cast<BFloat16*>(array.data)[offset] = BFloat16(static_cast<float>(value)); break;
  }
}

// One row: the query at row `row` of `sequence`, for one query head.
struct Row {
  Index head, kv_head, row, position;
};

bool is_visible(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key) {
  const KeyRange range = key_range(problem, sequence, at.position);
  if (key < range.begin || key >= range.end) return false;
  const Index row = sequence.query_begin + at.row;
  const Index column = sequence.key_begin + key;
  if (problem.mask.data != nullptr &&
      static_cast<const std::uint8_t*>(problem.mask.data)[problem.mask.offset(sequence.batch, at.head, row, column)] == 0) {
    return false;
  }
  return problem.bias.data == nullptr ||
         load(problem.bias, problem.bias.offset(sequence.batch, at.head, row, column)) != kMinusInfinity;
}

double score(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key) {
  const Index row = sequence.query_begin + at.row;
  const Index column = sequence.key_begin + key;
  double dot = 0;
  for (Index t = 0; t < problem.head_dim; ++t) {
    dot += load(problem.query, problem.query.offset(sequence.batch, at.head, row, t)) *
           load(problem.key, problem.key.offset(sequence.batch, at.kv_head, sequence.key_row(key), t));
  }
  double score = problem.scale * dot;
  if (problem.softcap > 0) score = problem.softcap * std::tanh(score / problem.softcap);
  if (problem.bias.data != nullptr) score += load(problem.bias, problem.bias.offset(sequence.batch, at.head, row, column));
  if (problem.alibi_slopes != nullptr) {
    score -= static_cast<double>(problem.alibi_slopes[at.head]) * std::abs(static_cast<double>(at.position - key));
  }
  return score;
}

}  // namespace

void reference_attention(const AttentionProblem& problem, const ReferenceOutputs& outputs) {
  std::vector<double> scores, probabilities;
  std::vector<bool> visible;
  for (const Sequence& sequence : problem.sequences) {
    const auto keys = static_cast<std::size_t>(sequence.key_len);
    scores.assign(keys, kMinusInfinity);
    probabilities.assign(keys, 0.0);
    visible.assign(keys, false);
    for (Index head = 0; head < problem.num_heads; ++head) {
      for (Index i = 0; i < sequence.query_len; ++i) {
        const Row at{head, head / problem.group, i, sequence.query_offset + i};
        const double sink = problem.sinks != nullptr ? static_cast<double>(problem.sinks[head]) : kMinusInfinity;
        bool sees_any = false;

        // 1. Scores of what may be seen.
        for (std::size_t j = 0; j < keys; ++j) {
          visible[j] = is_visible(problem, sequence, at, static_cast<Index>(j));
          sees_any = sees_any || visible[j];
          scores[j] = visible[j] ? score(problem, sequence, at, static_cast<Index>(j)) : kMinusInfinity;
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
        const double lse = base + std::log(sum);
        // An empty row is decided from visibility, and selected, not multiplied.
        for (std::size_t j = 0; j < keys; ++j) probabilities[j] = sees_any ? probabilities[j] / sum : 0.0;
        // 4. The weighted mean of the values.
        const Index row = sequence.query_begin + i;
        for (Index t = 0; outputs.output.data != nullptr && t < problem.value_dim; ++t) {
          double total = sees_any ? 0.0 / sum : 0.0;  // 0 / 0: a row whose visible scores are all -inf has no answer
          for (std::size_t j = 0; j < keys; ++j) {
            if (!visible[j] || scores[j] == kMinusInfinity) continue;
            const Index column = sequence.key_row(static_cast<Index>(j));
            total += probabilities[j] * load(problem.value, problem.value.offset(sequence.batch, at.kv_head, column, t));
          }
          store(outputs.output, outputs.output.offset(sequence.batch, head, row, t), total);
        }
        if (outputs.lse.data != nullptr) store(outputs.lse, outputs.lse.offset(sequence.batch, head, row, 0), lse);
        for (std::size_t j = 0; outputs.probabilities.data != nullptr && j < keys; ++j) {
          const Index column = sequence.key_begin + static_cast<Index>(j);
          store(outputs.probabilities, outputs.probabilities.offset(sequence.batch, head, row, column), probabilities[j]);
        }
      }
    }
  }
}

}  // namespace multihead::kernels
