#include <cmath>

#include "decoder/random.h"
#include "decoder/weights.h"
#include "multihead/training.h"

namespace multihead {
namespace {

Tensor normal_tensor(const Dims& shape, double deviation, std::uint64_t& random) {
  Tensor tensor = Tensor::uninitialized(DType::kF32, shape);
  for (Index i = 0, count = tensor.size(); i < count; ++i)
    tensor.data<float>()[i] = static_cast<float>(deviation * decoder::normal(random));
  return tensor;
}

Tensor ones(Index width) {
  Tensor tensor = Tensor::uninitialized(DType::kF32, {width});
  std::fill_n(tensor.data<float>(), width, 1.0F);
  return tensor;
}

}  // namespace

DecoderWeights initial_weights(const DecoderConfig& given, std::uint64_t seed) {
  const DecoderConfig config = decoder::checked_config(given);
  std::uint64_t random = seed;
  const auto matrix = [&](Index out, Index in, double factor = 1) {
    return normal_tensor({out, in}, factor / std::sqrt(static_cast<double>(in)), random);
  };
  // Every block adds two of these to the residual stream, whose size should not grow with their number.
  const double residual = 1 / std::sqrt(2 * static_cast<double>(config.layers.size()));
  DecoderWeights weights;
  // Not smaller, as is often seen: what the first blocks add would drown the tokens. An induction task of tests/decoder was
  // learned to 58 % in 800 steps with a deviation of 0.02, to 100 % with this.
  weights.embedding = matrix(config.vocab_size, config.model_dim);
  for (const LayerConfig& layer : config.layers) {
    DecoderBlockWeights block;
    block.attention_norm = ones(config.model_dim);
    block.attention.query_weight = matrix(layer.num_heads * layer.head_dim, config.model_dim);
    block.attention.key_weight = matrix(layer.num_kv_heads * layer.head_dim, config.model_dim);
    block.attention.value_weight = matrix(layer.num_kv_heads * layer.value_dim, config.model_dim);
    block.attention.output_weight = matrix(config.model_dim, layer.num_heads * layer.value_dim, residual);
    block.feed_forward_norm = ones(config.model_dim);
    block.gate.weight = matrix(config.hidden_dim, config.model_dim);
    block.up.weight = matrix(config.hidden_dim, config.model_dim);
    block.down.weight = matrix(config.model_dim, config.hidden_dim, residual);
    weights.blocks.push_back(std::move(block));
  }
  weights.final_norm = ones(config.model_dim);
  if (!config.tied_output) weights.output = matrix(config.vocab_size, config.model_dim);
  return weights;
}

DecoderWeights copy_weights(const DecoderWeights& from) {
  const auto copy = [](const Tensor& tensor) { return tensor.empty() ? Tensor() : tensor.copy(); };
  const auto linear = [&](const LinearWeights& l) { return LinearWeights{copy(l.weight), copy(l.bias)}; };
  DecoderWeights to;
  to.embedding = copy(from.embedding);
  to.final_norm = copy(from.final_norm);
  to.output = copy(from.output);
  for (const DecoderBlockWeights& block : from.blocks) {
    DecoderBlockWeights b;
    b.attention_norm = copy(block.attention_norm);
    b.attention = decoder::copy_layer(block.attention);
    b.feed_forward_norm = copy(block.feed_forward_norm);
    b.gate = linear(block.gate);
    b.up = linear(block.up);
    b.down = linear(block.down);
    to.blocks.push_back(std::move(b));
  }
  return to;
}

}  // namespace multihead
