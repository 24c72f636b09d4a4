// How exact the results are: one table that the tests enforce, the benchmark checks and the documentation quotes.
//
// "Exact" is the definition in float64 on the same inputs (16-bit inputs count as the numbers that they hold). Every row
// (b, h, i) is held to, with `growth` as below,
//
//     output, merged   ‖result − exact‖₂ <= growth · relative_frobenius · ‖Σ_j p_j |value_j|‖₂ + absolute · √value_dim
//     lse              |result − exact|  <= growth · absolute
//     probabilities    |result − exact|  <= growth · absolute      for every pair
//     gradients        |result − exact|  <= growth · relative_frobenius · (the sum of |its terms|) + absolute    per element,
//                                           growth that of the worst row
//
// which gives the same bounds in Frobenius norm over any set of rows. The norm on the right is that of the result when no
// values of opposite signs cancel; what cancellation takes away no f32 sum can give back.
//
// growth = max(1, A / 8), A = the largest of |scale| ‖query_i‖ ‖key_j‖ + |bias| + |ALiBi| among the keys that the row sees,
// and of its |sink|: an f32 score of size A is known to about A · 2^-24, and the exponential turns that into a relative error
// of the coefficient.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "multihead/dtype.h"

namespace multihead {

/// One row of the contract. `dtype` is that of the stored result: inputs of 16 bits with an f32 output are held to f32.
struct Accuracy {
  std::string_view result;
  DType dtype;
  double relative_frobenius;
  double absolute;
};

/// f32: sums of f32 with blocked partial sums. f16 and bf16: half a unit in the last place (2^-11, 2^-9) of the one rounding,
/// with room for the f32 error in front of it. `absolute` of output and merged: the rounding among subnormal numbers; of
/// gradients, too, and that coefficients below 2^-126 count as 0, times inputs of size. Gradients in 16 bits are computed from
/// an output in 16 bits, whose rounding they inherit.
inline constexpr std::array<Accuracy, 13> kAccuracy{{
    {"output", DType::kF32, 2e-6, 1e-40},
    {"output", DType::kF16, 1e-3, 3e-8},
    {"output", DType::kBF16, 8e-3, 1e-40},
    {"lse", DType::kF32, 0, 4e-6},
    {"probabilities", DType::kF32, 0, 2e-6},
    {"probabilities", DType::kF16, 0, 3e-4},
    {"probabilities", DType::kBF16, 0, 2.5e-3},
    {"merged", DType::kF32, 2e-6, 1e-40},
    {"merged", DType::kF16, 1e-3, 3e-8},
    {"merged", DType::kBF16, 8e-3, 1e-40},
    {"gradients", DType::kF32, 5e-6, 1e-33},
    {"gradients", DType::kF16, 2e-3, 1e-6},
    {"gradients", DType::kBF16, 1.6e-2, 1e-33},
}};

/// The row for a result and the type in which it is stored; all zeros if the table has none, a bound that nothing meets.
constexpr Accuracy accuracy_of(std::string_view result, DType dtype) {
  for (const Accuracy& row : kAccuracy) {
    if (row.result == result && row.dtype == dtype) return row;
  }
  return {result, dtype, 0, 0};
}

/// The factor on the bounds for a row whose scores reach `largest_score` in size.
constexpr double accuracy_growth(double largest_score) { return std::max(1.0, largest_score / 8); }

}  // namespace multihead
