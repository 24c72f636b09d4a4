#include "observe/values.h"

#include <cmath>

#include "base/message.h"
#include "base/parallel.h"
#include "multihead/statistics.h"

namespace multihead {
namespace {

// x -> ‖x W‖ for one head's W = W_O^h, [value_dim, output_dim]: as sqrt(x M x^T) with M = W W^T, so that a row costs
// value_dim^2 and not value_dim * output_dim. In float64: the square of an f32 number is exact in it.
class Length {
 public:
  Length(const Tensor& output_weight, Index head, Index dim) : dim_(dim) {
    if (output_weight.rank() == 0) return;
    const Index outputs = output_weight.shape()[0], width = output_weight.shape()[1];
    products_.assign(static_cast<std::size_t>(dim * dim), 0);
    std::vector<double> row(static_cast<std::size_t>(dim));
    for (Index o = 0; o < outputs; ++o) {
      for (Index t = 0; t < dim; ++t)
        row[static_cast<std::size_t>(t)] = load_as_double(output_weight, o * width + head * dim + t);
      for (Index a = 0; a < dim; ++a) {
        for (Index b = 0; b < dim; ++b) {
          products_[static_cast<std::size_t>(a * dim + b)] +=
              row[static_cast<std::size_t>(a)] * row[static_cast<std::size_t>(b)];
        }
      }
    }
  }

  double squared(const std::vector<double>& x) const {
    double sum = 0;
    for (Index a = 0; a < dim_; ++a) {
      double part = products_.empty() ? x[static_cast<std::size_t>(a)] : 0;
      for (Index b = 0; !products_.empty() && b < dim_; ++b) {
        part += products_[static_cast<std::size_t>(a * dim_ + b)] * x[static_cast<std::size_t>(b)];
      }
      sum += x[static_cast<std::size_t>(a)] * part;
    }
    return std::max(sum, 0.0);
  }

 private:
  Index dim_;
  std::vector<double> products_;  // [dim, dim]; empty: the identity
};

// Squared lengths of `count` rows of a dense tensor from element `first` on.
std::vector<double> squares(const Tensor& rows, Index first, Index count, const Length& length) {
  const Index dim = rows.shape()[3];
  std::vector<double> result(static_cast<std::size_t>(count));
  constexpr Index kPiece = 256;
  const Index pieces = (count + kPiece - 1) / kPiece;
  parallel_for(pieces, threads_for(pieces), [&](Index piece, int) {
    std::vector<double> x(static_cast<std::size_t>(dim));
    for (Index i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) {
      for (Index t = 0; t < dim; ++t) x[static_cast<std::size_t>(t)] = load_as_double(rows, first + i * dim + t);
      result[static_cast<std::size_t>(i)] = length.squared(x);
    }
  });
  return result;
}

}  // namespace

std::vector<float> value_norms_of(const CaptureView& view, Index head) {
  const Tensor& value = view.capture().value;
  const Index dim = value.shape()[3], length = view.key_len();
  const Length norm(view.capture().output_weight, head, dim);
  std::vector<float> norms(static_cast<std::size_t>(length), 0.0f);
  for (const kernels::Sequence& s : view.sequences()) {
    const Index row = (s.key_batch * view.capture().num_kv_heads() + head / view.group()) * length + s.key_begin;
    const std::vector<double> squared = squares(value, row * dim, s.key_len, norm);
    for (Index j = 0; j < s.key_len; ++j) {
      norms[static_cast<std::size_t>(s.key_begin + j)] = static_cast<float>(std::sqrt(squared[static_cast<std::size_t>(j)]));
    }
  }
  return norms;
}

double output_norm_of(const CaptureView& view, Index head) {
  const Tensor& output = view.capture().output;
  const Index dim = output.shape()[3], length = view.query_len();
  const Length norm(view.capture().output_weight, head, dim);
  double sum = 0;
  for (const double square : squares(output, (view.batch() * view.heads() + head) * length * dim, length, norm)) sum += square;
  return std::sqrt(sum);
}

std::vector<float> value_norms(const AttentionMap& map, Index head) {
  const CaptureView view(map.shared_capture(), map.batch_entry());
  view.require_head("value_norms", head);
  require(view.capture().value.rank() > 0, "value_norms: expected a capture that keeps its values (CaptureParts::value)");
  return value_norms_of(view, head);
}

}  // namespace multihead
