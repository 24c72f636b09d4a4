// What the reference's two directions share: one row of attention in float64, from the definition.
#pragma once

#include <limits>
#include <vector>

#include "kernels/problem.h"

namespace multihead::kernels::reference {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double load(const Strided<const void>& array, Index offset);
void store(const Strided<void>& array, Index offset, double value);

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

bool is_visible(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key);

// What one row needs and leaves: per key of the sequence, and per column of the output.
struct Scratch {
  Rows query_rows, key_rows, value_rows;
  std::vector<bool> visible;
  std::vector<double> scores, probabilities, totals;
};

/// Empty rows of a problem, and room for one row of a sequence.
Scratch make_scratch(const AttentionProblem& problem);
void start_sequence(const Sequence& sequence, Scratch& scratch);
/// Before the rows of `head`.
void start_head(const AttentionProblem& problem, const Sequence& sequence, Index head, Scratch& scratch);

/// scale * <query, key>: the score before softcap, bias and ALiBi.
double scaled_product(const AttentionProblem& problem, const Row& at, Index key, Scratch& scratch);

/// What dropout multiplies the coefficient by; 1 without dropout.
inline double dropout_factor(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Index key) {
  if (!problem.drops()) return 1;
  return static_cast<double>(problem.dropout.factor_of(problem.draws_of(sequence, at.head, at.position), key));
}

/// The four passes over one row. Leaves scores, probabilities (before dropout) and totals, returns lse.
double attend(const AttentionProblem& problem, const Sequence& sequence, const Row& at, Scratch& scratch);

}  // namespace multihead::kernels::reference
