// Who looked at whom: the largest coefficients of every row, recomputed from a capture, never stored as a matrix.
#include <cstdio>
#include <memory>

#include "multihead/attention_map.h"
#include "multihead/layer.h"

int main() {
  const multihead::Preset preset = multihead::find_preset("lab");  // 3 tokens of width 4, 2 heads, identity weights
  const multihead::MultiHeadAttention layer(preset.config, multihead::preset_weights(preset, 0));
  auto capture = std::make_shared<multihead::Capture>();
  layer.forward(multihead::preset_input(preset, 3, 0).reshaped({1, 3, 4}), {}, {.capture = capture.get()});
  const multihead::AttentionMap map(capture);
  for (int i = 0; i < 3; ++i) {
    for (const multihead::TopKey& top : map.top(0, i, 2)) std::printf("%d -> %d: %.4f  ", i, int(top.key), top.probability);
    std::printf("\n");
  }
}
