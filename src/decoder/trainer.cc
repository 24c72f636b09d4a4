#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/message.h"
#include "decoder/random.h"
#include "decoder/trainer_file.h"
#include "decoder/weights.h"
#include "multihead/training.h"

namespace multihead {
namespace {

// Sequences with their targets, each the next byte.
struct Batch {
  Batch(Index sequences, Index length) : ids(DType::kI64, {sequences, length}), targets(DType::kI64, {sequences, length}) {}

  void set(Index sequence, std::string_view bytes) {  // length + 1 bytes
    const Index length = ids.shape()[1];
    for (Index i = 0; i < length; ++i) {
      ids.data<Index>()[sequence * length + i] = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
      targets.data<Index>()[sequence * length + i] = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i) + 1]);
    }
  }

  Tensor ids, targets;
};

// A stream of its own for every step, so that none depends on those before.
std::uint64_t random_of_step(std::uint64_t seed, Index step) {
  std::uint64_t state = seed;
  decoder::next_random(state);
  state ^= static_cast<std::uint64_t>(step) * 0xD1342543DE82EF95ULL;
  decoder::next_random(state);
  return state;
}

DecoderWeights first_weights(const TrainingConfig& config) {
  decoder::check_training(config);
  return initial_weights(config.decoder(), config.seed);
}

}  // namespace

Trainer::Trainer(const TrainingConfig& config, std::string_view text, DecoderWeights weights, OptimizerState state)
    : config_(config), text_(text), weights_(std::move(weights)), state_(std::move(state)) {
  const auto size = static_cast<double>(text.size());
  learned_bytes_ = static_cast<Index>(text.size()) - static_cast<Index>(std::floor(size * config.held_out));
  require(learned_bytes_ > config.context, "Trainer: expected a text of more than ", config.context,
          " bytes besides those that are held out; got ", learned_bytes_);
}

Trainer::Trainer(const TrainingConfig& config, std::string_view text)
    : Trainer(config, text, first_weights(config), OptimizerState()) {
  state_ = start_optimizer(weights_);
}

Trainer Trainer::resume(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text) {
  decoder::check_training(config);
  decoder::TrainerFile file = decoder::read_trainer(folder, config, text);
  return {config, text, std::move(file.weights), std::move(file.state)};
}

bool Trainer::is_in(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / decoder::kTrainerFile, error);
}

Index Trainer::parameters() const {
  Index count = 0;
  for_each_weight(weights_, [&](const std::string&, const Tensor& tensor) { count += tensor.size(); });
  return count;
}

Trainer::Step Trainer::advance() {
  Batch batch(config_.batch, config_.context);
  std::uint64_t random = random_of_step(config_.seed, state_.step);
  const auto places = static_cast<std::uint64_t>(learned_bytes_ - config_.context);
  for (Index b = 0; b < config_.batch; ++b) {
    const std::size_t first = decoder::next_random(random) % places;
    batch.set(b, std::string_view(text_).substr(first, static_cast<std::size_t>(config_.context) + 1));
  }
  const Decoder decoder(config_.decoder(), copy_weights(weights_));
  const LossGradients result = loss_gradients(decoder, batch.ids, batch.targets);
  return {result.loss, optimizer_step(config_.optimizer, weights_, result.gradients, state_)};
}

Loss Trainer::held_out_loss(Index sequences) const {
  const std::string_view rest = std::string_view(text_).substr(static_cast<std::size_t>(learned_bytes_));
  const Index length = config_.context, all = std::max<Index>(0, static_cast<Index>(rest.size()) - 1) / length;
  const Index count = sequences > 0 ? std::min(sequences, all) : all;
  const Decoder decoder(config_.decoder(), copy_weights(weights_));
  Loss sum;
  double total = 0;
  for (Index first = 0; first < count; first += config_.batch) {
    Batch batch(std::min(config_.batch, count - first), length);
    for (Index b = 0; b < batch.ids.shape()[0]; ++b) {
      const Index sequence = (first + b) * all / count;
      batch.set(b, rest.substr(static_cast<std::size_t>(sequence * length), static_cast<std::size_t>(length) + 1));
    }
    const Loss loss = evaluate_loss(decoder, batch.ids, batch.targets);
    total += loss.mean * static_cast<double>(loss.count);
    sum.count += loss.count;
    sum.correct += loss.correct;
  }
  sum.mean = sum.count > 0 ? total / static_cast<double>(sum.count) : 0;
  return sum;
}

void Trainer::save(const std::filesystem::path& folder, DType dtype) const {
  decoder::write_trainer(folder, config_, text_, weights_, state_);
  write_decoder(folder, config_.decoder(), weights_, dtype);
}

}  // namespace multihead
