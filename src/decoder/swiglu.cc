#include "decoder/swiglu.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace multihead::decoder {
namespace {

constexpr Index kPiece = 8192;

template <typename Visit>
void for_each_element(Index count, Visit visit) {
  const Index pieces = (count + kPiece - 1) / kPiece;
  parallel_for(pieces, threads_for(pieces), [&](Index piece, int) {
    for (Index i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) visit(i);
  });
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void swiglu(const float* gate, const float* up, Index count, float* y) {
  for_each_element(count, [=](Index i) { y[i] = gate[i] * sigmoid(gate[i]) * up[i]; });
}

void swiglu_backward(const float* gate, const float* up, const float* dy, Index count, float* dgate, float* dup) {
  for_each_element(count, [=](Index i) {
    const float x = gate[i], u = up[i], s = sigmoid(x);
    dgate[i] = dy[i] * u * s * (1 + x * (1 - s));
    dup[i] = dy[i] * x * s;
  });
}

}  // namespace multihead::decoder
