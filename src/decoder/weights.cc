#include "decoder/weights.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "base/message.h"

namespace multihead::decoder {
namespace {

constexpr const char* kFunction = "Decoder";

// One list of names for reading, writing and learning. `Weights` is DecoderWeights or const DecoderWeights.
template <typename Weights, typename Visit>
void visit_weights(Weights& weights, const Visit& visit) {
  const auto present = [&](const std::string& name, auto& tensor) {
    if (!tensor.empty()) visit(name, tensor);
  };
  present("model.embed_tokens.weight", weights.embedding);
  for (std::size_t b = 0; b < weights.blocks.size(); ++b) {
    auto& block = weights.blocks[b];
    const auto member = [&](const char* name, auto& tensor) { present(block_name(static_cast<Index>(b), name), tensor); };
    member("input_layernorm.weight", block.attention_norm);
    member("self_attn.q_proj.weight", block.attention.query_weight);
    member("self_attn.q_proj.bias", block.attention.query_bias);
    member("self_attn.k_proj.weight", block.attention.key_weight);
    member("self_attn.k_proj.bias", block.attention.key_bias);
    member("self_attn.v_proj.weight", block.attention.value_weight);
    member("self_attn.v_proj.bias", block.attention.value_bias);
    member("self_attn.o_proj.weight", block.attention.output_weight);
    member("self_attn.o_proj.bias", block.attention.output_bias);
    member("self_attn.q_norm.weight", block.attention.query_norm);
    member("self_attn.k_norm.weight", block.attention.key_norm);
    member("post_attention_layernorm.weight", block.feed_forward_norm);
    member("mlp.gate_proj.weight", block.gate.weight);
    member("mlp.gate_proj.bias", block.gate.bias);
    member("mlp.up_proj.weight", block.up.weight);
    member("mlp.up_proj.bias", block.up.bias);
    member("mlp.down_proj.weight", block.down.weight);
    member("mlp.down_proj.bias", block.down.bias);
  }
  present("model.norm.weight", weights.final_norm);
  present("lm_head.weight", weights.output);
}

void check(const std::string& name, const Tensor& weight, const Dims& expected) {
  require(!weight.empty(), kFunction, ": ", name, ": expected ", expected, "; found none");
  require(weight.shape() == expected, kFunction, ": ", name, ": expected ", expected, "; found ", weight.shape());
  require(is_attention_dtype(weight.dtype()), kFunction, ": ", name, ": expected f32, f16 or bf16; found ",
          name_of(weight.dtype()));
}

void check(const std::string& name, const LinearWeights& linear, Index out, Index in) {
  check(name + ".weight", linear.weight, {out, in});
  if (!linear.bias.empty()) check(name + ".bias", linear.bias, {out});
}

}  // namespace

std::string block_name(Index block, const std::string& name) { return concat("model.layers.", block, ".", name); }

DecoderConfig checked_config(DecoderConfig config) {
  require(config.vocab_size > 0 && config.model_dim > 0 && config.hidden_dim > 0, kFunction,
          ": expected positive vocab_size, model_dim and hidden_dim; got ", config.vocab_size, ", ", config.model_dim, " and ",
          config.hidden_dim);
  require(std::isfinite(config.norm_epsilon) && config.norm_epsilon >= 0, kFunction,
          ": norm_epsilon: expected a finite number from 0; got ", config.norm_epsilon);
  require(!config.layers.empty(), kFunction, ": expected at least one layer; got none");
  for (LayerConfig& layer : config.layers) {
    layer = layer.resolved();
    require(layer.model_dim == config.model_dim && layer.output_dim == config.model_dim &&
                layer.key_input_dim == config.model_dim && layer.value_input_dim == config.model_dim,
            kFunction, ": expected self attention layers of the decoder's model_dim ", config.model_dim, "; got ",
            layer.model_dim, " and output_dim ", layer.output_dim);
    require(layer.causal, kFunction, ": expected causal layers; got one that sees what comes later");
  }
  const auto check_id = [&](const char* name, Index id) {
    require(id >= 0 && id < config.vocab_size, kFunction, ": ", name, ": expected an id below ", config.vocab_size, "; got ",
            id);
  };
  if (config.begin_id) check_id("begin_id", *config.begin_id);
  for (const Index id : config.end_ids) check_id("end_ids", id);
  return config;
}

LayerWeights copy_layer(const LayerWeights& from) {
  const auto copy = [](const Tensor& tensor) { return tensor.empty() ? Tensor() : tensor.copy(); };
  LayerWeights to;
  to.query_weight = copy(from.query_weight);
  to.key_weight = copy(from.key_weight);
  to.value_weight = copy(from.value_weight);
  to.output_weight = copy(from.output_weight);
  to.query_bias = copy(from.query_bias);
  to.key_bias = copy(from.key_bias);
  to.value_bias = copy(from.value_bias);
  to.output_bias = copy(from.output_bias);
  to.query_norm = copy(from.query_norm);
  to.key_norm = copy(from.key_norm);
  to.query_norm_bias = copy(from.query_norm_bias);
  to.key_norm_bias = copy(from.key_norm_bias);
  to.sinks = copy(from.sinks);
  to.alibi_slopes = copy(from.alibi_slopes);
  to.relative_bias = copy(from.relative_bias);
  return to;
}

void check_weights(const DecoderConfig& config, const DecoderWeights& weights) {
  check("embedding", weights.embedding, {config.vocab_size, config.model_dim});
  require(weights.blocks.size() == config.layers.size(), kFunction, ": expected weights of ", config.layers.size(),
          " blocks; found ", weights.blocks.size());
  for (std::size_t b = 0; b < weights.blocks.size(); ++b) {
    const DecoderBlockWeights& block = weights.blocks[b];
    const std::string prefix = concat("block ", b, ": ");
    check(prefix + "attention_norm", block.attention_norm, {config.model_dim});
    check(prefix + "feed_forward_norm", block.feed_forward_norm, {config.model_dim});
    check(prefix + "gate", block.gate, config.hidden_dim, config.model_dim);
    check(prefix + "up", block.up, config.hidden_dim, config.model_dim);
    check(prefix + "down", block.down, config.model_dim, config.hidden_dim);
  }
  check("final_norm", weights.final_norm, {config.model_dim});
  if (config.tied_output) {
    require(weights.output.empty(), kFunction, ": output: expected none, because it is tied to the embedding; found ",
            weights.output.shape());
  } else {
    check("output", weights.output, {config.vocab_size, config.model_dim});
  }
}

}  // namespace multihead::decoder

namespace multihead {

void for_each_weight(DecoderWeights& weights, const std::function<void(const std::string&, Tensor&)>& visit) {
  decoder::visit_weights(weights, visit);
}
void for_each_weight(const DecoderWeights& weights, const std::function<void(const std::string&, const Tensor&)>& visit) {
  decoder::visit_weights(weights, visit);
}

}  // namespace multihead
