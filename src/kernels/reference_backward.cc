#include <cmath>

#include "kernels/reference.h"
#include "kernels/reference_row.h"

namespace multihead::kernels {
namespace {

using reference::kMinusInfinity;
using reference::Row;
using reference::Scratch;

double* at(const Strided<double>& array, Index batch, Index head, Index row, Index column) {
  return array.data == nullptr ? nullptr : array.data + array.offset(batch, head, row, column);
}

// What one row adds to the gradients, given its probabilities.
class RowGradients {
 public:
  RowGradients(const AttentionProblem& problem, const Strided<const void>& grad_output, const ReferenceGradients& gradients)
      : problem_(problem),
        grad_output_(grad_output),
        gradients_(gradients),
        grad_(static_cast<std::size_t>(problem.value_dim)) {}

  void add(const Sequence& sequence, const Row& row, double lse, Scratch& scratch) {
    const Index query = sequence.query_begin + row.row;
    for (std::size_t t = 0; t < grad_.size(); ++t) {
      grad_[t] = reference::load(grad_output_, grad_output_.offset(sequence.batch, row.head, query, static_cast<Index>(t)));
    }
    // 1. dP and the mean of it that the softmax subtracts.
    grad_probabilities_.assign(static_cast<std::size_t>(sequence.key_len), 0.0);
    double mean = 0;
    bool sees_any = false;
    for (Index j = 0; j < sequence.key_len; ++j) {
      const auto n = static_cast<std::size_t>(j);
      sees_any = sees_any || scratch.visible[n];
      if (!contributes(scratch, n)) continue;
      const double* value_row = scratch.value_rows[j];
      for (std::size_t t = 0; t < grad_.size(); ++t) grad_probabilities_[n] += grad_[t] * value_row[t];
      grad_probabilities_[n] *= reference::dropout_factor(problem_, sequence, row, j);
      mean += scratch.probabilities[n] * grad_probabilities_[n];
    }
    if (!sees_any) return;
    // 2. What each pair gives.
    for (Index j = 0; j < sequence.key_len; ++j) {
      const auto n = static_cast<std::size_t>(j);
      if (contributes(scratch, n)) {
        add_pair(sequence, row, j, scratch.probabilities[n], scratch.probabilities[n] * (grad_probabilities_[n] - mean),
                 scratch);
      }
    }
    if (gradients_.sinks != nullptr && static_cast<double>(problem_.sinks[row.head]) != kMinusInfinity) {
      gradients_.sinks[row.head] -= std::exp(static_cast<double>(problem_.sinks[row.head]) - lse) * mean;
    }
  }

 private:
  // A visible score of -inf has probability 0 and contributes nothing.
  static bool contributes(const Scratch& scratch, std::size_t key) {
    return scratch.visible[key] && scratch.scores[key] != kMinusInfinity;
  }

  void add_pair(const Sequence& sequence, const Row& row, Index key, double probability, double grad_score, Scratch& scratch) {
    const Index query = sequence.query_begin + row.row, column = sequence.key_begin + key;
    const Index kv_head = row.head / problem_.group;
    if (double* out = at(gradients_.value, sequence.key_batch, kv_head, column, 0)) {
      const double weight = probability * reference::dropout_factor(problem_, sequence, row, key);
      for (std::size_t t = 0; t < grad_.size(); ++t) out[t] += weight * grad_[t];
    }
    if (double* out = at(gradients_.bias, sequence.batch, row.head, query, column)) *out += grad_score;
    if (gradients_.alibi_slopes != nullptr) {
      gradients_.alibi_slopes[row.head] -= grad_score * std::abs(static_cast<double>(row.position - key));
    }
    if (problem_.softcap > 0) {
      const double capped = std::tanh(reference::scaled_product(problem_, row, key, scratch) / problem_.softcap);
      grad_score *= 1 - capped * capped;
    }
    double* const grad_query = at(gradients_.query, sequence.batch, row.head, query, 0);
    double* const grad_key = at(gradients_.key, sequence.key_batch, kv_head, column, 0);
    const double *query_row = scratch.query_rows[row.row], *key_row = scratch.key_rows[key];
    for (Index t = 0; t < problem_.head_dim; ++t) {
      if (grad_query != nullptr) grad_query[t] += problem_.scale * grad_score * key_row[t];
      if (grad_key != nullptr) grad_key[t] += problem_.scale * grad_score * query_row[t];
    }
  }

  const AttentionProblem& problem_;
  const Strided<const void>& grad_output_;
  const ReferenceGradients& gradients_;
  std::vector<double> grad_, grad_probabilities_;
};

}  // namespace

void reference_attention_backward(const AttentionProblem& problem, const Strided<const void>& grad_output,
                                  const ReferenceGradients& gradients) {
  Scratch scratch = reference::make_scratch(problem);
  RowGradients rows(problem, grad_output, gradients);
  for (const Sequence& sequence : problem.sequences) {
    reference::start_sequence(sequence, scratch);
    for (Index head = 0; head < problem.num_heads; ++head) {
      reference::start_head(problem, sequence, head, scratch);
      for (Index i = 0; i < sequence.query_len; ++i) {
        const Row row{head, i, sequence.query_offset + i};
        const double lse = reference::attend(problem, sequence, row, scratch);
        rows.add(sequence, row, lse, scratch);
      }
    }
  }
}

}  // namespace multihead::kernels
