// The lab preset: three words of four dimensions, two heads, every weight an identity. Word 0's scores in head 0 are
// (4, 0, 4) / sqrt(2), so its output there is (2 - 2p, 2p) with p = 1 / (1 + 2 exp(4 / sqrt(2))); the rest likewise.
#include "multihead/layer.h"

#include <cstdio>

int main() {
  const multihead::Preset preset = multihead::find_preset("lab");
  const multihead::MultiHeadAttention layer(preset.config, multihead::preset_weights(preset, 0));
  const multihead::Tensor output = layer.forward(multihead::preset_input(preset, 3, 0).reshaped({1, 3, 4}));
  for (int word = 0; word < 3; ++word) {
    const float* row = output.data<float>() + 4 * word;
    std::printf("%.4f %.4f %.4f %.4f\n", static_cast<double>(row[0]), static_cast<double>(row[1]), static_cast<double>(row[2]),
                static_cast<double>(row[3]));
  }
}
