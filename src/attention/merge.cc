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

// What the parts weigh in one row.
struct Shares {
  std::vector<std::size_t> present;  // the parts that saw a key there: lse above -inf, or NaN
  std::vector<double> weights;       // theirs; with the sink's they sum to 1
  double lse = kMinusInfinity;
};

// Weights are exp(lse_p - maximum) over their sum, not exp(lse_p - lse): an lse of 1e30 swallows the logarithm of the sum.
void weigh(const Parts& parts, Index batch, Index head, Index row, double sink, Shares& shares) {
  shares.present.clear();
  shares.weights.clear();
  double maximum = sink;
  for (std::size_t p = 0; p < parts.lses.size(); ++p) {
    const auto& lses = parts.lses[p];
    const auto lse = static_cast<double>(static_cast<const float*>(lses.data)[lses.offset(batch, head, row, 0)]);
    if (lse == kMinusInfinity) continue;
    shares.present.push_back(p);
    shares.weights.push_back(lse);
    maximum = std::fmax(maximum, lse);
  }
  const double base = maximum == kMinusInfinity ? 0.0 : maximum;
  double sum = std::exp(sink - base);
  for (double& weight : shares.weights) sum += weight = std::exp(weight - base);
  for (double& weight : shares.weights) weight /= sum;
  shares.lse = base + std::log(sum);
}

void store(const kernels::Strided<void>& array, Index at, double value) {
  switch (array.dtype) {
    case DType::kF32:
      static_cast<float*>(array.data)[at] = static_cast<float>(value);
      break;
    case DType::kF16:
      static_cast<Float16*>(array.data)[at] = Float16(static_cast<float>(value));
      break;
    default:
      static_cast<BFloat16*>(array.data)[at] = BFloat16(static_cast<float>(value));
      break;
  }
}

void require_sinks(const char* function, const std::vector<float>& sinks, Index heads) {
  require(sinks.empty() || static_cast<Index>(sinks.size()) == heads, function, ": expected sinks [num_heads] = [", heads,
          "]; got ", sinks.size(), " values");
  for (const float sink : sinks) {
    require(sink < HUGE_VALF, function, ": sinks: expected finite numbers or -inf; got ", sink);
  }
}

}  // namespace

void merge(const std::vector<ConstTensorView>& outputs, const std::vector<ConstTensorView>& lses, const TensorView& output,
           const std::optional<TensorView>& lse, const std::vector<float>& sinks) {
  constexpr const char* kFunction = "merge";
  require(outputs.size() == lses.size(), kFunction, ": expected one lse for every output; got ", outputs.size(),
          " outputs and ", lses.size(), " lses");
  require(output.rank() == 4, kFunction, ": expected output of rank 4 [batch, num_heads, query_len, value_dim]; got ",
          output.shape);
  const Dims& shape = output.shape;
  const Dims rows{shape[0], shape[1], shape[2]};
  require_sinks(kFunction, sinks, shape[1]);
  const auto out = validate_result(kFunction, "output", output, shape, {DType::kF32, DType::kF16, DType::kBF16});
  kernels::Strided<void> lse_out;
  if (lse) lse_out = validate_result(kFunction, "lse", *lse, rows, {DType::kF32});
  Parts parts;
  for (std::size_t p = 0; p < outputs.size(); ++p) {
    parts.outputs.push_back(validate_input(kFunction, concat("outputs[", p, "]").c_str(), outputs[p], shape,
                                           {DType::kF32, DType::kF16, DType::kBF16}));
    parts.lses.push_back(validate_input(kFunction, concat("lses[", p, "]").c_str(), lses[p], rows, {DType::kF32}));
  }
  const Index count = rows.product();
  if (count == 0) return;
  constexpr Index kRowsAtOnce = 64;
  const Index groups = (count + kRowsAtOnce - 1) / kRowsAtOnce;
  parallel_for(groups, threads_for(groups / 16), [&](Index group, int) {
    Shares shares;
    for (Index flat = group * kRowsAtOnce; flat < std::min((group + 1) * kRowsAtOnce, count); ++flat) {
      const Index row = flat % shape[2], head = flat / shape[2] % shape[1], batch = flat / shape[2] / shape[1];
      weigh(parts, batch, head, row,
            sinks.empty() ? kMinusInfinity : static_cast<double>(sinks[static_cast<std::size_t>(head)]), shares);
      for (Index t = 0; t < shape[3]; ++t) {
        double total = 0;
        for (std::size_t n = 0; n < shares.present.size(); ++n) {
          const auto& part = parts.outputs[shares.present[n]];
          total += shares.weights[n] *
                   load_as_double(ConstTensorView(part.data, part.dtype, {}, {}), part.offset(batch, head, row, t));
        }
        store(out, out.offset(batch, head, row, t), total);
      }
      if (lse) store(lse_out, lse_out.offset(batch, head, row, 0), shares.lse);
    }
  });
}

}  // namespace multihead
