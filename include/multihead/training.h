// Learning: the loss of a decoder, its gradients, and AdamW.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "multihead/decoder.h"
#include "multihead/export.h"

namespace multihead {

/// Target of a position that does not count.
inline constexpr Index kNoTarget = -1;

/// Cross entropy: the mean of -ln p(target) over the positions that count.
struct Loss {
  double mean = 0;  ///< natural logarithm; 0 when nothing counts
  Index count = 0;
  Index correct = 0;  ///< positions whose target has the largest logit
};

/// ids and targets [batch, length], i64; targets kNoTarget or ids. The logits are never stored whole: rows are taken 512 at a
/// time. Throws InvalidArgument.
MULTIHEAD_API Loss evaluate_loss(const Decoder& decoder, const ConstTensorView& ids, const ConstTensorView& targets);

/// The same, and the gradient of `mean` with respect to every weight, f32, under DecoderWeights' names. The bits do not depend
/// on the number of threads. Cost: three times the forward's, 2.5 times for attention. Memory, besides the weights': about
/// 10 * model_dim + 2 * hidden_dim floats a position and block, nothing that grows with length^2.
struct LossGradients {
  Loss loss;
  DecoderWeights gradients;
};
MULTIHEAD_API LossGradients loss_gradients(const Decoder& decoder, const ConstTensorView& ids, const ConstTensorView& targets);

/// AdamW (Loshchilov, Hutter 2019) with clipped gradients, a linear warm-up and a cosine to the end.
struct OptimizerConfig {
  Index steps = 1000;  ///< the whole schedule
  Index warmup = 50;   ///< steps to the full learning rate
  double learning_rate = 1e-3;
  double final_rate = 0.1;  ///< of learning_rate, at the last step
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  ///< of matrices; not of norms and biases
  double clip = 1;            ///< the largest norm of all gradients together; 0 = no limit
};

/// Learning rate of step `step`, from 0.
MULTIHEAD_API double learning_rate_at(const OptimizerConfig& config, Index step);

/// The optimizer's memory of the steps so far.
struct OptimizerState {
  Index step = 0;
  DecoderWeights mean, square;  ///< running means of the gradients and of their squares, f32
};

/// Throws InvalidArgument for numbers that make no sense.
MULTIHEAD_API void check_optimizer(const OptimizerConfig& config);
/// Zeros for these weights, which must be f32.
MULTIHEAD_API OptimizerState start_optimizer(const DecoderWeights& weights);
/// One step, in place. Returns the norm of the gradients before clipping; when it is not finite nothing but the step's number
/// changes. Deterministic.
MULTIHEAD_API double optimizer_step(const OptimizerConfig& config, DecoderWeights& weights, const DecoderWeights& gradients,
                                    OptimizerState& state);

/// A decoder of bytes, and how it is to be learned: what `multihead train --config` reads.
struct TrainingConfig {
  Index num_layers = 4, num_heads = 8, num_kv_heads = 0, model_dim = 128;
  Index hidden_dim = 0;  ///< 0 = 8/3 model_dim, rounded up to a multiple of 16
  Index context = 256;   ///< bytes of one sequence
  Index batch = 16;      ///< sequences of one step
  double rope_theta = 10000;
  OptimizerConfig optimizer;
  double held_out = 0.05;  ///< share of the text, its end, that is never learned from
  std::uint64_t seed = 0;  ///< of the first weights and of the order of the text

  /// A JSON object with these names, those of the optimizer among them ("steps", "learning_rate" …); what is absent keeps its
  /// default. Throws IoError; FormatError for an unknown name or a wrong type, InvalidArgument for a value.
  MULTIHEAD_API static TrainingConfig read(const std::filesystem::path& path);
  /// The same as text, every name in it.
  MULTIHEAD_API std::string text() const;
  MULTIHEAD_API DecoderConfig decoder() const;
};

/// First weights: normal, standard deviation 1 / sqrt(width of the input), of the embedding 1 / sqrt(model_dim); those that add
/// to the residual stream divided by sqrt(2 num_layers); norms 1. The same for the same seed.
MULTIHEAD_API DecoderWeights initial_weights(const DecoderConfig& config, std::uint64_t seed);
MULTIHEAD_API DecoderWeights copy_weights(const DecoderWeights& weights);

/// Learns a text. Step n sees sequences that the seed and n choose, so a training that is interrupted and resumed has the
/// weights of one that was not, bit for bit, on the same instruction set.
class MULTIHEAD_API Trainer {
 public:
  /// A new one. Throws InvalidArgument for a configuration that makes no sense, or a text that is too short for it.
  Trainer(const TrainingConfig& config, std::string_view text);
  /// The one that save() left in `folder`. Throws IoError; FormatError, naming the difference, when it is truncated, of another
  /// program, another configuration or another text.
  static Trainer resume(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text);
  /// Whether save() has left one there.
  static bool is_in(const std::filesystem::path& folder);

  Index step() const { return state_.step; }
  bool finished() const { return state_.step >= config_.optimizer.steps; }
  const TrainingConfig& config() const { return config_; }
  const DecoderWeights& weights() const { return weights_; }
  Index parameters() const;

  struct Step {
    Loss loss;
    double gradient_norm = 0;
  };
  /// One step.
  Step advance();
  /// Loss on the held-out text, cut into sequences, at most `sequences` of them, evenly spread; 0 = all.
  Loss held_out_loss(Index sequences = 0) const;

  /// training.safetensors (weights, optimizer, configuration: what resume needs, in one file that is written beside and
  /// renamed), then config.json and model.safetensors as write_decoder writes them, rounded to `dtype`. Throws IoError.
  void save(const std::filesystem::path& folder, DType dtype = DType::kF32) const;

 private:
  Trainer(const TrainingConfig& config, std::string_view text, DecoderWeights weights, OptimizerState state);

  TrainingConfig config_;
  std::string text_;
  Index learned_bytes_ = 0;  ///< the first so many; the rest is held out
  DecoderWeights weights_;
  OptimizerState state_;
};

}  // namespace multihead
