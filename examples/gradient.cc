// d loss / d query of one number, from the fused backward pass and by moving that number a little.
#include "multihead/gradient.h"

#include <cstdio>

using namespace multihead;

int main() {
  float query[] = {1, 0, 0, 1, 1, 1}, keys[] = {1, 2, 0, 1, 3, 1}, ones[] = {1, 1, 1, 1, 1, 1};
  const Dims shape{1, 1, 3, 2};
  const ConstTensorView q(query, shape), k(keys, shape), grad_output(ones, shape);  // loss: the sum of the output
  Tensor output(DType::kF32, shape), lse(DType::kF32, {1, 1, 3}), grad_query(DType::kF32, shape);
  attention(q, k, k, output, {}, lse.view());
  attention_backward(q, k, k, output, lse, grad_output, {.query = grad_query.view()});

  const auto loss = [&](float first) {
    query[0] = first;
    Tensor exact(DType::kF64, shape);
    reference_attention(q, k, k, exact);
    double sum = 0;
    for (int n = 0; n < 6; ++n) sum += exact.data<double>()[n];
    return sum;
  };
  std::printf("backward %.4f, difference %.4f\n", grad_query.data<float>()[0], (loss(1 + 0x1p-6f) - loss(1 - 0x1p-6f)) * 0x1p5);
}
