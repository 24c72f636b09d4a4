#include "decoder/norm.h"

#include <cmath>

#include "base/column_sums.h"
#include "base/parallel.h"

namespace multihead::decoder {
namespace {

// 1 / sqrt(mean(x^2) + epsilon).
double inverse_size(const float* x, Index width, double epsilon) {
  double sum = 0;
  for (Index t = 0; t < width; ++t) sum += static_cast<double>(x[t]) * static_cast<double>(x[t]);
  return 1 / std::sqrt(sum / static_cast<double>(width) + epsilon);
}

}  // namespace

void rms_norm(const Rows& x, const float* weight, double epsilon, float* y) {
  parallel_for(x.count, threads_for(x.count), [&](Index row, int) {
    const float* in = x.data + row * x.width;
    float* out = y + row * x.width;
    const auto r = static_cast<float>(inverse_size(in, x.width, epsilon));
    for (Index t = 0; t < x.width; ++t) out[t] = in[t] * r * weight[t];
  });
}

void rms_norm_backward(const Rows& x, const float* weight, double epsilon, const float* dy, float* dx, float* dweight) {
  const std::vector<double> dg = column_sums(x.count, x.width, [&](Index row, double* sums) {
    const float *in = x.data + row * x.width, *g = dy + row * x.width;
    float* out = dx + row * x.width;
    const double r = inverse_size(in, x.width, epsilon);
    double projection = 0;
    for (Index t = 0; t < x.width; ++t) {
      const double normalized = static_cast<double>(in[t]) * r;
      projection += static_cast<double>(weight[t]) * static_cast<double>(g[t]) * normalized;
      sums[t] += static_cast<double>(g[t]) * normalized;
    }
    projection /= static_cast<double>(x.width);
    for (Index t = 0; t < x.width; ++t) {
      const double along = static_cast<double>(in[t]) * r * projection;
      out[t] = static_cast<float>(r * (static_cast<double>(weight[t]) * static_cast<double>(g[t]) - along));
    }
  });
  for (Index t = 0; t < x.width; ++t) dweight[t] = static_cast<float>(dg[static_cast<std::size_t>(t)]);
}

}  // namespace multihead::decoder
