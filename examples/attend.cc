// Three words, one head, by hand: softmax(Q K^T / sqrt(2)) V with Q = K = V.
#include <cstdio>

#include "multihead/attention.h"

int main() {
  const float words[] = {1, 0, 0, 1, 1, 1};
  const multihead::ConstTensorView x(words, {1, 1, 3, 2});  // [batch, num_heads, length, head_dim]
  multihead::Tensor output(multihead::DType::kF32, {1, 1, 3, 2});
  multihead::attention(x, x, x, output, {.causal = true});
  for (int i = 0; i < 3; ++i) std::printf("%.3f %.3f\n", output.data<float>()[2 * i], output.data<float>()[2 * i + 1]);
}
