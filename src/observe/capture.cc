// Captures: what a call's coefficients were computed from, owned.
#include "multihead/capture.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "attention/run.h"
#include "base/message.h"

namespace multihead {
namespace {

// Owns what lies under a view: the memory that its strides span when that is no more than its elements, else a dense copy.
ConstTensorView own(const ConstTensorView& view, Tensor& memory) {
  const Index size = view.size();
  Index low = 0, high = 0;
  Dims strides = view.strides;
  for (int axis = 0; size > 0 && axis < view.rank(); ++axis) {
    if (view.shape[axis] == 1) strides[axis] = 0;
    const Index reach = strides[axis] * (view.shape[axis] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const Index span = high - low + 1;
  if (size == 0 || span > size) {
    memory = Tensor::copy_of(view).reshaped({size});
    return {memory.data<void>(), view.dtype, view.shape};
  }
  memory = Tensor::copy_of(ConstTensorView(view.offset_by(low), view.dtype, {span}));
  return {memory.view().offset_by(-low), view.dtype, view.shape, strides};
}

bool kept(const Tensor& tensor) { return tensor.rank() > 0; }

// A dense copy of [batch, heads, rows, columns], row by row: the layer's heads are rows that lie apart.
Tensor copy_rows(const ConstTensorView& view) {
  if (view.size() == 0 || view.is_contiguous() || view.strides[3] != 1) return Tensor::copy_of(view);
  Tensor copy = Tensor::uninitialized(view.dtype, view.shape);
  const auto bytes = static_cast<std::size_t>(view.shape[3]) * size_of(view.dtype);
  auto* out = copy.data<unsigned char>();
  for (Index b = 0; b < view.shape[0]; ++b) {
    for (Index h = 0; h < view.shape[1]; ++h) {
      for (Index i = 0; i < view.shape[2]; ++i, out += bytes) {
        std::memcpy(out, view.offset_by(b * view.strides[0] + h * view.strides[1] + i * view.strides[2]), bytes);
      }
    }
  }
  return copy;
}

// The optional parts and the list of tokens; the rest is validate()'s affair.
void check_parts(const char* function, const Capture& c, const ValidatedProblem& call) {
  const Index heads = call.problem.num_heads;
  validate_input(function, "lse", c.lse, {call.batch, heads, call.query_len}, {DType::kF32, DType::kF64});
  Index value_dim = kept(c.value) ? c.value.shape()[3] : -1;
  if (kept(c.output)) {
    require(c.output.rank() == 4 && (value_dim < 0 || c.output.shape()[3] == value_dim), function,
            ": expected output of rank 4 with the value's value_dim; got ", c.output.shape());
    value_dim = c.output.shape()[3];
    validate_input(function, "output", c.output, {call.batch, heads, call.query_len, value_dim},
                   {DType::kF32, DType::kF16, DType::kBF16});
  }
  if (kept(c.output_weight)) {
    const Dims& shape = c.output_weight.shape();
    const bool fits = shape.rank() == 2 && (value_dim < 0 ? heads > 0 && shape[1] % heads == 0 : shape[1] == heads * value_dim);
    require(fits, function, ": expected output_weight [output_dim, num_heads * value_dim]; got ", shape);
    validate_input(function, "output_weight", c.output_weight, shape, {DType::kF32, DType::kF16, DType::kBF16});
  }
  const auto tokens = [&](const std::vector<std::string>& list, const char* name, Index length) {
    const auto count = static_cast<Index>(list.size());
    require(count == 0 || count == length || count == call.batch * length, function, ": expected no ", name, ", ", length,
            " for all batch entries or ", length, " for each of ", call.batch, "; got ", count);
  };
  tokens(c.labels.query_tokens, "query_tokens", call.query_len);
  tokens(c.labels.key_tokens, "key_tokens", call.key_len);
}

// The keys of a cache that its last `queries` positions may see: absolute positions [first, length) of each sequence.
struct CacheKeys {
  std::vector<Index> sequences, first, lengths;
  Index longest = 0;
};

CacheKeys keys_of(const KvCache& cache, Index queries, const std::vector<Index>& chosen) {
  CacheKeys keys{chosen, {}, {}, 0};
  for (Index s = 0; chosen.empty() && s < cache.config().sequences; ++s) keys.sequences.push_back(s);
  for (const Index s : keys.sequences) {
    const Index length = cache.length(s);
    const Index oldest = cache.config().sliding && queries > 0 ? length - queries - cache.config().capacity + 1 : 0;
    keys.first.push_back(cache.config().sliding && queries == 0 ? cache.first_position(s) : std::max<Index>(0, oldest));
    keys.lengths.push_back(length - keys.first.back());
    keys.longest = std::max(keys.longest, keys.lengths.back());
  }
  return keys;
}

// [sequences, num_kv_heads, longest, dim], zero where a sequence is shorter.
Tensor gather(const CacheKeys& keys, const KvCacheConfig& config, Index dim,
              const std::function<Tensor(Index sequence, Index first)>& rows) {
  Tensor all(config.dtype, {static_cast<Index>(keys.sequences.size()), config.num_kv_heads, keys.longest, dim});
  const auto bytes = static_cast<std::size_t>(dim) * size_of(config.dtype);
  for (std::size_t b = 0; b < keys.sequences.size(); ++b) {
    const Tensor one = rows(keys.sequences[b], keys.first[b]);
    const auto length = static_cast<std::size_t>(keys.lengths[b]);
    for (Index head = 0; head < config.num_kv_heads; ++head) {
      const auto to = static_cast<std::size_t>((static_cast<Index>(b) * config.num_kv_heads + head) * keys.longest);
      std::copy_n(one.data<unsigned char>() + static_cast<std::size_t>(head) * length * bytes, length * bytes,
                  all.data<unsigned char>() + to * bytes);
    }
  }
  return all;
}

// Columns of a mask or bias that belong to the captured keys.
ConstTensorView cut(const ConstTensorView& view, const CacheKeys& keys, const char* name) {
  const int columns = view.rank() - 1;
  if (view.shape[columns] == 1 || keys.first.empty()) return view;
  const Index first = keys.first.front();
  require(std::all_of(keys.first.begin(), keys.first.end(), [&](Index f) { return f == first; }), "capture: ", name,
          " over positions of a sliding cache: expected sequences that have kept the same positions; capture them one by one");
  return view.slice(columns, first, view.shape[columns]);
}

}  // namespace

Capture Capture::copy() const {
  Capture result;
  const auto copy_of = [](const Tensor& tensor) { return kept(tensor) ? tensor.copy() : Tensor(); };
  result.query = copy_of(query);
  result.key = copy_of(key);
  result.lse = copy_of(lse);
  result.value = copy_of(value);
  result.output = copy_of(output);
  result.output_weight = copy_of(output_weight);
  result.options = options;
  if (options.mask) result.own_mask(*options.mask);
  if (options.attention_bias) result.own_bias(*options.attention_bias);
  result.labels = labels;
  return result;
}

void Capture::own_mask(const ConstTensorView& mask) {
  Tensor memory;
  options.mask = own(mask, memory);
  mask_memory = std::move(memory);
}

void Capture::own_bias(const ConstTensorView& bias) {
  Tensor memory;
  options.attention_bias = own(bias, memory);
  bias_memory = std::move(memory);
}

Index Capture::bytes() const {
  Index sum = 0;
  for (const Tensor* tensor : {&query, &key, &lse, &value, &output, &output_weight, &mask_memory, &bias_memory}) {
    if (kept(*tensor)) sum += tensor->size() * static_cast<Index>(size_of(tensor->dtype()));
  }
  return sum;
}

void check(const Capture& c) {
  constexpr const char* kFunction = "capture";
  const ConstTensorView query = c.query, key = c.key, value = c.value;
  check_parts(kFunction, c, validate({kFunction, query, key, kept(c.value) ? &value : nullptr, c.options}));
}

namespace {

void check_lse(const char* function, const std::optional<TensorView>& lse, const Dims& shape) {
  if (lse) validate_result(function, "lse", *lse, shape, {DType::kF32, DType::kF64});
}

}  // namespace

Capture capture(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                const TensorView& output, const AttentionOptions& options, const CaptureParts& parts,
                const std::optional<TensorView>& lse) {
  const ValidatedProblem call = validate({"capture", query, key, &value, options});
  Capture c;
  c.lse = Tensor::uninitialized(DType::kF64, {call.batch, call.problem.num_heads, call.query_len});
  check_lse("capture", lse, c.lse.shape());
  attention(query, key, value, output, options, c.lse);
  if (lse) copy_lse(c.lse, *lse);
  c.query = copy_rows(query);
  c.key = copy_rows(key);
  if (parts.value) c.value = copy_rows(value);
  if (parts.output) c.output = copy_rows(output);
  c.options = options;
  c.options.dropout.reset();  // coefficients are those before it
  if (options.mask) c.own_mask(*options.mask);
  if (options.attention_bias) c.own_bias(*options.attention_bias);
  return c;
}

Capture capture(const KvCache& cache, const ConstTensorView& query, const TensorView& output, const AttentionOptions& options,
                const CaptureParts& parts, const std::optional<TensorView>& lse, const std::vector<Index>& sequences) {
  const KvCacheConfig& config = cache.config();
  Tensor exact;
  if (query.rank() == 4) {
    exact = Tensor::uninitialized(DType::kF64, {query.shape[0], query.shape[1], query.shape[2]});
    check_lse("capture", lse, exact.shape());
  }
  const CacheKeys keys = keys_of(cache, query.rank() == 4 ? query.shape[2] : 0, sequences);
  Capture c;
  c.options = options;
  c.options.dropout.reset();  // coefficients are those before it
  std::optional<ConstTensorView> mask, bias;
  if (options.mask && options.mask->rank() > 0) mask = cut(*options.mask, keys, "a mask");
  if (options.attention_bias && options.attention_bias->rank() > 0) bias = cut(*options.attention_bias, keys, "a bias");
  cache.attend(query, output, options, exact, sequences);
  if (lse) copy_lse(exact, *lse);
  c.lse = std::move(exact);
  c.query = copy_rows(query);
  c.key = gather(keys, config, config.head_dim, [&](Index s, Index first) { return cache.keys(s, first); });
  if (parts.value) {
    c.value = gather(keys, config, config.value_dim, [&](Index s, Index first) { return cache.values(s, first); });
  }
  if (c.query.dtype() != config.dtype) {
    for (Tensor* tensor : {&c.query, &c.key, &c.value}) {
      if (kept(*tensor)) *tensor = Tensor::converted(*tensor, DType::kF32);
    }
  }
  if (parts.output) c.output = copy_rows(output);
  c.options.key_lengths = keys.lengths;
  for (const Index length : keys.lengths) c.options.query_offsets.push_back(length - query.shape[2]);
  if (config.sliding) {
    if (!c.options.window) c.options.window.emplace();
    c.options.window->left = std::min(c.options.window->left.value_or(config.capacity), config.capacity - 1);
  }
  if (mask) c.own_mask(*mask);
  if (bias) c.own_bias(*bias);
  return c;
}

}  // namespace multihead
