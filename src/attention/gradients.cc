#include "attention/gradients.h"

#include "base/message.h"
#include "base/parallel.h"

namespace multihead {
namespace {

kernels::Strided<void> bind(const char* function, const char* name, const std::optional<TensorView>& view, const Dims& shape,
                            bool sixteen_bits, bool with_f64) {
  if (!view) return {};
  if (!sixteen_bits && with_f64) return validate_result(function, name, *view, shape, {DType::kF32, DType::kF64});
  if (!sixteen_bits) return validate_result(function, name, *view, shape, {DType::kF32});
  if (with_f64) {
    return validate_result(function, name, *view, shape, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64});
  }
  return validate_result(function, name, *view, shape, {DType::kF32, DType::kF16, DType::kBF16});
}

// From the strides of a mask's or bias's own rank to [batch, head, query, key].
kernels::Strided<void> broadcast(const kernels::Strided<void>& bound, const TensorView& view) {
  kernels::Strided<void> result{bound.data, bound.dtype, {}};
  for (int axis = 0; axis < view.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(4 - view.rank() + axis);
    result.strides[at] = view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  return result;
}

// Both of one shape. Calls visit(offset in `sums`, offset in `view`) for the first element of every row in plane `plane` of the
// first axis.
template <typename Visit>
void for_each_row(const ConstTensorView& sums, const TensorView& view, Index plane, const Visit& visit) {
  const int inner = view.rank() - 1;
  Index rows = 1;
  for (int axis = 1; axis < inner; ++axis) rows *= view.shape[axis];
  for (Index row = 0; row < rows; ++row) {
    Index from = plane * sums.strides[0], to = plane * view.strides[0], rest = row;
    for (int axis = inner - 1; axis > 0; --axis) {
      const Index index = rest % view.shape[axis];
      rest /= view.shape[axis];
      from += index * sums.strides[axis], to += index * view.strides[axis];
    }
    visit(from, to);
  }
}

template <typename From, typename To>
void write_rows(const ConstTensorView& sums, double scale, const TensorView& view) {
  const int inner = view.rank() - 1;
  const Index columns = view.shape[inner], from_stride = sums.strides[inner], to_stride = view.strides[inner];
  const From factor = static_cast<From>(scale);
  parallel_for(view.shape[0], threads_for(view.size() / 16384), [&](Index plane, int) {
    for_each_row(sums, view, plane, [&](Index from, Index to) {
      const From* in = sums.as<From>() + from;
      To* out = view.as<To>() + to;
      for (Index t = 0; t < columns; ++t) {
        if constexpr (std::is_same_v<To, double>) {
          out[t * to_stride] = static_cast<double>(in[t * from_stride] * factor);
        } else {
          out[t * to_stride] = To(static_cast<float>(in[t * from_stride] * factor));
        }
      }
    });
  });
}

template <typename From>
void write_as(const ConstTensorView& sums, double scale, const TensorView& view) {
  switch (view.dtype) {
    case DType::kF64:
      return write_rows<From, double>(sums, scale, view);
    case DType::kF32:
      return write_rows<From, float>(sums, scale, view);
    case DType::kF16:
      return write_rows<From, Float16>(sums, scale, view);
    default:
      return write_rows<From, BFloat16>(sums, scale, view);
  }
}

// [n] as [1, n].
template <typename View>
View at_least_two_axes(const View& view) {
  if (view.rank() != 1) return view;
  View row = view;
  row.shape = {1, view.shape[0]};
  row.strides = {0, view.strides[0]};
  return row;
}

}  // namespace

void write_gradient(const ConstTensorView& sums, double scale, const TensorView& gradient) {
  if (gradient.size() == 0) return;
  const ConstTensorView from = at_least_two_axes(sums);
  const TensorView to = at_least_two_axes(gradient);
  if (sums.dtype == DType::kF64) {
    write_as<double>(from, scale, to);
  } else {
    write_as<float>(from, scale, to);
  }
}

BoundGradients bind_gradients(const char* function, const AttentionArguments& arguments, const ValidatedProblem& call,
                              const AttentionGradients& gradients, bool with_f64) {
  const AttentionOptions& options = arguments.options;
  const Dims heads{call.problem.num_heads};
  const auto need = [&](const std::optional<TensorView>& wanted, bool given, const char* name) {
    require(!wanted || given, function, ": a gradient of ", name, " is wanted, but options.", name, " is not there");
  };
  need(gradients.attention_bias, options.attention_bias.has_value(), "attention_bias");
  need(gradients.alibi_slopes, !options.alibi_slopes.empty() || call.problem.num_heads == 0, "alibi_slopes");
  need(gradients.sinks, !options.sinks.empty() || call.problem.num_heads == 0, "sinks");
  BoundGradients bound;
  bound.query = bind(function, "gradients.query", gradients.query, arguments.query.shape, true, with_f64);
  bound.key = bind(function, "gradients.key", gradients.key, arguments.key.shape, true, with_f64);
  bound.value = bind(function, "gradients.value", gradients.value, arguments.value->shape, true, with_f64);
  if (gradients.attention_bias) {
    const TensorView& view = *gradients.attention_bias;
    bound.bias =
        broadcast(bind(function, "gradients.attention_bias", view, options.attention_bias->shape, true, with_f64), view);
  }
  bound.alibi_slopes = bind(function, "gradients.alibi_slopes", gradients.alibi_slopes, heads, false, with_f64);
  bound.sinks = bind(function, "gradients.sinks", gradients.sinks, heads, false, with_f64);
  return bound;
}

}  // namespace multihead
