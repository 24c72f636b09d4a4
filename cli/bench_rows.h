// What `multihead bench` can measure: one table of shapes, with names that tell them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::cli {

/// One shape. Prefill, its backward pass, and decode: query [1, num_heads, query_len, head_dim], key and value [1,
/// num_kv_heads, key_len, head_dim]. Layer: a preset over [1, query_len, model_dim]; its heads are the preset's affair.
struct BenchRow {
  enum class Kind { kPrefill, kBackward, kDecode, kLayer };

  Kind kind = Kind::kPrefill;
  Index num_heads = 0, num_kv_heads = 0;
  Index query_len = 0, key_len = 0;
  Index head_dim = 0;
  bool causal = false;
  /// With causal: the last so many keys, the query's own included. Without: keys up to so far away on both sides.
  std::optional<Index> window;
  /// Stored as [length, heads, head_dim] and seen as heads.
  bool strided = false;
  DType dtype = DType::kF32;
  std::string preset;

  /// "prefill/h32x8/n2048/d128/causal/last256/bf16/strided", "backward/h8/n1024/d64", "decode/h32x8/k16384/d128/f16",
  /// "layer/llama-7b/n1". What is plain is not said: as many kv heads as heads, as many keys as queries, f32.
  std::string name() const;
};

/// All rows, in the order in which they are measured. A strided row follows its dense one.
std::vector<BenchRow> bench_rows();

}  // namespace multihead::cli
