// The decoder: forward reads like the four lines of decoder.h.
#include "multihead/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/message.h"
#include "base/parallel.h"
#include "decoder/norm.h"
#include "decoder/swiglu.h"
#include "decoder/weights.h"
#include "layer/projection.h"

namespace multihead {
namespace {

using decoder::Rows;

constexpr const char* kForward = "Decoder::forward";

struct FeedForward {
  explicit FeedForward(const DecoderBlockWeights& weights)
      : gate(weights.gate.weight, weights.gate.bias),
        up(weights.up.weight, weights.up.bias),
        down(weights.down.weight, weights.down.bias) {}

  Projection gate, up, down;

  Tensor operator()(const Tensor& x, Index rows) const {
    Tensor g = Tensor::uninitialized(DType::kF32, {rows, gate.output_width()});
    Tensor u = Tensor::uninitialized(DType::kF32, g.shape());
    gate.apply(x.data<float>(), rows, g.data<float>());
    up.apply(x.data<float>(), rows, u.data<float>());
    decoder::swiglu(g.data<float>(), u.data<float>(), g.size(), g.data<float>());
    Tensor y = Tensor::uninitialized(DType::kF32, x.shape());
    down.apply(g.data<float>(), rows, y.data<float>());
    return y;
  }
};

struct Block {
  Block(const LayerConfig& config, DecoderBlockWeights weights)
      : attention_norm(Tensor::converted(weights.attention_norm, DType::kF32)),
        feed_forward_norm(Tensor::converted(weights.feed_forward_norm, DType::kF32)),
        feed_forward(weights),
        attention(config, std::move(weights.attention)) {}

  Tensor attention_norm, feed_forward_norm;
  FeedForward feed_forward;
  MultiHeadAttention attention;
};

void add(const Tensor& y, Tensor& x) {
  const float* from = y.data<float>();
  float* to = x.data<float>();
  for (Index i = 0, count = x.size(); i < count; ++i) to[i] += from[i];
}

Projection make_output(const DecoderWeights& weights) {
  return {weights.output.empty() ? weights.embedding : weights.output, ConstTensorView()};
}

}  // namespace

struct Decoder::State {
  State(DecoderConfig checked, DecoderWeights weights)
      : config(std::move(checked)),
        output(make_output(weights)),
        embedding(std::move(weights.embedding)),
        final_norm(Tensor::converted(weights.final_norm, DType::kF32)) {
    for (std::size_t b = 0; b < config.layers.size(); ++b) blocks.emplace_back(config.layers[b], std::move(weights.blocks[b]));
  }

  DecoderConfig config;
  Projection output;
  Tensor embedding, final_norm;
  std::vector<Block> blocks;

  Tensor norm(const Tensor& x, const Tensor& weight) const {
    Tensor y = Tensor::uninitialized(DType::kF32, x.shape());
    decoder::rms_norm({x.data<float>(), x.size() / config.model_dim, config.model_dim}, weight.data<float>(),
                      config.norm_epsilon, y.data<float>());
    return y;
  }

  void check_ids(const ConstTensorView& ids) const {
    require(ids.rank() == 2 && ids.dtype == DType::kI64, kForward, ": expected ids [batch, length], i64; got ", ids.shape, " ",
            name_of(ids.dtype));
    for (Index b = 0; b < ids.shape[0]; ++b) {
      for (Index i = 0; i < ids.shape[1]; ++i) {
        const Index id = ids.at<Index>(b, i);
        require(id >= 0 && id < config.vocab_size, kForward, ": expected ids below ", config.vocab_size, "; got ", id,
                " at position ", i, " of sequence ", b);
      }
    }
  }

  // x = E[ids], [batch, length, model_dim].
  Tensor embed(const ConstTensorView& ids) const {
    Tensor x = Tensor::uninitialized(DType::kF32, {ids.shape[0], ids.shape[1], config.model_dim});
    float* row = x.data<float>();
    for (Index b = 0; b < ids.shape[0]; ++b) {
      for (Index i = 0; i < ids.shape[1]; ++i, row += config.model_dim) {
        const Index id = ids.at<Index>(b, i);
        const Tensor vector = Tensor::converted(embedding.view().slice(0, id, id + 1), DType::kF32);
        std::copy_n(vector.data<float>(), config.model_dim, row);
      }
    }
    return x;
  }

  // The last state of every position, normalised.
  Tensor run(const ConstTensorView& ids, DecoderCache* cache, std::vector<Capture>* captures) const {
    if (captures != nullptr) *captures = std::vector<Capture>(blocks.size());
    Tensor x = embed(ids);
    const Index rows = ids.shape[0] * ids.shape[1];
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Block& block = blocks[b];
      ForwardObservation seen;
      if (captures != nullptr) {
        seen.capture = &(*captures)[b];
        seen.capture_values = true;
        seen.capture->labels.name = decoder::block_name(static_cast<Index>(b), "self_attn");
        seen.capture->labels.layer = static_cast<Index>(b);
      }
      const Tensor h = norm(x, block.attention_norm);
      add(cache != nullptr ? block.attention.forward(h, cache->layers[b], {}, seen) : block.attention.forward(h, {}, seen), x);
      add(block.feed_forward(norm(x, block.feed_forward_norm), rows), x);
    }
    return norm(x, final_norm);
  }

  void check_cache(const ConstTensorView& ids, const DecoderCache& cache) const {
    require(cache.layers.size() == blocks.size(), kForward, ": expected a cache of ", blocks.size(), " layers; got ",
            cache.layers.size());
    const KvCacheConfig& shape = cache.layers.front().config();
    require(ids.shape[1] > 0, kForward, ": expected at least one id for every sequence of the cache; got ", ids.shape);
    require(ids.shape[0] == shape.sequences, kForward, ": expected ids of ", shape.sequences, " sequences; got ", ids.shape);
    for (Index s = 0; s < shape.sequences; ++s) {
      require(cache.length(s) + ids.shape[1] <= shape.capacity, kForward, ": the cache takes ",
              shape.capacity - cache.length(s), " more positions of sequence ", s, "; got ids ", ids.shape);
    }
  }
};

Decoder::Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Decoder::Decoder(DecoderConfig config, DecoderWeights weights) {
  config = decoder::checked_config(std::move(config));
  decoder::check_weights(config, weights);
  state_ = std::make_unique<State>(std::move(config), std::move(weights));
}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

const DecoderConfig& Decoder::config() const { return state_->config; }
const MultiHeadAttention& Decoder::layer(Index block) const {
  return state_->blocks.at(static_cast<std::size_t>(block)).attention;
}

Tensor Decoder::forward(const ConstTensorView& ids, std::vector<Capture>* captures) const {
  state_->check_ids(ids);
  const Tensor x = state_->run(ids, nullptr, captures);
  Tensor logits = Tensor::uninitialized(DType::kF32, {ids.shape[0], ids.shape[1], config().vocab_size});
  state_->output.apply(x.data<float>(), ids.shape[0] * ids.shape[1], logits.data<float>());
  return logits;
}

Tensor Decoder::forward(const ConstTensorView& ids, DecoderCache& cache, std::vector<Capture>* captures) const {
  state_->check_ids(ids);
  state_->check_cache(ids, cache);
  const Tensor x = state_->run(ids, &cache, captures);
  const Index batch = ids.shape[0], length = ids.shape[1];
  const Tensor last = Tensor::copy_of(x.view().slice(1, length - 1, length));
  Tensor logits = Tensor::uninitialized(DType::kF32, {batch, config().vocab_size});
  state_->output.apply(last.data<float>(), batch, logits.data<float>());
  return logits;
}

DecoderCache Decoder::make_cache(Index sequences, Index capacity, DType dtype) const {
  DecoderCache cache;
  for (const LayerConfig& layer : config().layers) {
    cache.layers.emplace_back(
        KvCacheConfig{sequences, layer.num_kv_heads, layer.head_dim, layer.value_dim, dtype, capacity, false});
  }
  return cache;
}

}  // namespace multihead
