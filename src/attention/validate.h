// Every rule about arguments of the op, in one place. Turns views and options into a kernels::AttentionProblem or throws
// InvalidArgument before anything is read or written.
#pragma once

#include <optional>
#include <vector>

#include "kernels/problem.h"
#include "multihead/attention.h"
#include "multihead/export.h"

namespace multihead {

/// Arguments of one call, and the name of the function to put before error texts.
struct AttentionArguments {
  const char* function;
  const ConstTensorView& query;
  const ConstTensorView& key;
  const ConstTensorView* value;  ///< null for calls that need none
  const AttentionOptions& options;
};

/// A checked problem and the sequences that it points to. The options must outlive it (slopes, sinks, masks are not copied).
struct ValidatedProblem {
  kernels::AttentionProblem problem;
  std::vector<kernels::Sequence> sequences;
  Index batch = 0, query_len = 0, key_len = 0;
};

MULTIHEAD_API ValidatedProblem validate(const AttentionArguments& arguments);

/// Checks a result's shape, element type and that no two of its elements share memory; returns it with four strides.
/// `shape` has rank 3 (lse: column stride 0) or 4.
MULTIHEAD_API kernels::Strided<void> validate_result(const char* function, const char* name, const TensorView& view,
                                                     const Dims& shape, std::initializer_list<DType> dtypes);

/// Sets every element of a checked result to zero.
void clear(const TensorView& view);

/// The same for an input of a known shape.
MULTIHEAD_API kernels::Strided<const void> validate_input(const char* function, const char* name, const ConstTensorView& view,
                                                          const Dims& shape, std::initializer_list<DType> dtypes);

}  // namespace multihead
