// One attention call as a value, and what its queries see by the words of the public headers.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "multihead/attention.h"
#include "random_inputs.h"

namespace multihead::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Arguments of a call, with the tensors that the options point to. Copies of the options stay valid while it lives, moves too.
struct Problem {
  Shape shape;
  Inputs inputs;
  Tensor mask, bias;
  AttentionOptions options;
  DType output_dtype = DType::kF32;

  void set_mask(Tensor values) {
    mask = std::move(values);
    options.mask = mask.view();
  }
  void set_bias(Tensor values) {
    bias = std::move(values);
    options.attention_bias = bias.view();
  }
};

inline Problem make_problem(const Shape& shape, std::uint64_t seed, DType dtype = DType::kF32,
                            Family family = Family::kNormal) {
  Problem problem;
  problem.shape = shape;
  problem.inputs = make_inputs(shape, seed, dtype, family);
  problem.output_dtype = dtype;
  return problem;
}

/// A call on G: query s = 1, key s = 2, value s = 3.
inline Problem grid_problem(const Shape& shape, DType dtype = DType::kF32) {
  Problem problem;
  problem.shape = shape;
  problem.inputs = {grid(shape.query(), 1, dtype), grid(shape.key(), 2, dtype), grid(shape.value(), 3, dtype)};
  problem.output_dtype = dtype;
  return problem;
}

/// Query and key all zero, so that all visible keys weigh the same.
inline Problem uniform_problem(const Shape& shape) {
  Problem problem;
  problem.shape = shape;
  problem.inputs = {Tensor(DType::kF32, shape.query()), Tensor(DType::kF32, shape.key()), Tensor(DType::kF32, shape.value())};
  return problem;
}

/// Which key each query sees, [batch, heads, query_len, key_len], written from the text of mask.h and attention.h alone.
class Visibility {
 public:
  explicit Visibility(const Problem& problem)
      : shape_(problem.shape), sees_(static_cast<std::size_t>(problem.shape.scores().product())) {
    std::size_t n = 0;
    for (Index b = 0; b < shape_.batch; ++b) {
      for (Index h = 0; h < shape_.heads; ++h) {
        for (Index i = 0; i < shape_.query_len; ++i) {
          for (Index j = 0; j < shape_.key_len; ++j) sees_[n++] = decide(problem, b, h, i, j);
        }
      }
    }
  }

  bool operator()(Index b, Index h, Index i, Index j) const {
    return sees_[static_cast<std::size_t>(((b * shape_.heads + h) * shape_.query_len + i) * shape_.key_len + j)];
  }

  /// Absolute position of query i, minus that of key j: what causality, windows and ALiBi look at.
  static Index distance(const Problem& problem, Index b, Index i, Index j) {
    const Span span = span_of(problem, b, i);
    const AttentionOptions& options = problem.options;
    Index offset = span.keys - span.queries;
    if (options.top_left) offset = 0;
    if (!options.query_offsets.empty()) offset = options.query_offsets[options.query_offsets.size() == 1 ? 0 : span.index];
    return offset + (i - span.query_begin) - (j - span.key_begin);
  }

  /// Where a mask or bias of rank 1, 2 or 4 has the element for [batch, head, query, key].
  static Index broadcast_offset(const ConstTensorView& view, const std::array<Index, 4>& at) {
    Index offset = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      if (view.shape[axis] != 1) offset += at[static_cast<std::size_t>(4 - view.rank() + axis)] * view.strides[axis];
    }
    return offset;
  }

  static double broadcast_element(const ConstTensorView& view, const std::array<Index, 4>& at) {
    return load_as_double(view, broadcast_offset(view, at));
  }

 private:
  // The sequence that query i belongs to.
  struct Span {
    std::size_t index;
    Index query_begin, queries, key_begin, keys;
  };

  static Span span_of(const Problem& problem, Index b, Index i) {
    const auto batch = static_cast<std::size_t>(b);
    const AttentionOptions& options = problem.options;
    if (!options.packed) {
      const Index keys = options.key_lengths.empty() ? problem.shape.key_len : options.key_lengths[batch];
      return {batch, 0, problem.shape.query_len, 0, keys};
    }
    const auto& [queries, keys] = *options.packed;
    std::size_t s = 0;
    while (i >= queries[s + 1]) ++s;
    return {s, queries[s], queries[s + 1] - queries[s], keys[s], keys[s + 1] - keys[s]};
  }

  static bool decide(const Problem& problem, Index b, Index h, Index i, Index j) {
    const AttentionOptions& options = problem.options;
    const Span span = span_of(problem, b, i);
    if (j < span.key_begin || j >= span.key_begin + span.keys) return false;
    const Index behind = distance(problem, b, i, j);
    if (options.causal && behind < 0) return false;
    if (options.window && options.window->left && behind > *options.window->left) return false;
    if (options.window && options.window->right && -behind > *options.window->right) return false;
    if (options.mask && broadcast_element(*options.mask, {b, h, i, j}) == 0) return false;
    return !options.attention_bias || broadcast_element(*options.attention_bias, {b, h, i, j}) != -kInfinity;
  }

  Shape shape_;
  std::vector<bool> sees_;
};

}  // namespace multihead::test
