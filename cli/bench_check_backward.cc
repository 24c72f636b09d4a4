#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bench_check.h"
#include "multihead/accuracy.h"

namespace multihead::cli {
namespace {

constexpr Index kSample = 16;
constexpr Index kHeadStep = 7;  // as in bench_check.cc

using Doubles = std::vector<double>;

// Rows of one head as doubles: [rows, columns].
Doubles rows_of(const ConstTensorView& view, Index head) {
  const ConstTensorView rows = Tensor::copy_of(view.slice(1, head, head + 1));
  Doubles values(static_cast<std::size_t>(rows.size()));
  for (Index n = 0; n < rows.size(); ++n) values[static_cast<std::size_t>(n)] = load_as_double(rows, n);
  return values;
}

double dot(const double* a, const double* b, Index count) {
  double sum = 0;
  for (Index t = 0; t < count; ++t) sum += a[t] * b[t];
  return sum;
}

double absolute_dot(const double* a, const double* b, Index count) {
  double sum = 0;
  for (Index t = 0; t < count; ++t) sum += std::abs(a[t] * b[t]);
  return sum;
}

// One gradient's row in float64, and the sums of its terms' sizes.
struct ExactRow {
  Doubles values, sizes;

  explicit ExactRow(Index columns) : values(static_cast<std::size_t>(columns)), sizes(static_cast<std::size_t>(columns)) {}
  void add(double weight, double size, const double* row) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      values[t] += weight * row[t];
      sizes[t] += size * std::abs(row[t]);
    }
  }
  void compare(const ConstTensorView& got, Index head, Index row, double growth, BenchError& worst) const {
    const Accuracy contract = accuracy_of("gradients", got.dtype);
    const Index start = head * got.strides[1] + row * got.strides[2];
    double error = 0, scale = 0;
    for (std::size_t t = 0; t < values.size(); ++t) {
      const double off = load_as_double(got, start + static_cast<Index>(t) * got.strides[3]) - values[t];
      worst.within = worst.within && std::abs(off) <= growth * contract.relative_frobenius * sizes[t] + contract.absolute;
      error += off * off;
      scale += sizes[t] * sizes[t];
    }
    const double relative = std::sqrt(error / scale);
    worst.relative = std::isnan(relative) ? std::numeric_limits<double>::infinity() : std::max(worst.relative, relative);
  }
};

// One head in float64, from its inputs, its output and its lse.
class ExactHead {
 public:
  ExactHead(const BackwardAnswer& answer, Index head)
      : answer_(answer),
        head_(head),
        kv_head_(head / group()),
        dim_(answer.query.shape[3]),
        value_dim_(answer.value.shape[3]),
        keys_(rows_of(answer.key, kv_head_)),
        values_(rows_of(answer.value, kv_head_)) {
    load_queries(head);
  }

  void check_query(Index i, BenchError& worst) const {
    ExactRow row(dim_);
    for (Index j = 0; j < answer_.key.shape[2]; ++j) {
      const Pair pair = pair_of(i, j);
      row.add(scale() * pair.gradient, scale() * pair.size, key(j));
    }
    row.compare(answer_.grad_query, head_, i, growth(), worst);
  }

  // Key and value j: terms of all query heads of the group.
  void check_key(Index j, BenchError& worst) {
    ExactRow of_key(dim_), of_value(value_dim_);
    for (Index head = kv_head_ * group(); head < (kv_head_ + 1) * group(); ++head) {
      load_queries(head);
      for (Index i = 0; i < answer_.query.shape[2]; ++i) {
        const Pair pair = pair_of(i, j);
        of_key.add(scale() * pair.gradient, scale() * pair.size, query(i));
        of_value.add(pair.probability, pair.probability, grad(i));
      }
    }
    of_key.compare(answer_.grad_key, kv_head_, j, growth(), worst);
    of_value.compare(answer_.grad_value, kv_head_, j, growth(), worst);
  }

 private:
  struct Pair {
    double probability = 0, gradient = 0, size = 0;
  };

  Index group() const { return answer_.query.shape[1] / answer_.key.shape[1]; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(dim_)); }
  const double* query(Index i) const { return queries_.data() + i * dim_; }
  const double* key(Index j) const { return keys_.data() + j * dim_; }
  const double* value(Index j) const { return values_.data() + j * value_dim_; }
  const double* grad(Index i) const { return grads_.data() + i * value_dim_; }
  const double* output(Index i) const { return outputs_.data() + i * value_dim_; }

  void load_queries(Index head) {
    if (head == loaded_) return;
    loaded_ = head;
    queries_ = rows_of(answer_.query, head);
    grads_ = rows_of(answer_.grad_output, head);
    outputs_ = rows_of(answer_.output, head);
    lse_.resize(static_cast<std::size_t>(answer_.query.shape[2]));
    for (std::size_t i = 0; i < lse_.size(); ++i) {
      lse_[i] = load_as_double(answer_.lse, head * answer_.lse.strides[1] + static_cast<Index>(i) * answer_.lse.strides[2]);
    }
  }

  double growth() const {
    const auto longest = [this](const Doubles& rows) {
      double square = 0;
      for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(dim_)) {
        square = std::max(square, dot(rows.data() + at, rows.data() + at, dim_));
      }
      return std::sqrt(square);
    };
    return accuracy_growth(scale() * longest(queries_) * longest(keys_));
  }

  bool sees(Index i, Index j) const {
    const Index behind = answer_.key.shape[2] - answer_.query.shape[2] + i - j;
    const Window window = answer_.options.window.value_or(Window{});
    return !(answer_.options.causal && behind < 0) && !(window.left && behind > *window.left) &&
           !(window.right && -behind > *window.right);
  }

  Pair pair_of(Index i, Index j) const {
    if (!sees(i, j)) return {};
    const double p = std::exp(scale() * dot(query(i), key(j), dim_) - lse_[static_cast<std::size_t>(i)]);
    const double product = dot(grad(i), value(j), value_dim_) - dot(grad(i), output(i), value_dim_);
    const double size = absolute_dot(grad(i), value(j), value_dim_) + absolute_dot(grad(i), output(i), value_dim_);
    return {p, p * product, p * size};
  }

  const BackwardAnswer& answer_;
  Index head_, kv_head_, dim_, value_dim_, loaded_ = -1;
  Doubles keys_, values_, queries_, grads_, outputs_, lse_;
};

}  // namespace

BenchError check_backward(const BackwardAnswer& answer) {
  BenchError worst;
  const Index heads = answer.query.shape[1], queries = answer.query.shape[2], keys = answer.key.shape[2];
  for (Index s = 0; s < kSample; ++s) {
    ExactHead head(answer, s * kHeadStep % heads);
    head.check_query(s * (queries - 1) / (kSample - 1), worst);
    head.check_key(s * (keys - 1) / (kSample - 1), worst);
  }
  return worst;
}

}  // namespace multihead::cli
