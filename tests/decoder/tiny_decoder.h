// A small decoder with random weights, and what it must compute, in float64 from the definitions.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "decoder/weights.h"
#include "multihead/decoder.h"
#include "random_inputs.h"

namespace multihead::test {

struct TinyShape {
  Index vocab_size = 37, model_dim = 24, hidden_dim = 29, num_layers = 2, num_heads = 6, num_kv_heads = 2, head_dim = 4;
  bool tied = true, biases = false;
};

inline DecoderConfig tiny_config(const TinyShape& shape) {
  DecoderConfig config;
  config.vocab_size = shape.vocab_size;
  config.model_dim = shape.model_dim;
  config.hidden_dim = shape.hidden_dim;
  config.tied_output = shape.tied;
  config.max_positions = 64;
  config.begin_id = 1;
  LayerConfig layer;
  layer.model_dim = shape.model_dim;
  layer.num_heads = shape.num_heads;
  layer.num_kv_heads = shape.num_kv_heads;
  layer.head_dim = shape.head_dim;
  layer.causal = true;
  layer.rotary = Rotary{};
  config.layers.assign(static_cast<std::size_t>(shape.num_layers), layer);
  return config;
}

/// Normal numbers of standard deviation `size` around `centre`.
inline Tensor normal_tensor(const Dims& shape, Random& random, double size, double centre = 0, DType dtype = DType::kF32) {
  return filled(dtype, shape, [&](Index) { return centre + size * random.normal(); });
}

inline DecoderWeights tiny_weights(const TinyShape& s, std::uint64_t seed, DType dtype = DType::kF32) {
  Random random(seed);
  const auto matrix = [&](Index out, Index in) {
    return normal_tensor({out, in}, random, 1 / std::sqrt(static_cast<double>(in)), 0, dtype);
  };
  const auto gain = [&] { return normal_tensor({s.model_dim}, random, 0.2, 1, dtype); };
  const auto bias = [&](Index width) { return s.biases ? normal_tensor({width}, random, 0.3, 0, dtype) : Tensor(); };
  DecoderWeights weights;
  weights.embedding = normal_tensor({s.vocab_size, s.model_dim}, random, 1, 0, dtype);
  for (Index b = 0; b < s.num_layers; ++b) {
    DecoderBlockWeights block;
    block.attention_norm = gain();
    block.attention.query_weight = matrix(s.num_heads * s.head_dim, s.model_dim);
    block.attention.key_weight = matrix(s.num_kv_heads * s.head_dim, s.model_dim);
    block.attention.value_weight = matrix(s.num_kv_heads * s.head_dim, s.model_dim);
    block.attention.output_weight = matrix(s.model_dim, s.num_heads * s.head_dim);
    block.attention.query_bias = bias(s.num_heads * s.head_dim);
    block.attention.key_bias = bias(s.num_kv_heads * s.head_dim);
    block.attention.value_bias = bias(s.num_kv_heads * s.head_dim);
    block.attention.output_bias = bias(s.model_dim);
    block.feed_forward_norm = gain();
    block.gate = {matrix(s.hidden_dim, s.model_dim), bias(s.hidden_dim)};
    block.up = {matrix(s.hidden_dim, s.model_dim), bias(s.hidden_dim)};
    block.down = {matrix(s.model_dim, s.hidden_dim), bias(s.model_dim)};
    weights.blocks.push_back(std::move(block));
  }
  weights.final_norm = gain();
  if (!s.tied) weights.output = matrix(s.vocab_size, s.model_dim);
  return weights;
}

using Row = std::vector<double>;
using RowList = std::vector<Row>;

inline RowList linear_rows(const RowList& x, const Tensor& weight, const Tensor& bias) {
  const Index out = weight.shape()[0], in = weight.shape()[1];
  RowList y;
  for (const Row& row : x) {
    Row result;
    for (Index j = 0; j < out; ++j) {
      double sum = bias.empty() ? 0 : load_as_double(bias, j);
      for (Index t = 0; t < in; ++t) sum += row[static_cast<std::size_t>(t)] * load_as_double(weight, j * in + t);
      result.push_back(sum);
    }
    y.push_back(std::move(result));
  }
  return y;
}

inline RowList norm_rows(const RowList& x, const Tensor& weight, double epsilon) {
  RowList y = x;
  for (Row& row : y) {
    double sum = 0;
    for (const double value : row) sum += value * value;
    const double size = std::sqrt(sum / static_cast<double>(row.size()) + epsilon);
    for (std::size_t t = 0; t < row.size(); ++t) row[t] *= load_as_double(weight, static_cast<Index>(t)) / size;
  }
  return y;
}

inline void add_rows(RowList& x, const RowList& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t t = 0; t < x[i].size(); ++t) x[i][t] += y[i][t];
  }
}

inline RowList attention_rows(const RowList& x, const LayerConfig& config, const LayerWeights& weights) {
  // reference_forward takes f32 at most: the rounding of its input is the only one here.
  const MultiHeadAttention layer(config, decoder::copy_layer(weights));
  const auto rows = static_cast<Index>(x.size()), width = static_cast<Index>(x.front().size());
  const Tensor input = filled(DType::kF32, {1, rows, width}, [&](Index n) {
    return x[static_cast<std::size_t>(n / width)][static_cast<std::size_t>(n % width)];
  });
  const Tensor output = layer.reference_forward(input, input);
  RowList y(x.size(), Row(x.front().size()));
  for (Index n = 0; n < output.size(); ++n)
    y[static_cast<std::size_t>(n / width)][static_cast<std::size_t>(n % width)] = output.data<double>()[n];
  return y;
}

/// Logits of one sequence, [length][vocab_size].
inline RowList reference_logits(const DecoderConfig& config, const DecoderWeights& weights, const std::vector<Index>& ids) {
  RowList x;
  for (const Index id : ids) {
    Row row;
    for (Index t = 0; t < config.model_dim; ++t) row.push_back(load_as_double(weights.embedding, id * config.model_dim + t));
    x.push_back(std::move(row));
  }
  for (std::size_t b = 0; b < weights.blocks.size(); ++b) {
    const DecoderBlockWeights& block = weights.blocks[b];
    add_rows(x, attention_rows(norm_rows(x, block.attention_norm, config.norm_epsilon), config.layers[b], block.attention));
    const RowList h = norm_rows(x, block.feed_forward_norm, config.norm_epsilon);
    RowList gate = linear_rows(h, block.gate.weight, block.gate.bias), up = linear_rows(h, block.up.weight, block.up.bias);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      for (std::size_t t = 0; t < gate[i].size(); ++t) gate[i][t] *= up[i][t] / (1 + std::exp(-gate[i][t]));
    }
    add_rows(x, linear_rows(gate, block.down.weight, block.down.bias));
  }
  return linear_rows(norm_rows(x, weights.final_norm, config.norm_epsilon),
                     weights.output.empty() ? weights.embedding : weights.output, Tensor());
}

inline std::vector<Index> random_ids(Index count, Index vocab_size, std::uint64_t seed) {
  Random random(seed);
  std::vector<Index> ids;
  for (Index i = 0; i < count; ++i) ids.push_back(random.between(0, vocab_size - 1));
  return ids;
}

}  // namespace multihead::test
