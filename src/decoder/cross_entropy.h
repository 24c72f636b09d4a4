// The loss of logits, and its gradient.
#pragma once

#include "multihead/training.h"

namespace multihead::decoder {

/// Sums over some positions.
struct LossSum {
  double total = 0;
  Index count = 0, correct = 0;
};

/// logits [rows, vocab_size], dense; targets[row] an id or kNoTarget. With `weight` (1 / positions that count) the logits are
/// replaced by their gradients, weight (p - onehot(target)); rows without a target by 0.
LossSum cross_entropy(float* logits, Index rows, Index vocab_size, const Index* targets, double weight);
LossSum cross_entropy(const float* logits, Index rows, Index vocab_size, const Index* targets);

}  // namespace multihead::decoder
