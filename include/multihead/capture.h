// What one attention call computed its coefficients from: enough to recompute any of them later, with the bits that were used,
// and nothing that grows with query_len * key_len (unless the caller's own mask or bias does).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "multihead/attention.h"
#include "multihead/export.h"
#include "multihead/kv_cache.h"
#include "multihead/tensor.h"

namespace multihead {

/// What people want to read beside the numbers. Nothing here changes a result; everything may be empty.
struct CaptureLabels {
  std::string name;       ///< e.g. "model.layers.3.self_attn"
  std::string model;      ///< e.g. the checkpoint's folder or family
  Index layer = -1;       ///< index of the layer in its model; -1: not known
  std::string positions;  ///< how positions enter, for people: "rotary half-split, theta 10000"
  /// One string a query row, or empty: [query_len] for all batch entries, or [batch * query_len], entry after entry; the same
  /// for keys. AttentionMap gives those of its entry. Of self attention over one sequence the two lists are equal; over a cache
  /// query_tokens are the last ones.
  std::vector<std::string> query_tokens, key_tokens;
};

/// Which optional parts a capture keeps. Costs of a part: its own bytes, copied once.
struct CaptureParts {
  bool value = false;   ///< needed by value-weighted statistics
  bool output = false;  ///< needed by the heads' output norms
};

/// One call: inputs of the scores, lse, options, labels. Owns all its memory; moving it keeps the options' views valid.
///
/// Memory: (num_heads * query_len + num_kv_heads * key_len) * head_dim * batch elements, and 8 bytes a row of lse. A mask or
/// bias is kept as it was given: broadcast axes are not expanded, and a bias that is a view of overlapping rows (T5's) keeps
/// only the memory under it.
struct MULTIHEAD_API Capture {
  Tensor query;   ///< [batch, num_heads, query_len, head_dim], f32, f16 or bf16
  Tensor key;     ///< [batch, num_kv_heads, key_len, head_dim], of the query's dtype
  Tensor lse;     ///< [batch, num_heads, query_len], f64, natural log; f32 makes coefficients less exact (attention.h)
  Tensor value;   ///< [batch, num_kv_heads, key_len, value_dim]; empty when not kept
  Tensor output;  ///< [batch, num_heads, query_len, value_dim], before W_O, f32, f16 or bf16; empty when not kept
  /// W_O, [output_dim, num_heads * value_dim] as in LayerWeights; head h owns columns h * value_dim … Empty when not known.
  Tensor output_weight;
  AttentionOptions options;  ///< of the call; mask and attention_bias point into the two below
  Tensor mask_memory, bias_memory;
  CaptureLabels labels;

  Capture() = default;
  Capture(Capture&&) noexcept = default;
  Capture& operator=(Capture&&) noexcept = default;

  Index batch() const { return query.shape()[0]; }
  Index num_heads() const { return query.shape()[1]; }
  Index num_kv_heads() const { return key.shape()[1]; }
  Index query_len() const { return query.shape()[2]; }
  Index key_len() const { return key.shape()[2]; }
  Index head_dim() const { return query.shape()[3]; }

  Capture copy() const;  ///< deep
  /// Replaces options.mask or options.attention_bias by a copy of the view that this capture owns.
  void own_mask(const ConstTensorView& mask);
  void own_bias(const ConstTensorView& bias);
  /// Bytes of all tensors.
  Index bytes() const;
};

/// attention(query, key, value, output, options, lse) and what it takes to look at its coefficients. Output and lse have the
/// bits of `attention`. Throws as `attention` does, with nothing written.
/// Cost: that of `attention`, and one copy of query and key (and of the parts asked for).
MULTIHEAD_API Capture capture(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                              const TensorView& output, const AttentionOptions& options = {}, const CaptureParts& parts = {},
                              const std::optional<TensorView>& lse = std::nullopt);

/// KvCache::attend and what it takes to look at its coefficients. The capture's keys are those that these queries may see:
/// query i of sequence b stands behind options.query_offsets[b] + i of them, shorter sequences are padded (key_lengths), and a
/// sliding cache becomes a window. Where the cache stores another dtype than the query's, both are kept as f32, which changes
/// no bit of any score. Masks and biases over absolute positions are cut to those keys; when they have more than one column,
/// that needs sequences whose first such key is the same (InvalidArgument otherwise).
MULTIHEAD_API Capture capture(const KvCache& cache, const ConstTensorView& query, const TensorView& output,
                              const AttentionOptions& options = KvCache::causal_options(), const CaptureParts& parts = {},
                              const std::optional<TensorView>& lse = std::nullopt, const std::vector<Index>& sequences = {});

/// Throws InvalidArgument unless the tensors' shapes and dtypes, the options and the labels fit each other. Every reader of a
/// capture calls it.
MULTIHEAD_API void check(const Capture& capture);

/// Writes a capture as one safetensors file (docs/file_formats.md), beside and renamed. Throws IoError; InvalidArgument for a
/// capture that check() refuses. Part of multihead::multihead, like all files.
MULTIHEAD_API void save_capture(const std::filesystem::path& path, const Capture& capture);

/// Reads it back: every tensor, option and label equal to the last bit. Throws IoError; FormatError naming the file and the
/// rule for a file that is cut off, is no capture, has parts that do not fit each other, or was written by a newer version.
MULTIHEAD_API Capture load_capture(const std::filesystem::path& path);

}  // namespace multihead
