// Keys and values of past positions, kept for the next query: one contiguous run per sequence and key/value head.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "multihead/attention.h"
#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

struct KvCacheConfig {
  Index sequences = 1;
  Index num_kv_heads = 1;
  Index head_dim = 0;
  Index value_dim = 0;        ///< 0 = head_dim
  DType dtype = DType::kF32;  ///< storage: f32, f16 or bf16; queries may be of any of the three
  Index capacity = 0;         ///< positions a sequence can hold
  /// Sliding: only the last `capacity` positions are kept and seen, whatever has been appended; positions stay absolute.
  bool sliding = false;
};

/// A cache of many sequences of different lengths. Absolute positions start at 0 for each; keys are stored as given (rotate
/// them before). Memory: sequences * num_kv_heads * capacity * (head_dim + value_dim) elements, allocated at construction (a
/// sliding cache rounds the capacity up to whole key blocks and adds room for max_append()).
///
/// A prompt in one call, in chunks or token by token gives the same bits as one causal pass over all of it (for f32 storage;
/// for 16-bit storage, as one over the rounded keys and values), as long as the queries have one dtype.
class MULTIHEAD_API KvCache {
 public:
  /// Throws InvalidArgument for sizes that make no sense.
  explicit KvCache(const KvCacheConfig& config);
  ~KvCache();
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;

  const KvCacheConfig& config() const;
  /// Positions appended to a sequence so far: the absolute position of the next one.
  Index length(Index sequence) const;
  /// The oldest position that a query can still see.
  Index first_position(Index sequence) const;
  /// Most positions that one append may bring. Unlimited but for the capacity, except for a sliding cache, where an append must
  /// not overwrite what its own first query still sees.
  Index max_append() const;

  /// Appends to every sequence: key [sequences, num_kv_heads, n, head_dim], value [sequences, num_kv_heads, n, value_dim], f32,
  /// f16 or bf16, any strides, converted to the storage type. Throws InvalidArgument, with nothing appended, when it does not
  /// fit.
  void append(const ConstTensorView& key, const ConstTensorView& value);
  /// Appends to one sequence: key [num_kv_heads, n, head_dim], value [num_kv_heads, n, value_dim].
  void append(Index sequence, const ConstTensorView& key, const ConstTensorView& value);
  /// Forgets the positions from `length` on. Throws InvalidArgument when `length` is larger than it is, or no longer kept.
  void truncate(Index sequence, Index length);

  /// Stored keys of one sequence, oldest first, [num_kv_heads, kept, head_dim], as a dense copy in the storage type.
  Tensor keys(Index sequence) const;
  Tensor values(Index sequence) const;
  /// The same from absolute position `first` on: a sliding cache still has some that its last queries saw and no new one will.
  /// Throws InvalidArgument for a position that is no longer, or not yet, kept.
  Tensor keys(Index sequence, Index first) const;
  Tensor values(Index sequence, Index first) const;

  /// Causal attention of the last n positions of some sequences, after they were appended.
  /// query [count, num_heads, n, head_dim], output [count, num_heads, n, value_dim], lse [count, num_heads, n] f32;
  /// row b belongs to sequences[b], or to sequence b when `sequences` is empty. `options` may set scale, softcap, window, mask
  /// (over absolute key positions), attention_bias, alibi_slopes, sinks, and causal (false: every kept key is seen); positions
  /// and lengths are the cache's own.
  void attend(const ConstTensorView& query, const TensorView& output, const AttentionOptions& options = causal_options(),
              const std::optional<TensorView>& lse = std::nullopt, const std::vector<Index>& sequences = {}) const;

  static AttentionOptions causal_options() {
    AttentionOptions options;
    options.causal = true;
    return options;
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace multihead
