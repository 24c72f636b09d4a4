// One query between two keys, by hand: scores 0 and ln 3, so probabilities 1/4 and 3/4, output 0/4 + 3/4 * 4, lse ln 4.
#include <cmath>
#include <cstdio>

#include "multihead/attention.h"
#include "multihead/runtime.h"

int main() {
  const float query[] = {1};
  const float key[] = {0, std::log(3.0f)};
  const float value[] = {0, 4};
  float output[1], lse[1];
  multihead::AttentionOptions options;
  options.scale = 1;
  using multihead::ConstTensorView;
  multihead::attention(ConstTensorView(query, {1, 1, 1, 1}), ConstTensorView(key, {1, 1, 2, 1}),
                       ConstTensorView(value, {1, 1, 2, 1}), multihead::TensorView(output, {1, 1, 1, 1}), options,
                       multihead::TensorView(lse, {1, 1, 1}));
  std::printf("multihead %s: output %.4f, lse %.4f\n", multihead::version().c_str(), static_cast<double>(output[0]),
              static_cast<double>(lse[0]));
}
