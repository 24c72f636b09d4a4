// KvCache: storage per sequence and key/value head, and attention over it.
#include "multihead/kv_cache.h"

#include <algorithm>

#include "attention/plan.h"
#include "attention/run.h"
#include "attention/validate.h"
#include "base/message.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

namespace multihead {
namespace {

using kernels::kKeyBlock;

// Room beyond a sliding cache's capacity, so that an append need not overwrite what its own first query still sees.
constexpr Index kSlidingSlack = 4 * kKeyBlock;

Index round_up(Index value, Index step) { return (value + step - 1) / step * step; }

template <typename Call>
void with_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::kF32:
      return call(float{});
    case DType::kF16:
      return call(Float16{});
    default:
      return call(BFloat16{});
  }
}

template <typename From, typename To>
void convert_row(const From* in, Index stride, Index count, To* out) {
  for (Index t = 0; t < count; ++t) out[t] = static_cast<To>(static_cast<float>(in[t * stride]));
}

KvCacheConfig resolved(KvCacheConfig config) {
  if (config.value_dim == 0) config.value_dim = config.head_dim;
  require(
      config.sequences >= 0 && config.num_kv_heads > 0 && config.head_dim > 0 && config.value_dim > 0 && config.capacity >= 0,
      "KvCache: expected sequences and capacity of 0 or more, num_kv_heads, head_dim and value_dim of 1 or more; got ",
      config.sequences, ", ", config.capacity, ", ", config.num_kv_heads, ", ", config.head_dim, " and ", config.value_dim);
  require(is_attention_dtype(config.dtype), "KvCache: expected storage of f32, f16 or bf16; got ", name_of(config.dtype));
  require(!config.sliding || config.capacity > 0, "KvCache: a sliding cache needs a capacity of 1 or more");
  return config;
}

}  // namespace

struct KvCache::State {
  KvCacheConfig config;
  Index rows = 0;  // stored per head: the capacity, or the ring of a sliding cache
  Tensor keys;     // [sequences, num_kv_heads, rows, head_dim]
  Tensor values;   // [sequences, num_kv_heads, rows, value_dim]
  std::vector<Index> lengths;
  std::vector<Index> furthest;  // the greatest length so far: a ring has overwritten what lies `rows` before it

  Index length(Index sequence) const {
    require(sequence >= 0 && sequence < config.sequences, "KvCache: expected a sequence of 0 … ", config.sequences - 1,
            "; got ", sequence);
    return lengths[static_cast<std::size_t>(sequence)];
  }
  Index first_position(Index sequence) const {
    return config.sliding ? std::max<Index>(0, length(sequence) - config.capacity) : 0;
  }
  Index kept_from(Index sequence) const {
    return config.sliding ? std::max<Index>(0, furthest[static_cast<std::size_t>(sequence)] - rows) : 0;
  }
  Index max_append() const { return config.sliding ? rows - config.capacity + 1 : config.capacity; }

  void require_room(Index sequence, Index count) const {
    if (config.sliding) {
      require(count <= max_append(), "KvCache::append: expected at most ", max_append(),
              " positions at once in a sliding cache; got ", count, "; append them in pieces, attending after each");
    } else {
      require(count <= config.capacity - length(sequence), "KvCache::append: sequence ", sequence, " holds ", length(sequence),
              " of ", config.capacity, " positions; got ", count, " more");
    }
  }

  // A query after `length` positions must find all that it may see: what a ring has overwritten is gone.
  void require_window(Index sequence, Index length, const char* function) const {
    const Index oldest = std::max<Index>(0, length - config.capacity + 1);
    require(!config.sliding || oldest >= kept_from(sequence), function, ": sequence ", sequence, " keeps positions ",
            kept_from(sequence), " and later, not all that position ", length, " may see (", oldest, " and later)");
  }

  // `source` is [num_kv_heads, count, dim], any type and strides.
  void store(Index sequence, const ConstTensorView& source, Tensor& into) const {
    const Index dim = source.shape[2], start = lengths[static_cast<std::size_t>(sequence)];
    for (Index head = 0; head < config.num_kv_heads; ++head) {
      for (Index i = 0; i < source.shape[1]; ++i) {
        const Index row = (sequence * config.num_kv_heads + head) * rows + (start + i) % rows;
        const Index from = head * source.strides[0] + i * source.strides[1];
        with_type(source.dtype, [&](auto in) {
          with_type(config.dtype, [&](auto out) {
            convert_row(source.as<decltype(in)>() + from, source.strides[2], dim, into.data<decltype(out)>() + row * dim);
          });
        });
      }
    }
  }

  void append(Index sequence, const ConstTensorView& key, const ConstTensorView& value) {
    store(sequence, key, keys);
    store(sequence, value, values);
    Index& length = lengths[static_cast<std::size_t>(sequence)];
    length += key.shape[1];
    furthest[static_cast<std::size_t>(sequence)] = std::max(furthest[static_cast<std::size_t>(sequence)], length);
  }

  Tensor kept(Index sequence, Index first, const Tensor& storage, Index dim) const {
    const Index count = length(sequence) - first;
    require(first >= kept_from(sequence) && count >= 0, "KvCache: sequence ", sequence, " keeps positions ",
            kept_from(sequence), " … ", length(sequence), "; got ", first);
    Tensor result = Tensor::uninitialized(config.dtype, {config.num_kv_heads, count, dim});
    const auto row_bytes = static_cast<std::size_t>(dim) * size_of(config.dtype);
    for (Index head = 0; head < config.num_kv_heads; ++head) {
      for (Index i = 0; i < count; ++i) {
        const Index row = (sequence * config.num_kv_heads + head) * rows + (first + i) % rows;
        std::copy_n(storage.data<unsigned char>() + static_cast<std::size_t>(row) * row_bytes, row_bytes,
                    result.data<unsigned char>() + static_cast<std::size_t>(head * count + i) * row_bytes);
      }
    }
    return result;
  }

  // Checks that key and value fit this cache; `leading` axes come before [num_kv_heads, n, dim].
  void require_rows(const ConstTensorView& key, const ConstTensorView& value, const Dims& leading) const {
    const int axis = leading.rank() + 1;
    require(key.rank() == axis + 2 && value.rank() == axis + 2, "KvCache::append: expected key and value of rank ", axis + 2,
            "; got ", key.shape, " and ", value.shape);
    Dims expected_key = key.shape, expected_value = key.shape;
    for (int i = 0; i < leading.rank(); ++i) expected_key[i] = expected_value[i] = leading[i];
    expected_key[axis - 1] = expected_value[axis - 1] = config.num_kv_heads;
    expected_key[axis + 1] = config.head_dim;
    expected_value[axis + 1] = config.value_dim;
    validate_input("KvCache::append", "key", key, expected_key, {DType::kF32, DType::kF16, DType::kBF16});
    validate_input("KvCache::append", "value", value, expected_value, {DType::kF32, DType::kF16, DType::kBF16});
  }
};

KvCache::KvCache(const KvCacheConfig& config) : state_(std::make_unique<State>()) {
  state_->config = resolved(config);
  const KvCacheConfig& c = state_->config;
  state_->rows = c.sliding ? round_up(c.capacity + kSlidingSlack, kKeyBlock) : std::max<Index>(c.capacity, 1);
  state_->keys = Tensor(c.dtype, {c.sequences, c.num_kv_heads, state_->rows, c.head_dim});
  state_->values = Tensor(c.dtype, {c.sequences, c.num_kv_heads, state_->rows, c.value_dim});
  state_->lengths.assign(static_cast<std::size_t>(c.sequences), 0);
  state_->furthest = state_->lengths;
}
KvCache::~KvCache() = default;
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;

const KvCacheConfig& KvCache::config() const { return state_->config; }
Index KvCache::length(Index sequence) const { return state_->length(sequence); }
Index KvCache::first_position(Index sequence) const { return state_->first_position(sequence); }
Index KvCache::max_append() const { return state_->max_append(); }

void KvCache::append(Index sequence, const ConstTensorView& key, const ConstTensorView& value) {
  state_->length(sequence);
  state_->require_rows(key, value, {});
  state_->require_room(sequence, key.shape[1]);
  state_->append(sequence, key, value);
}

void KvCache::append(const ConstTensorView& key, const ConstTensorView& value) {
  state_->require_rows(key, value, {state_->config.sequences});
  for (Index s = 0; s < state_->config.sequences; ++s) state_->require_room(s, key.shape[2]);
  const auto one = [](const ConstTensorView& view, Index s) {
    const Dims shape{view.shape[1], view.shape[2], view.shape[3]}, strides{view.strides[1], view.strides[2], view.strides[3]};
    return ConstTensorView(view.offset_by(s * view.strides[0]), view.dtype, shape, strides);
  };
  for (Index s = 0; s < state_->config.sequences; ++s) state_->append(s, one(key, s), one(value, s));
}

void KvCache::truncate(Index sequence, Index length) {
  const Index now = state_->length(sequence);
  require(length >= 0 && length <= now, "KvCache::truncate: sequence ", sequence, " holds ", now, " positions; expected 0 … ",
          now, "; got ", length);
  state_->require_window(sequence, length, "KvCache::truncate");
  state_->lengths[static_cast<std::size_t>(sequence)] = length;
}

Tensor KvCache::keys(Index sequence) const { return keys(sequence, state_->first_position(sequence)); }
Tensor KvCache::values(Index sequence) const { return values(sequence, state_->first_position(sequence)); }
Tensor KvCache::keys(Index sequence, Index first) const {
  state_->length(sequence);
  return state_->kept(sequence, first, state_->keys, state_->config.head_dim);
}
Tensor KvCache::values(Index sequence, Index first) const {
  state_->length(sequence);
  return state_->kept(sequence, first, state_->values, state_->config.value_dim);
}

void KvCache::attend(const ConstTensorView& query, const TensorView& output, const AttentionOptions& options,
                     const std::optional<TensorView>& lse, const std::vector<Index>& sequences) const {
  constexpr const char* kFunction = "KvCache::attend";
  const KvCacheConfig& config = state_->config;
  require(
      options.key_lengths.empty() && options.query_offsets.empty() && !options.top_left && !options.packed, kFunction,
      ": positions and lengths are the cache's own; expected no key_lengths, query_offsets, top_left or packed in the options");
  require(!options.dropout, kFunction, ": a cache is for generating; expected no dropout in the options");
  require(query.rank() == 4, kFunction, ": expected query of rank 4 [count, num_heads, n, head_dim]; got ", query.shape);
  std::vector<Index> chosen = sequences;
  for (Index s = 0; sequences.empty() && s < config.sequences; ++s) chosen.push_back(s);
  require(query.shape[0] == static_cast<Index>(chosen.size()), kFunction, ": expected one query batch entry a sequence (",
          chosen.size(), "); got query ", query.shape);
  Index longest = 0;
  for (const Index s : chosen) {
    require(query.shape[2] <= state_->length(s), kFunction, ": expected at most the ", state_->length(s),
            " positions of sequence ", s, " as queries; got query ", query.shape);
    if (query.shape[2] > 0) state_->require_window(s, state_->length(s) - query.shape[2], kFunction);
    longest = std::max(longest, state_->length(s));
  }
  // Shapes are checked against a view of the right lengths; memory and positions are then the cache's.
  const Index count = query.shape[0];
  const ConstTensorView key(state_->keys.data<void>(), query.dtype, {count, config.num_kv_heads, longest, config.head_dim},
                            {0, 0, 0, 0});
  const ConstTensorView value(state_->values.data<void>(), query.dtype, {count, config.num_kv_heads, longest, config.value_dim},
                              {0, 0, 0, 0});
  ValidatedProblem call = validate({kFunction, query, key, &value, options});
  kernels::AttentionProblem& problem = call.problem;
  const Index rows = state_->rows;
  problem.key = {state_->keys.data<void>(),
                 config.dtype,
                 {config.num_kv_heads * rows * config.head_dim, rows * config.head_dim, config.head_dim, 1}};
  problem.value = {state_->values.data<void>(),
                   config.dtype,
                   {config.num_kv_heads * rows * config.value_dim, rows * config.value_dim, config.value_dim, 1}};
  if (config.sliding) problem.window_left = std::min(problem.window_left, config.capacity - 1);
  for (Index b = 0; b < count; ++b) {
    const Index s = chosen[static_cast<std::size_t>(b)];
    const Index length = state_->length(s);
    kernels::Sequence& sequence = call.sequences[static_cast<std::size_t>(b)];
    sequence.key_batch = s;
    sequence.key_len = length;
    sequence.query_offset = length - query.shape[2];
    if (config.sliding) {
      sequence.key_first = state_->kept_from(s);
      sequence.key_ring = rows;
    }
  }
  bind_outputs(kFunction, output, lse, call);
  run_attention(problem);
}

}  // namespace multihead
