// T5's relative position bias without its [query_len, key_len] matrix.
#pragma once

#include "kernels/problem.h"
#include "multihead/layer.h"

namespace multihead {

/// The bucket of `distance` = key position - query position among `buckets`.
Index relative_bucket(const RelativeBias& bias, Index buckets, Index distance);

/// The bias of one call. It depends on key - query alone, so each head has one line of query_len + key_len - 1 numbers, and the
/// matrix is a view of it that steps back a number for each query: strides (0, line, -1, 1).
class RelativeBiasLines {
 public:
  /// table [buckets, num_heads]; query 0 stands at query_offset, key 0 at 0. Cost: num_heads * (query_len + key_len) floats.
  RelativeBiasLines(const RelativeBias& bias, const ConstTensorView& table, Index query_len, Index key_len, Index query_offset);

  /// [1, num_heads, query_len, key_len], f32.
  ConstTensorView view() const;

 private:
  Tensor lines_;
  Index query_len_, key_len_;
};

/// relative + given, the one case in which a bias is expanded: f32, [given_batch, num_heads, query_len, key_len], where
/// given_batch is 1 when `given` does not depend on the batch entry. relative is [1, num_heads, query_len, key_len].
Tensor add_biases(const ConstTensorView& relative, const kernels::Strided<const void>& given, Index given_batch);

}  // namespace multihead
