// A layer learns to copy its input's mean to every position: plain gradient descent on W_V and W_O.
#include "multihead/layer_gradient.h"

#include <cstdio>

using namespace multihead;

int main() {
  const Preset preset = find_preset("lab");
  const Tensor x = preset_input(preset, 3, 0).reshaped({1, 3, 4});
  LayerWeights start = preset_weights(preset, 0);
  Tensor value = start.value_weight.copy(), out = start.output_weight.copy();
  for (int step = 0; step <= 40; ++step) {
    LayerWeights weights = preset_weights(preset, 0);
    weights.value_weight = value.copy();
    weights.output_weight = out.copy();
    const MultiHeadAttention layer(preset.config, std::move(weights));
    LayerTape tape;
    Tensor y = layer.forward(x, {}, {.tape = &tape});
    double loss = 0;
    for (int n = 0; n < 12; ++n) {  // y becomes d loss / d y
      const float mean = (x.data<float>()[n % 4] + x.data<float>()[4 + n % 4] + x.data<float>()[8 + n % 4]) / 3;
      y.data<float>()[n] -= mean;
      loss += 0.5 * y.data<float>()[n] * y.data<float>()[n];
    }
    if (step % 20 == 0) std::printf("step %d: loss %.4f\n", step, loss);
    const LayerGradients gradients = layer_backward(layer, x, y, tape);
    for (int n = 0; n < 16; ++n) {
      value.data<float>()[n] -= 0.02f * gradients.weights.value_weight.data<float>()[n];
      out.data<float>()[n] -= 0.02f * gradients.weights.output_weight.data<float>()[n];
    }
  }
}
