// A decoder learns one sequence by heart and says it.
#include <cstdio>

#include "multihead/training.h"

using namespace multihead;

int main() {
  const std::vector<Index> ids{3, 1, 4, 1, 5, 9, 2, 6}, targets{1, 4, 1, 5, 9, 2, 6, kNoTarget};
  const DecoderConfig config = TrainingConfig{.num_layers = 1, .num_heads = 2, .model_dim = 32}.decoder();
  const OptimizerConfig optimizer{.steps = 60, .warmup = 5, .learning_rate = 1e-2};
  DecoderWeights weights = initial_weights(config, 1);
  OptimizerState state = start_optimizer(weights);
  while (state.step < optimizer.steps) {
    const Decoder decoder(config, copy_weights(weights));
    const LossGradients now =
        loss_gradients(decoder, ConstTensorView(ids.data(), {1, 8}), ConstTensorView(targets.data(), {1, 8}));
    optimizer_step(optimizer, weights, now.gradients, state);
  }
  for (const Index id : generate(Decoder(config, std::move(weights)), {3}, {.tokens = 7}).ids) std::printf("%d ", int(id));
  std::printf("\n");
}
