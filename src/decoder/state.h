// What a ready decoder consists of.
#pragma once

#include <vector>

#include "decoder/norm.h"
#include "layer/projection.h"
#include "multihead/decoder.h"

namespace multihead {

namespace decoder {

/// W_down (silu(W_gate x) * W_up x).
struct FeedForward {
  explicit FeedForward(DecoderBlockWeights& from);

  LinearWeights gate_weights, up_weights, down_weights;
  Projection gate, up, down;

  /// x [rows, model_dim]. `gate_x` and `up_x`, when asked for, receive W_gate x and W_up x.
  Tensor operator()(const Tensor& x, Index rows, Tensor* gate_x = nullptr, Tensor* up_x = nullptr) const;
};

struct Block {
  Block(const LayerConfig& config, DecoderBlockWeights weights);

  Tensor attention_norm, feed_forward_norm;  ///< f32
  FeedForward feed_forward;
  MultiHeadAttention attention;
};

/// What one block leaves for its backward pass.
struct BlockTape;

/// x += y
void add(const Tensor& y, Tensor& x);

/// What a pass over the blocks can be asked for.
struct Pass {
  DecoderCache* cache = nullptr;
  std::vector<Capture>* captures = nullptr;
  std::vector<BlockTape>* tapes = nullptr;  ///< one a block
};

}  // namespace decoder

struct Decoder::State {
  State(DecoderConfig checked, DecoderWeights weights);

  DecoderConfig config;
  Projection output;
  Tensor embedding;      ///< as it was given
  Tensor output_weight;  ///< as it was given; empty when tied
  Tensor final_norm;     ///< f32
  std::vector<decoder::Block> blocks;

  Tensor norm(const Tensor& x, const Tensor& weight) const;
  /// Throws InvalidArgument, with the name of `function`.
  void check_ids(const char* function, const ConstTensorView& ids) const;
  void check_cache(const ConstTensorView& ids, const DecoderCache& cache) const;
  /// x = E[ids], [batch, length, model_dim].
  Tensor embed(const ConstTensorView& ids) const;
  /// What leaves the last block, [batch, length, model_dim], before the final norm.
  Tensor run(const ConstTensorView& ids, const decoder::Pass& pass) const;
};

}  // namespace multihead
