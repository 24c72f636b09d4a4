#include "layer/query_key_norm.h"

#include <cmath>

#include "base/column_sums.h"
#include "base/parallel.h"

namespace multihead {
namespace {

// Any of the three weight shapes, or nothing, as [num_heads, head_dim].
std::vector<float> per_head(const ConstTensorView& weight, Index num_heads, Index head_dim, float offset) {
  const auto width = static_cast<std::size_t>(num_heads * head_dim);
  if (weight.data == nullptr) return std::vector<float>(width, offset);
  const Tensor numbers = Tensor::converted(weight, DType::kF32);
  std::vector<float> result(width);
  for (std::size_t i = 0; i < width; ++i)
    result[i] = numbers.data<float>()[i % static_cast<std::size_t>(numbers.size())] + offset;
  return result;
}

}  // namespace

HeadNorm::HeadNorm(const QueryKeyNorm& norm, const ConstTensorView& weight, const ConstTensorView& bias, Index num_heads,
                   Index head_dim)
    : norm_(norm),
      num_heads_(num_heads),
      head_dim_(head_dim),
      heads_together_(norm_spans_all_heads(weight.shape, num_heads, head_dim) ? num_heads : 1),
      factor_(per_head(weight, num_heads, head_dim, norm.weight_plus_one ? 1.0f : 0.0f)),
      shift_(per_head(bias, num_heads, head_dim, 0.0f)) {}

void HeadNorm::apply(const TensorView& heads) const {
  const Index length = heads.shape[2], rows = heads.shape[0] * length;
  parallel_for(rows, threads_for(rows), [&](Index row, int) {
    for (Index head = 0; head < num_heads_; head += heads_together_) {
      normalize(&heads.at<float>(row / length, head, row % length, 0), heads_together_, heads.strides[1],
                static_cast<std::size_t>(head * head_dim_));
    }
  });
}

// `heads` heads of one row under one mean; `first` is where their factors start.
void HeadNorm::normalize(float* x, Index heads, Index head_stride, std::size_t first) const {
  const auto for_each = [&](auto visit) {
    for (Index head = 0; head < heads; ++head) {
      for (Index t = 0; t < head_dim_; ++t)
        visit(x[head * head_stride + t], first + static_cast<std::size_t>(head * head_dim_ + t));
    }
  };
  const auto count = static_cast<double>(heads * head_dim_);
  double mean = 0;
  if (norm_.kind == QueryKeyNorm::Kind::kLayer) {
    for_each([&](float value, std::size_t) { mean += static_cast<double>(value); });
    mean /= count;
  }
  double variance = 0;
  for_each([&](float value, std::size_t) {
    const double deviation = static_cast<double>(value) - mean;
    variance += deviation * deviation;
  });
  const auto centre = static_cast<float>(mean);
  const auto scale = static_cast<float>(1.0 / std::sqrt(variance / count + norm_.epsilon));
  for_each([&](float& value, std::size_t i) { value = (value - centre) * scale * factor_[i] + shift_[i]; });
}

// One row's heads; sums are [factor | shift] of [num_heads, head_dim] each.
void HeadNorm::backward_row(const ConstTensorView& before, const TensorView& gradient, Index row, double* sums) const {
  const Index length = before.shape[2], width = num_heads_ * head_dim_;
  const bool centred = norm_.kind == QueryKeyNorm::Kind::kLayer;
  std::vector<double> z(static_cast<std::size_t>(heads_together_ * head_dim_)), g(z.size());
  const auto count = static_cast<double>(z.size());
  for (Index head = 0; head < num_heads_; head += heads_together_) {
    const auto for_each = [&](auto visit) {
      for (std::size_t i = 0; i < z.size(); ++i) {
        const Index h = head + static_cast<Index>(i) / head_dim_, t = static_cast<Index>(i) % head_dim_;
        visit(i, before.at<float>(row / length, h, row % length, t), gradient.at<float>(row / length, h, row % length, t),
              h * head_dim_ + t);
      }
    };
    double mean = 0, variance = 0;
    if (centred) for_each([&](std::size_t, float x, float, Index) { mean += static_cast<double>(x) / count; });
    for_each([&](std::size_t i, float x, float, Index) {
      z[i] = static_cast<double>(x) - mean;
      variance += z[i] * z[i] / count;
    });
    const double r = 1 / std::sqrt(variance + norm_.epsilon);
    double mean_g = 0, mean_gz = 0;
    for_each([&](std::size_t i, float, float dy, Index column) {
      z[i] *= r;
      g[i] = static_cast<double>(dy) * static_cast<double>(factor_[static_cast<std::size_t>(column)]);
      mean_g += g[i] / count;
      mean_gz += g[i] * z[i] / count;
      sums[column] += static_cast<double>(dy) * z[i];
      sums[width + column] += static_cast<double>(dy);
    });
    if (!centred) mean_g = 0;
    for_each([&](std::size_t i, float, float& dy, Index) { dy = static_cast<float>(r * (g[i] - mean_g - z[i] * mean_gz)); });
  }
}

HeadNorm::Gradients HeadNorm::backward(const ConstTensorView& before, const TensorView& gradient) const {
  const auto width = static_cast<std::size_t>(num_heads_ * head_dim_);
  const std::vector<double> sums = column_sums(before.shape[0] * before.shape[2], static_cast<Index>(2 * width),
                                               [&](Index row, double* group) { backward_row(before, gradient, row, group); });
  return {{sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(width)},
          {sums.begin() + static_cast<std::ptrdiff_t>(width), sums.end()}};
}

}  // namespace multihead
