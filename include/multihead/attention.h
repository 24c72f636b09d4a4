// Scaled dot-product attention over many heads, exact, without a stored score matrix.
//
//     output[b, h, i] = sum_j p[b, h, i, j] value[b, h / group, j]          (Vaswani et al. 2017, §3.2.1; group = heads per kv
//     head) p[b, h, i, .]   = softmax over the visible keys j of  scale * <query[b, h, i], key[b, h / group, j]>  (+ softcap,
//     bias, ALiBi)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "multihead/export.h"
#include "multihead/mask.h"
#include "multihead/tensor.h"

namespace multihead {

/// Dropout of coefficients (Srivastava et al. 2014; Vaswani et al. 2017, §5.4): behind the softmax each coefficient is kept
/// with probability 1 - p and then multiplied by 1 / (1 - p), or becomes 0. Which are kept is a function of the seed, the batch
/// entry (or packed sequence), the query head, the absolute position of the query and the key, and of nothing else: forward and
/// backward agree, and so do any cuts into calls and any number of threads, on every target. Take another seed for every layer
/// and step. lse, coefficients asked for, captures and statistics are those of the softmax, before dropout.
struct Dropout {
  float probability = 0;  ///< of becoming 0; 0 <= p < 1
  std::uint64_t seed = 0;
};

/// Everything that attention can be asked for besides the plain definition. The order of operations is fixed:
/// scale -> softcap -> attention_bias and ALiBi -> visibility -> softmax (a sink joins the denominator) -> dropout -> * value.
struct AttentionOptions {
  /// Factor on the dot products. Absent: 1 / sqrt(head_dim). Any finite number is used as it is, 0 and negatives included.
  std::optional<float> scale;
  /// Softcap c > 0: scores become c * tanh(score / c), before bias and visibility. Absent or 0: off.
  std::optional<float> softcap;
  /// Query i, at absolute position query_offset + i, sees only keys <= that position.
  bool causal = false;
  /// Absolute position of query row 0, one value per batch entry (or packed sequence), or one value for all. Empty: key length
  /// of that entry - query_len (bottom-right). Never clamped: a negative position sees no key under `causal`.
  std::vector<Index> query_offsets;
  /// Sets the query offset to 0 (top-left alignment). Not together with query_offsets.
  bool top_left = false;
  /// Inclusive distances around the absolute position. Absent: unlimited.
  std::optional<Window> window;
  /// Valid keys per batch entry, [batch], 0 … key_len. Keys beyond are never read. Empty: all of them.
  std::vector<Index> key_lengths;
  /// Boolean mask (dtype bool or u8), true = may attend. Rank 1 [key_len], rank 2 [query_len, key_len], or rank 4
  /// [batch, num_heads, query_len, key_len] with explicit 1s; broadcast by stride, never expanded. Rank 3 is refused.
  std::optional<ConstTensorView> mask;
  /// Added to the scores after scale and softcap (f32, f16 or bf16; ranks as `mask`). -inf means not visible.
  std::optional<ConstTensorView> attention_bias;
  /// ALiBi slopes, [num_heads]: adds -slope * |absolute query position - key|. Empty: off.
  std::vector<float> alibi_slopes;
  /// One logit per query head, [num_heads], in the softmax denominator only (not scaled, not capped). -inf = none. Empty: off.
  std::vector<float> sinks;
  /// Several sequences of different lengths in tensors of batch 1. Excludes key_lengths.
  std::optional<PackedSequences> packed;
  /// For training: absent, as nearly always, nothing is dropped.
  std::optional<Dropout> dropout;
};

/// Multi-head attention.
///
/// query  [batch, num_heads, query_len, head_dim]
/// key    [batch, num_kv_heads, key_len, head_dim]      num_heads % num_kv_heads == 0; query head h reads kv head h / group
/// value  [batch, num_kv_heads, key_len, value_dim]
/// output [batch, num_heads, query_len, value_dim]      written whole; must not overlap the inputs or itself
/// lse    [batch, num_heads, query_len], f32 or f64     optional: natural log of the softmax denominator, sink included
///
/// f32, f16 or bf16, the same for the first three; output may be any of the three. Any strides, 0 and negative included
/// (for output: no two elements may share memory). 16-bit inputs are summed in f32 and rounded once, at the output.
///
/// A row that sees no key gives output 0 and lse -inf (the sink, if there is one). What is not visible contributes nothing,
/// whatever the memory holds; a visible NaN propagates. The bits depend on nothing but a row's own inputs and the target:
/// not on threads, batch neighbours, other rows, or how a sequence was cut into calls. Accuracy: accuracy.h.
///
/// Cost: 2 * batch * num_heads * visible pairs * (head_dim + value_dim) operations; at most 2 MiB of workspace a thread.
/// Throws InvalidArgument (both shapes in the text) before anything is written.
MULTIHEAD_API void attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                             const TensorView& output, const AttentionOptions& options = {},
                             const std::optional<TensorView>& lse = std::nullopt);

/// Every coefficient, for those who can afford query_len * key_len of them: recomputed from query, key and the lse that
/// `attention` returned for the same arguments. With an f32 lse every coefficient of a row is off by the factor by which that
/// was rounded, 2e-6 for an lse of 32; with an f64 one it is as exact as its score. probabilities: [batch, num_heads,
/// query_len, key_len], f32, f16 or bf16. Pairs that are not visible are exactly 0. With packed sequences, pairs of different
/// sequences are not visible.
MULTIHEAD_API void attention_probabilities(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& lse,
                                           const TensorView& probabilities, const AttentionOptions& options = {});

/// The definition of right: the same contract in float64, four plain passes over a row, one thread; memory for one head of
/// query, key and value in float64.
/// `output` may also be f64, `lse` and `probabilities` f32 or f64; the last two are not computed when absent.
MULTIHEAD_API void reference_attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                                       const TensorView& output, const AttentionOptions& options = {},
                                       const std::optional<TensorView>& lse = std::nullopt,
                                       const std::optional<TensorView>& probabilities = std::nullopt);

/// Joins results over disjoint sets of keys: for every row, with L = log(sum_p exp(lse_p)),
/// output = sum_p exp(lse_p - L) output_p and lse = L. A part with lse -inf (no key seen) is neutral, whatever its output
/// holds; all of them -inf, or no parts at all, give output 0, lse -inf. Compute parts without sinks and add the sink once, by
/// giving `sinks` here ([num_heads], or empty).
///
/// outputs [batch, num_heads, query_len, value_dim] each (f32, f16 or bf16), lses [batch, num_heads, query_len] f32 each, in
/// the order in which they are merged. `lse` is optional.
MULTIHEAD_API void merge(const std::vector<ConstTensorView>& outputs, const std::vector<ConstTensorView>& lses,
                         const TensorView& output, const std::optional<TensorView>& lse = std::nullopt,
                         const std::vector<float>& sinks = {});

/// What `attention` would do for these arguments: which kernel, on which target, cut how, and why.
struct AttentionPlan {
  std::string target;         ///< instruction set, e.g. "AVX2"
  std::string kernel;         ///< "panels" (queries in lanes) or "decode" (few queries, long cache)
  std::string reason;         ///< one sentence
  Index panel_lanes = 0;      ///< (query, head) pairs that one register tile works on
  Index block_lanes = 0;      ///< pairs of one work item
  Index key_block = 0;        ///< keys walked between two softmax updates
  Index key_chunk = 0;        ///< keys after which partial results are merged
  Index work_items = 0;       ///< independent pieces
  int threads = 0;            ///< threads that will share them
  bool copies_keys = false;   ///< K/V blocks are converted or gathered to contiguous scratch
  Index workspace_bytes = 0;  ///< per thread
};
MULTIHEAD_API AttentionPlan plan(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                                 const AttentionOptions& options = {});

}  // namespace multihead
