// The decoder: forward reads like the four lines of decoder.h.
#include "multihead/decoder.h"

#include <algorithm>
#include <utility>

#include "base/message.h"
#include "decoder/state.h"
#include "decoder/swiglu.h"
#include "decoder/tape.h"
#include "decoder/weights.h"

namespace multihead {

namespace decoder {

FeedForward::FeedForward(DecoderBlockWeights& from)
    : gate_weights(std::move(from.gate)),
      up_weights(std::move(from.up)),
      down_weights(std::move(from.down)),
      gate(gate_weights.weight, gate_weights.bias),
      up(up_weights.weight, up_weights.bias),
      down(down_weights.weight, down_weights.bias) {}

Tensor FeedForward::operator()(const Tensor& x, Index rows, Tensor* gate_x, Tensor* up_x) const {
  Tensor g = Tensor::uninitialized(DType::kF32, {rows, gate.output_width()});
  Tensor u = Tensor::uninitialized(DType::kF32, g.shape());
  gate.apply(x.data<float>(), rows, g.data<float>());
  up.apply(x.data<float>(), rows, u.data<float>());
  Tensor hidden = Tensor::uninitialized(DType::kF32, g.shape());
  swiglu(g.data<float>(), u.data<float>(), g.size(), hidden.data<float>());
  Tensor y = Tensor::uninitialized(DType::kF32, x.shape());
  down.apply(hidden.data<float>(), rows, y.data<float>());
  if (gate_x != nullptr) *gate_x = std::move(g);
  if (up_x != nullptr) *up_x = std::move(u);
  return y;
}

Block::Block(const LayerConfig& config, DecoderBlockWeights weights)
    : attention_norm(Tensor::converted(weights.attention_norm, DType::kF32)),
      feed_forward_norm(Tensor::converted(weights.feed_forward_norm, DType::kF32)),
      feed_forward(weights),
      attention(config, std::move(weights.attention)) {}

void add(const Tensor& y, Tensor& x) {
  std::transform(x.data<float>(), x.data<float>() + x.size(), y.data<float>(), x.data<float>(), std::plus<>());
}

namespace {

constexpr const char* kForward = "Decoder::forward";

Projection make_output(const DecoderWeights& weights) {
  return {weights.output.empty() ? weights.embedding : weights.output, ConstTensorView()};
}

// What a block's attention is to tell besides its result.
ForwardObservation observe(const Pass& pass, std::size_t block) {
  ForwardObservation seen;
  if (pass.captures != nullptr) {
    seen.capture = &(*pass.captures)[block];
    seen.capture_values = true;
    seen.capture->labels.name = block_name(static_cast<Index>(block), "self_attn");
    seen.capture->labels.layer = static_cast<Index>(block);
  }
  if (pass.tapes != nullptr) seen.tape = &(*pass.tapes)[block].attention;
  return seen;
}

}  // namespace
}  // namespace decoder

using decoder::Block, decoder::Pass;

Decoder::State::State(DecoderConfig checked, DecoderWeights weights)
    : config(std::move(checked)),
      output(decoder::make_output(weights)),
      embedding(std::move(weights.embedding)),
      output_weight(std::move(weights.output)),
      final_norm(Tensor::converted(weights.final_norm, DType::kF32)) {
  for (std::size_t b = 0; b < config.layers.size(); ++b) blocks.emplace_back(config.layers[b], std::move(weights.blocks[b]));
}

Tensor Decoder::State::norm(const Tensor& x, const Tensor& weight) const {
  Tensor y = Tensor::uninitialized(DType::kF32, x.shape());
  decoder::rms_norm({x.data<float>(), x.size() / config.model_dim, config.model_dim}, weight.data<float>(), config.norm_epsilon,
                    y.data<float>());
  return y;
}

void Decoder::State::check_ids(const char* function, const ConstTensorView& ids) const {
  require(ids.rank() == 2 && ids.dtype == DType::kI64, function, ": expected ids [batch, length], i64; got ", ids.shape, " ",
          name_of(ids.dtype));
  for (Index b = 0; b < ids.shape[0]; ++b) {
    for (Index i = 0; i < ids.shape[1]; ++i) {
      const Index id = ids.at<Index>(b, i);
      require(id >= 0 && id < config.vocab_size, function, ": expected ids below ", config.vocab_size, "; got ", id,
              " at position ", i, " of sequence ", b);
    }
  }
}

void Decoder::State::check_cache(const ConstTensorView& ids, const DecoderCache& cache) const {
  require(cache.layers.size() == blocks.size(), decoder::kForward, ": expected a cache of ", blocks.size(), " layers; got ",
          cache.layers.size());
  const KvCacheConfig& shape = cache.layers.front().config();
  require(ids.shape[1] > 0, decoder::kForward, ": expected at least one id for every sequence of the cache; got ", ids.shape);
  require(ids.shape[0] == shape.sequences, decoder::kForward, ": expected ids of ", shape.sequences, " sequences; got ",
          ids.shape);
  for (Index s = 0; s < shape.sequences; ++s) {
    require(cache.length(s) + ids.shape[1] <= shape.capacity, decoder::kForward, ": the cache takes ",
            shape.capacity - cache.length(s), " more positions of sequence ", s, "; got ids ", ids.shape);
  }
}

Tensor Decoder::State::embed(const ConstTensorView& ids) const {
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

Tensor Decoder::State::run(const ConstTensorView& ids, const Pass& pass) const {
  if (pass.captures != nullptr) *pass.captures = std::vector<Capture>(blocks.size());
  if (pass.tapes != nullptr) *pass.tapes = std::vector<decoder::BlockTape>(blocks.size());
  Tensor x = embed(ids);
  const Index rows = ids.shape[0] * ids.shape[1];
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    decoder::BlockTape* tape = pass.tapes != nullptr ? &(*pass.tapes)[b] : nullptr;
    const ForwardObservation seen = decoder::observe(pass, b);
    if (tape != nullptr) tape->input = x.copy();
    const Tensor h = norm(x, block.attention_norm);
    const MultiHeadAttention& attention = block.attention;
    decoder::add(pass.cache != nullptr ? attention.forward(h, pass.cache->layers[b], {}, seen) : attention.forward(h, {}, seen),
                 x);
    if (tape != nullptr) tape->middle = x.copy();
    decoder::add(block.feed_forward(norm(x, block.feed_forward_norm), rows, tape != nullptr ? &tape->gate : nullptr,
                                    tape != nullptr ? &tape->up : nullptr),
                 x);
  }
  return x;
}

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
  state_->check_ids(decoder::kForward, ids);
  const Tensor x = state_->norm(state_->run(ids, {.captures = captures}), state_->final_norm);
  Tensor logits = Tensor::uninitialized(DType::kF32, {ids.shape[0], ids.shape[1], config().vocab_size});
  state_->output.apply(x.data<float>(), ids.shape[0] * ids.shape[1], logits.data<float>());
  return logits;
}

Tensor Decoder::forward(const ConstTensorView& ids, DecoderCache& cache, std::vector<Capture>* captures) const {
  state_->check_ids(decoder::kForward, ids);
  state_->check_cache(ids, cache);
  const Tensor x = state_->run(ids, {.cache = &cache, .captures = captures});
  const Index batch = ids.shape[0], length = ids.shape[1];
  const Tensor last = state_->norm(Tensor::copy_of(x.view().slice(1, length - 1, length)), state_->final_norm);
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
