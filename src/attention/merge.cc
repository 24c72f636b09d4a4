// merge: partial results over disjoint keys, joined by their log-sum-exp.
#include <cmath>

#include "attention/validate.h"
#include "base/message.h"
#include "base/parallel.h"
#include "multihead/attention.h"

namespace multihead {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Parts {
  std::vector<kernels::Strided<const void>> outputs, lses;
};

// The joint lse of one row; a part (or sink) at -inf is neutral, all of them -inf stay -inf.
double joint_lse(const Parts& parts, Index batch, Index head, Index row, double sink) {
  double maximum = sink;
  const auto lse_of = [&](const kernels::Strided<const void>& lse) {
    return static_cast<double>(static_cast<const float*>(lse.data)[lse.offset(batch, head, row, 0)]);
  };
  for (const auto& lse : parts.lses) maximum = std::fmax(maximum, lse_of(lse));
  if (maximum == kMinusInfinity) return maximum;
  double sum = std::exp(sink - maximum);
  for (const auto& lse : parts.lses) sum += std::exp(lse_of(lse) - maximum);
  return maximum + std::log(sum);
}

}  // namespace

void merge(const std::vector<ConstTensorView>& outputs, const std::vector<ConstTensorView>& lses, const TensorView& output,
           const std::optional<TensorView>& lse, const std::vector<float>& sinks) {
  constexpr const char* kFunction = "merge";
  require(outputs.size() == lses.size(), kFunction, ": expected one lse for every output; got ", outputs.size(), " outputs and ",
          lses.size(), " lses");
  require(output.rank() == 4, kFunction, ": expected output of rank 4 [batch, num_heads, query_len, value_dim]; got ",
          output.shape);
  const Dims& shape = output.shape;
  const Dims rows{shape[0], shape[1], shape[2]};
  require(sinks.empty() || static_cast<Index>(sinks.size()) == shape[1], kFunction, ": expected sinks [num_heads] = [", shape[1], "]; got ",
          sinks.size(), " values");
  const auto out = validate_result(kFunction, "output", output, shape, {DType::kF32, DType::kF16, DType::kBF16});
  kernels::Strided<void> lse_out;
  if (lse) lse_out = validate_result(kFunction, "lse", *lse, rows, {DType::kF32});
  Parts parts;
  for (std::size_t p = 0; p < outputs.size(); ++p) {
    parts.outputs.push_back(validate_input(kFunction, concat("outputs[", p, "]").c_str(), outputs[p], shape, {DType::kF32, DType::kF16, DType::kBF16}));
    parts.lses.push_back(validate_input(kFunction, concat("lses[", p, "]").c_str(), lses[p], rows, {DType::kF32}));
  }
  if (rows.product() == 0) return;
  constexpr Index kRowsAtOnce = 64;
  const Index groups = (rows.product() + kRowsAtOnce - 1) / kRowsAtOnce;
  parallel_for(groups, threads_for(groups / 16), [&](Index group, int) {
    std::vector<double> factors(outputs.size());
    for (Index flat = group * kRowsAtOnce; flat < std::min((group + 1) * kRowsAtOnce, rows.product()); ++flat) {
      const Index row = flat % shape[2], head = flat / shape[2] % shape[1], batch = flat / shape[2] / shape[1];
      const double sink = sinks.empty() ? kMinusInfinity : static_cast<double>(sinks[static_cast<std::size_t>(head)]);
      const double joint = joint_lse(parts, batch, head, row, sink);
      for (std::size_t p = 0; p < factors.size(); ++p) {
        const auto& part = parts.lses[p];
        const auto of_part = static_cast<double>(static_cast<const float*>(part.data)[part.offset(batch, head, row, 0)]);
        factors[p] = of_part == kMinusInfinity ? 0.0 : std::exp(of_part - joint);
      }
      for (Index t = 0; t < shape[3]; ++t) {
        double total = 0;
        for (std::size_t p = 0; p < factors.size(); ++p) {
          if (factors[p] == 0.0) continue;
          const auto& part = parts.outputs[p];
          total += factors[p] * load_as_double(ConstTensorView(part.data, part.dtype, {}, {}), part.offset(batch, head, row, t));
        }
        const Index at = out.offset(batch, head, row, t);
        switch (out.dtype) {
          case DType::kF32: static_cast<float*>(out.data)[at] = static_cast<float>(total); break;
          case DType::kF16: static_cast<Float16*>(out.data)[at] = Float16(static_cast<float>(total)); break;
          default: static_cast<BFloat16*>(out.data)[at] = BFloat16(static_cast<float>(total)); break;
        }
      }
      if (lse) static_cast<float*>(lse_out.data)[lse_out.offset(batch, head, row, 0)] = static_cast<float>(joint);
    }
  });
}

}  // namespace multihead
