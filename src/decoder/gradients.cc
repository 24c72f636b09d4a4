// Loss and gradients: the decoder's forward, then the same lines from the last to the first.
#include <algorithm>
#include <utility>

#include "base/message.h"
#include "decoder/cross_entropy.h"
#include "decoder/norm.h"
#include "decoder/state.h"
#include "decoder/swiglu.h"
#include "decoder/tape.h"
#include "layer/dense_rows.h"
#include "layer/gradient_products.h"
#include "multihead/training.h"

namespace multihead {
namespace {

using decoder::Block, decoder::BlockTape, decoder::LossSum;

// Rows whose logits are in memory together.
constexpr Index kLogitRows = 512;

Tensor like(const Tensor& tensor) { return Tensor::uninitialized(DType::kF32, tensor.shape()); }

// dW and db into the decoder's gradients; the gradient of x.
Tensor linear_backward(const float* x, const LinearWeights& linear, const float* dy, Index rows, LinearWeights& gradients) {
  LinearGradients all = multihead::linear_backward(x, linear.weight, !linear.bias.empty(), dy, rows);
  gradients.weight = std::move(all.weight);
  gradients.bias = std::move(all.bias);
  return std::move(all.input);
}

class Pass {
 public:
  Pass(const Decoder& decoder, const ConstTensorView& ids, const Index* targets)
      : state_(decoder.state()), config_(decoder.config()), ids_(ids), targets_(targets), rows_(ids.shape[0] * ids.shape[1]) {}

  LossGradients run() {
    std::vector<BlockTape> tapes;
    const Tensor x = state_.run(ids_, {.tapes = &tapes});
    result_.gradients.embedding = Tensor(DType::kF32, {config_.vocab_size, config_.model_dim});
    if (!config_.tied_output) result_.gradients.output = Tensor(DType::kF32, {config_.vocab_size, config_.model_dim});
    result_.gradients.blocks.resize(state_.blocks.size());
    Tensor dx = head(x);
    for (std::size_t b = state_.blocks.size(); b-- > 0;) {
      block(state_.blocks[b], tapes[b], dx, result_.gradients.blocks[b]);
      tapes[b] = BlockTape();  // memory is wanted elsewhere
    }
    embedding(dx);
    return std::move(result_);
  }

 private:
  // The final norm, the output projection and the loss. x: what leaves the last block; returns its gradient.
  Tensor head(const Tensor& x);
  // dx: the gradient of the block's output, replaced by that of its input.
  void block(const Block& block, const BlockTape& tape, Tensor& dx, DecoderBlockWeights& gradients);
  Tensor norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, Tensor& dweight);
  void embedding(const Tensor& dx);

  const Decoder::State& state_;
  const DecoderConfig& config_;
  const ConstTensorView& ids_;
  const Index* targets_;
  Index rows_;
  LossGradients result_;
};

Tensor Pass::norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, Tensor& dweight) {
  Tensor dx = like(x);
  dweight = like(weight);
  decoder::rms_norm_backward({x.data<float>(), rows_, config_.model_dim}, weight.data<float>(), config_.norm_epsilon,
                             dy.data<float>(), dx.data<float>(), dweight.data<float>());
  return dx;
}

Tensor Pass::head(const Tensor& x) {
  const Index width = config_.model_dim, vocab = config_.vocab_size;
  const Tensor h = state_.norm(x, state_.final_norm);
  const DenseRows weight(config_.tied_output ? state_.embedding : state_.output_weight);
  Tensor& dweight = config_.tied_output ? result_.gradients.embedding : result_.gradients.output;
  const Index counted = rows_ - std::count(targets_, targets_ + rows_, kNoTarget);
  const double share = counted > 0 ? 1 / static_cast<double>(counted) : 0;

  Tensor dh = like(h), part = like(dweight), logits = Tensor::uninitialized(DType::kF32, {kLogitRows, vocab});
  LossSum sum;
  for (Index first = 0; first < rows_; first += kLogitRows) {
    const Index count = std::min(kLogitRows, rows_ - first);
    const float* rows = h.data<float>() + first * width;
    state_.output.apply(rows, count, logits.data<float>());
    const LossSum some = decoder::cross_entropy(logits.data<float>(), count, vocab, targets_ + first, share);
    sum.total += some.total;
    sum.correct += some.correct;
    multiply_transposed(logits.data<float>(), rows, vocab, count, width, part.data<float>());
    decoder::add(part, dweight);
    multiply(logits.data<float>(), weight.data(), count, vocab, width, dh.data<float>() + first * width);
  }
  result_.loss = {sum.total * share, counted, sum.correct};
  return norm_backward(x, state_.final_norm, dh, result_.gradients.final_norm);
}

void Pass::block(const Block& block, const BlockTape& tape, Tensor& dx, DecoderBlockWeights& gradients) {
  // x = middle + W_down (silu(gate) * up), gate = W_gate h, up = W_up h, h = norm(middle)
  const decoder::FeedForward& feed = block.feed_forward;
  {
    Tensor hidden = like(tape.gate);
    decoder::swiglu(tape.gate.data<float>(), tape.up.data<float>(), hidden.size(), hidden.data<float>());
    const LinearWeights& down = feed.down_weights;
    const Tensor dhidden = linear_backward(hidden.data<float>(), down, dx.data<float>(), rows_, gradients.down);
    Tensor dgate = like(tape.gate), dup = std::move(hidden);
    decoder::swiglu_backward(tape.gate.data<float>(), tape.up.data<float>(), dhidden.data<float>(), dgate.size(),
                             dgate.data<float>(), dup.data<float>());
    const Tensor h = state_.norm(tape.middle, block.feed_forward_norm);
    Tensor dh = linear_backward(h.data<float>(), feed.gate_weights, dgate.data<float>(), rows_, gradients.gate);
    decoder::add(linear_backward(h.data<float>(), feed.up_weights, dup.data<float>(), rows_, gradients.up), dh);
    decoder::add(norm_backward(tape.middle, block.feed_forward_norm, dh, gradients.feed_forward_norm), dx);
  }
  // middle = input + MultiHead(norm(input))
  const Tensor h = state_.norm(tape.input, block.attention_norm);
  LayerGradients attention = layer_backward(block.attention, h, dx, tape.attention);
  gradients.attention = std::move(attention.weights);
  decoder::add(norm_backward(tape.input, block.attention_norm, attention.input, gradients.attention_norm), dx);
}

// Positions with the same id add up, in their order.
void Pass::embedding(const Tensor& dx) {
  const float* row = dx.data<float>();
  for (Index b = 0; b < ids_.shape[0]; ++b) {
    for (Index i = 0; i < ids_.shape[1]; ++i, row += config_.model_dim) {
      float* to = result_.gradients.embedding.data<float>() + ids_.at<Index>(b, i) * config_.model_dim;
      std::transform(to, to + config_.model_dim, row, to, std::plus<>());
    }
  }
}

// Dense targets, checked.
Tensor checked_targets(const char* function, const Decoder& decoder, const ConstTensorView& ids,
                       const ConstTensorView& targets) {
  decoder.state().check_ids(function, ids);
  require(targets.dtype == DType::kI64 && targets.shape == ids.shape, function, ": expected targets ", ids.shape, ", i64; got ",
          targets.shape, " ", name_of(targets.dtype));
  Tensor dense = Tensor::copy_of(targets);
  for (Index i = 0; i < dense.size(); ++i) {
    const Index id = dense.data<Index>()[i];
    require(id == kNoTarget || (id >= 0 && id < decoder.config().vocab_size), function, ": expected targets below ",
            decoder.config().vocab_size, ", or ", kNoTarget, "; got ", id);
  }
  return dense;
}

}  // namespace

Loss evaluate_loss(const Decoder& decoder, const ConstTensorView& ids, const ConstTensorView& targets) {
  const Tensor wanted = checked_targets("evaluate_loss", decoder, ids, targets);
  const Decoder::State& state = decoder.state();
  const Tensor h = state.norm(state.run(ids, {}), state.final_norm);
  const Index rows = wanted.size(), width = decoder.config().model_dim, vocab = decoder.config().vocab_size;
  Tensor logits = Tensor::uninitialized(DType::kF32, {kLogitRows, vocab});
  LossSum sum;
  for (Index first = 0; first < rows; first += kLogitRows) {
    const Index count = std::min(kLogitRows, rows - first);
    state.output.apply(h.data<float>() + first * width, count, logits.data<float>());
    const float* some_logits = logits.data<float>();
    const LossSum some = decoder::cross_entropy(some_logits, count, vocab, wanted.data<Index>() + first);
    sum = {sum.total + some.total, sum.count + some.count, sum.correct + some.correct};
  }
  return {sum.count > 0 ? sum.total / static_cast<double>(sum.count) : 0, sum.count, sum.correct};
}

LossGradients loss_gradients(const Decoder& decoder, const ConstTensorView& ids, const ConstTensorView& targets) {
  const Tensor wanted = checked_targets("loss_gradients", decoder, ids, targets);
  return Pass(decoder, ids, wanted.data<Index>()).run();
}

}  // namespace multihead
