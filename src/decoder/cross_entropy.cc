#include "decoder/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/column_sums.h"

namespace multihead::decoder {
namespace {

// Adds to sums = {total, count, correct}; calls finish(largest, sum of exp(logit - largest)).
template <typename Finish>
void row_loss(const float* logits, Index vocab_size, Index target, double* sums, Finish finish) {
  const float* largest = std::max_element(logits, logits + vocab_size);
  double sum = 0;
  for (Index id = 0; id < vocab_size; ++id) sum += static_cast<double>(std::exp(logits[id] - *largest));
  sums[0] += std::log(sum) - (static_cast<double>(logits[target]) - static_cast<double>(*largest));
  sums[1] += 1;
  sums[2] += largest - logits == target ? 1 : 0;
  finish(*largest, sum);
}

LossSum as_loss(const std::vector<double>& sums) { return {sums[0], static_cast<Index>(sums[1]), static_cast<Index>(sums[2])}; }

}  // namespace

LossSum cross_entropy(float* logits, Index rows, Index vocab_size, const Index* targets, double weight) {
  return as_loss(column_sums(rows, 3, [&](Index row, double* sums) {
    float* x = logits + row * vocab_size;
    if (targets[row] == kNoTarget) return static_cast<void>(std::fill_n(x, vocab_size, 0.0F));
    row_loss(x, vocab_size, targets[row], sums, [&](float largest, double sum) {
      const auto factor = static_cast<float>(weight / sum);
      for (Index id = 0; id < vocab_size; ++id) x[id] = std::exp(x[id] - largest) * factor;
      x[targets[row]] -= static_cast<float>(weight);
    });
  }));
}

LossSum cross_entropy(const float* logits, Index rows, Index vocab_size, const Index* targets) {
  return as_loss(column_sums(rows, 3, [&](Index row, double* sums) {
    if (targets[row] != kNoTarget) row_loss(logits + row * vocab_size, vocab_size, targets[row], sums, [](float, double) {});
  }));
}

}  // namespace multihead::decoder
