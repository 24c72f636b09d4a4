#include "bench_work.h"

#include <algorithm>
#include <random>
#include <vector>

#include "arrays.h"
#include "multihead/attention.h"
#include "multihead/gradient.h"
#include "multihead/kv_cache.h"
#include "multihead/machine.h"

namespace multihead::cli {
namespace {

// Uniform with variance 1: scores of variance 1, as projections of normalised inputs have them.
Tensor random_tensor(DType dtype, const Dims& shape, std::mt19937_64& random) {
  Tensor values = Tensor::uninitialized(DType::kF32, shape);
  constexpr float kBound = 1.7320508f;
  std::generate_n(values.data<float>(), values.size(),
                  [&] { return (static_cast<float>(random() >> 40) * 0x1p-23f - 1) * kBound; });
  return dtype == DType::kF32 ? std::move(values) : Tensor::converted(values, dtype);
}

AttentionOptions options_of(const BenchRow& row) {
  AttentionOptions options;
  options.causal = row.causal;
  if (row.window) options.window = row.causal ? last_keys(*row.window) : Window{row.window, row.window};
  return options;
}

// Pairs (query, key) of one head that see each other.
double visible_pairs(const BenchRow& row) {
  const Window window = options_of(row).window.value_or(Window{});
  Index pairs = 0;
  for (Index i = 0; i < row.query_len; ++i) {
    const Index position = row.key_len - row.query_len + i;
    const Index first = window.left ? std::max<Index>(0, position - *window.left) : 0;
    Index last = row.key_len - 1;
    if (row.causal) last = std::min(last, position);
    if (window.right) last = std::min(last, position + *window.right);
    pairs += std::max<Index>(0, last - first + 1);
  }
  return static_cast<double>(pairs);
}

double operations_of(const BenchRow& row) {
  return 2.0 * static_cast<double>(row.num_heads) * visible_pairs(row) * static_cast<double>(2 * row.head_dim);
}

double element_bytes(DType dtype, std::initializer_list<Index> extents) {
  double bytes = static_cast<double>(size_of(dtype));
  for (const Index extent : extents) bytes *= static_cast<double>(extent);
  return bytes;
}

// Keys and values of one cache.
double cache_bytes(const BenchRow& row) { return element_bytes(row.dtype, {2, row.num_kv_heads, row.key_len, row.head_dim}); }

// Heads as the call sees them, [1, heads, length, head_dim], dense or as [1, length, heads, head_dim] in memory.
class Heads {
 public:
  Heads(const BenchRow& row, Index heads, Index length, std::mt19937_64& random)
      : strided_(row.strided),
        memory_(random_tensor(row.dtype, strided_ ? Dims{1, length, heads, row.head_dim} : Dims{1, heads, length, row.head_dim},
                              random)) {}
  TensorView view() { return strided_ ? memory_.view().transposed(1, 2) : memory_.view(); }

 private:
  bool strided_;
  Tensor memory_;
};

class Prefill : public BenchWork {
 public:
  Prefill(const BenchRow& row, std::mt19937_64& random)
      : query_(row, row.num_heads, row.query_len, random),
        key_(row, row.num_kv_heads, row.key_len, random),
        value_(row, row.num_kv_heads, row.key_len, random),
        output_(row, row.num_heads, row.query_len, random),
        answer_{query_.view(), key_.view(), value_.view(), output_.view(), options_of(row)} {
    operations = operations_of(row);
    bytes = element_bytes(row.dtype, {2, row.num_heads, row.query_len, row.head_dim}) + cache_bytes(row);
  }
  void run() override { attention(answer_.query, answer_.key, answer_.value, output_.view(), answer_.options); }
  BenchError check() const override { return check_attention(answer_); }

 private:
  Heads query_, key_, value_, output_;
  AttentionAnswer answer_;
};

// The backward pass alone: what it needs of the forward pass is there.
class Backward : public BenchWork {
 public:
  Backward(const BenchRow& row, std::mt19937_64& random)
      : query_(row, row.num_heads, row.query_len, random),
        key_(row, row.num_kv_heads, row.key_len, random),
        value_(row, row.num_kv_heads, row.key_len, random),
        output_(row, row.num_heads, row.query_len, random),
        grad_output_(row, row.num_heads, row.query_len, random),
        grad_query_(row, row.num_heads, row.query_len, random),
        grad_key_(row, row.num_kv_heads, row.key_len, random),
        grad_value_(row, row.num_kv_heads, row.key_len, random),
        lse_(DType::kF32, {1, row.num_heads, row.query_len}),
        answer_{query_.view(),       key_.view(),        value_.view(),    output_.view(),     lse_,
                grad_output_.view(), grad_query_.view(), grad_key_.view(), grad_value_.view(), options_of(row)} {
    attention(answer_.query, answer_.key, answer_.value, output_.view(), answer_.options, lse_.view());
    operations = 2.5 * operations_of(row);  // five products of the forward pass's two
    bytes = element_bytes(row.dtype, {4, row.num_heads, row.query_len, row.head_dim}) + 2 * cache_bytes(row);
  }
  void run() override {
    attention_backward(answer_.query, answer_.key, answer_.value, answer_.output, answer_.lse, answer_.grad_output,
                       {grad_query_.view(), grad_key_.view(), grad_value_.view(), {}, {}, {}}, answer_.options);
  }
  BenchError check() const override { return check_backward(answer_); }

 private:
  Heads query_, key_, value_, output_, grad_output_, grad_query_, grad_key_, grad_value_;
  Tensor lse_;
  BackwardAnswer answer_;
};

// From here on a row measures memory, not the processor's cache: its caches take turns.
constexpr Index kColdFrom = 4096;

Index caches_in_turn(const BenchRow& row) {
  if (row.key_len < kColdFrom) return 1;
  return 1 + static_cast<Index>(uncached_bytes() / cache_bytes(row));
}

class Decode : public BenchWork {
 public:
  Decode(const BenchRow& row, std::mt19937_64& random)
      : query_(random_tensor(row.dtype, {1, row.num_heads, 1, row.head_dim}, random)),
        output_(row.dtype, {1, row.num_heads, 1, row.head_dim}) {
    KvCacheConfig config;
    config.num_kv_heads = row.num_kv_heads;
    config.head_dim = row.head_dim;
    config.dtype = row.dtype;
    config.capacity = row.key_len;
    for (Index i = 0; i < caches_in_turn(row); ++i) caches_.emplace_back(config);
    constexpr Index kPiece = 1024;  // bounds what generating takes beside the caches
    for (Index start = 0; start < row.key_len; start += kPiece) {
      const Dims shape{1, row.num_kv_heads, std::min(kPiece, row.key_len - start), row.head_dim};
      const Tensor key = random_tensor(row.dtype, shape, random), value = random_tensor(row.dtype, shape, random);
      for (KvCache& cache : caches_) cache.append(key, value);
    }
    operations = operations_of(row);
    bytes = cache_bytes(row);
    limit = BenchLimit::kMemory;
  }
  void run() override {
    caches_[next_].attend(query_, output_);
    next_ = (next_ + 1) % caches_.size();
  }
  BenchError check() const override {
    const auto with_batch = [](Tensor stored) {
      const Dims shape{1, stored.shape()[0], stored.shape()[1], stored.shape()[2]};
      return std::move(stored).reshaped(shape);
    };
    const Tensor key = with_batch(caches_[0].keys(0)), value = with_batch(caches_[0].values(0));
    return check_attention({query_, key, value, output_, KvCache::causal_options()});
  }

 private:
  Tensor query_, output_;
  std::vector<KvCache> caches_;  // all the same
  std::size_t next_ = 0;
};

class Layer : public BenchWork {
 public:
  Layer(std::shared_ptr<const MultiHeadAttention> layer, const Preset& preset, Index length)
      : layer_(std::move(layer)), input_(preset_input(preset, length, 1).reshaped({1, length, layer_->config().model_dim})) {
    const LayerDescription numbers = describe(layer_->config(), length, length);
    operations = numbers.operations;
    bytes = element_bytes(DType::kF32, {numbers.parameters});
    limit = length == 1 ? BenchLimit::kMemory : BenchLimit::kCompute;
  }
  void run() override { output_ = layer_->forward(input_); }
  BenchError check() const override { return check_layer(*layer_, input_, output_); }

 private:
  std::shared_ptr<const MultiHeadAttention> layer_;
  Tensor input_, output_;
};

}  // namespace

std::unique_ptr<BenchWork> BenchWorkshop::prepare(const BenchRow& row) {
  std::mt19937_64 random(1);
  const std::string name = row.name();
  switch (row.kind) {
    case BenchRow::Kind::kPrefill:
      return std::make_unique<Prefill>(row, random);
    case BenchRow::Kind::kBackward:
      return std::make_unique<Backward>(row, random);
    case BenchRow::Kind::kDecode:
      // The caches, and the copy of one that is checked.
      require_memory(cache_bytes(row) * static_cast<double>(caches_in_turn(row) + 1), name);
      return std::make_unique<Decode>(row, random);
    case BenchRow::Kind::kLayer:
      break;
  }
  const Preset preset = find_preset(row.preset);
  if (preset_ != row.preset) {
    layer_.reset();  // before the next one takes its memory
    layer_ = std::make_shared<const MultiHeadAttention>(preset.config, preset_weights(preset, 1));
    preset_ = row.preset;
  }
  return std::make_unique<Layer>(layer_, preset, row.query_len);
}

}  // namespace multihead::cli
