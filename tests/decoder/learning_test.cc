// Two tasks that tell whether a decoder learns: to copy, and to go on with what it has seen once (Olsson et al. 2022).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "decoder/tiny_decoder.h"
#include "multihead/attention_map.h"
#include "multihead/runtime.h"
#include "multihead/statistics.h"
#include "multihead/training.h"

namespace multihead {
namespace {

constexpr Index kVocab = 20;

// Tokens and the next ones, of which only those that can be known count.
struct Batch {
  std::vector<Index> ids, targets;
  Index sequences = 0;

  void add(const std::vector<Index>& sequence, Index known_from) {
    ++sequences;
    ids.insert(ids.end(), sequence.begin(), sequence.end() - 1);
    for (std::size_t i = 1; i < sequence.size(); ++i)
      targets.push_back(static_cast<Index>(i) - 1 >= known_from ? sequence[i] : kNoTarget);
  }
  ConstTensorView view(const std::vector<Index>& numbers) const {
    return {numbers.data(), {sequences, static_cast<Index>(numbers.size()) / sequences}};
  }
};

// Different tokens in random order, 1 … kVocab - 1.
std::vector<Index> random_block(Index length, test::Random& random) {
  std::vector<Index> tokens(kVocab - 1);
  std::iota(tokens.begin(), tokens.end(), Index{1});
  for (Index i = 0; i < length; ++i)
    std::swap(tokens[static_cast<std::size_t>(i)], tokens[static_cast<std::size_t>(random.between(i, kVocab - 2))]);
  tokens.resize(static_cast<std::size_t>(length));
  return tokens;
}

// Ten tokens, a 0, the ten tokens.
void add_copy(Batch& batch, test::Random& random) {
  constexpr Index kLength = 10;
  std::vector<Index> block;
  for (Index i = 0; i < kLength; ++i) block.push_back(random.between(1, kVocab - 1));
  std::vector<Index> sequence = block;
  sequence.push_back(0);
  sequence.insert(sequence.end(), block.begin(), block.end());
  batch.add(sequence, kLength);
}

// A block over and over; its length changes, so that looking a fixed way back does not do.
void add_induction(Batch& batch, test::Random& random) {
  constexpr Index kLength = 33;
  const Index period = random.between(5, 12);
  const std::vector<Index> block = random_block(period, random);
  std::vector<Index> sequence;
  for (Index i = 0; i < kLength; ++i) sequence.push_back(block[static_cast<std::size_t>(i % period)]);
  batch.add(sequence, period);
}

DecoderConfig task_config(Index layers) {
  test::TinyShape shape{.vocab_size = kVocab,
                        .model_dim = 64,
                        .hidden_dim = 64,
                        .num_layers = layers,
                        .num_heads = 4,
                        .num_kv_heads = 4,
                        .head_dim = 16};
  DecoderConfig config = test::tiny_config(shape);
  for (LayerConfig& layer : config.layers) layer.rotary->theta = 100;  // sequences are short
  return config;
}

template <typename Add>
double accuracy(const Decoder& decoder, Add add) {
  Batch batch;
  test::Random random(999);
  for (int i = 0; i < 100; ++i) add(batch, random);
  const Loss loss = evaluate_loss(decoder, batch.view(batch.ids), batch.view(batch.targets));
  return static_cast<double>(loss.correct) / static_cast<double>(loss.count);
}

template <typename Add>
Decoder learn(const DecoderConfig& config, const OptimizerConfig& optimizer, Index sequences, Add add) {
  set_num_threads(1);  // a second one would mostly wait at these sizes
  DecoderWeights weights = initial_weights(config, 1);
  OptimizerState state = start_optimizer(weights);
  test::Random random(42);
  for (Index step = 0; step < optimizer.steps; ++step) {
    Batch batch;
    for (Index i = 0; i < sequences; ++i) add(batch, random);
    const Decoder decoder(config, copy_weights(weights));
    optimizer_step(optimizer, weights, loss_gradients(decoder, batch.view(batch.ids), batch.view(batch.targets)).gradients,
                   state);
  }
  set_num_threads(0);
  return {config, std::move(weights)};
}

TEST(Learning, ToCopy) {
  const DecoderConfig config = task_config(1);
  EXPECT_LT(accuracy(Decoder(config, initial_weights(config, 1)), add_copy), 0.2) << "before";
  const Decoder decoder = learn(config, {.steps = 300, .warmup = 20, .learning_rate = 5e-3}, 32, add_copy);
  EXPECT_GT(accuracy(decoder, add_copy), 0.99);
}

TEST(Learning, ToGoOnWithWhatWasSeenOnce) {
  const DecoderConfig config = task_config(2);
  const Decoder decoder =
      learn(config, {.steps = 700, .warmup = 20, .learning_rate = 5e-3, .weight_decay = 0}, 16, add_induction);
  EXPECT_GT(accuracy(decoder, add_induction), 0.99);

  // The head that does it: its weight lies on what followed the token before.
  Batch batch;
  test::Random random(77);
  add_induction(batch, random);
  std::vector<Capture> captures;
  decoder.forward(batch.view(batch.ids), &captures);
  double largest = 0, uniform = 0;
  Index found_in = -1;
  for (Capture& capture : captures) {
    for (const Index id : batch.ids) capture.labels.query_tokens.push_back(std::to_string(id));
    capture.labels.key_tokens = capture.labels.query_tokens;
    const Index layer = capture.labels.layer;
    for (const HeadStatistics& head : statistics(AttentionMap(std::make_shared<const Capture>(std::move(capture))))) {
      ASSERT_TRUE(head.has_tokens);
      if (head.induction_mass.value <= largest) continue;
      largest = head.induction_mass.value;
      uniform = head.induction_mass.uniform;
      found_in = layer;
    }
  }
  EXPECT_EQ(found_in, 1) << "it needs a head before it";
  EXPECT_GT(largest, 0.4) << "rows of the first block, up to 12 of 32, have nothing to look at";
  EXPECT_GT(largest, 4 * uniform);
}

}  // namespace
}  // namespace multihead
