// What holds between layers: identities of multi-head attention that need no reference.
#include <vector>

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

// Rows [begin, begin + count) of `from` over rows starting at `at` of `to`, along the axis.
void copy_part(const Tensor& from, Index begin, Tensor& to, Index at, Index count, int axis) {
  for (Index i = 0; i < from.shape()[1 - axis]; ++i) {
    for (Index n = 0; n < count; ++n) {
      const auto offset = [&](Index along) { return axis == 0 ? along * from.shape()[1] + i : i * from.shape()[1] + along; };
      to.data<float>()[offset(at + n)] = from.data<float>()[offset(begin + n)];
    }
  }
}

LayerWeights copy_of(const LayerWeights& weights) {
  LayerWeights copy;
  copy.query_weight = weights.query_weight.copy();
  copy.key_weight = weights.key_weight.copy();
  copy.value_weight = weights.value_weight.copy();
  copy.output_weight = weights.output_weight.copy();
  return copy;
}

class Invariants : public testing::Test {
 protected:
  static constexpr Index kWidth = 12, kHeads = 4, kDim = 3, kLength = 7;

  MultiHeadAttention layer(const LayerWeights& weights, Index heads = kHeads, bool causal = false) const {
    return MultiHeadAttention(config_of(kWidth, heads, [&](LayerConfig& c) { c.causal = causal; }), copy_of(weights));
  }

  const LayerWeights weights_ = random_weights(config_of(kWidth, kHeads), 21, false);
  const Tensor x_ = RandomNumbers(22).tensor({1, kLength, kWidth});
};

TEST_F(Invariants, PermutingHeadsWithTheirOutputColumnsChangesNothing) {
  LayerWeights permuted = copy_of(weights_), heads_alone = copy_of(weights_);
  const Index order[] = {2, 0, 3, 1};
  for (Index head = 0; head < kHeads; ++head) {
    for (LayerWeights* w : {&permuted, &heads_alone}) {
      copy_part(weights_.query_weight, order[head] * kDim, w->query_weight, head * kDim, kDim, 0);
      copy_part(weights_.key_weight, order[head] * kDim, w->key_weight, head * kDim, kDim, 0);
      copy_part(weights_.value_weight, order[head] * kDim, w->value_weight, head * kDim, kDim, 0);
    }
    copy_part(weights_.output_weight, order[head] * kDim, permuted.output_weight, head * kDim, kDim, 1);
  }
  const Tensor y = layer(weights_).forward(x_);
  EXPECT_LT(max_difference(layer(permuted).forward(x_), y), 1e-6);
  EXPECT_GT(max_difference(layer(heads_alone).forward(x_), y), 1e-2);  // the order and W_O belong together
}

// Every head a copy of head 0: the output is O_0 (W_O^0 + … + W_O^3), that of one head of the same width.
TEST_F(Invariants, DuplicateHeadsAddTheirOutputColumns) {
  LayerWeights duplicated = copy_of(weights_), one;
  one.query_weight = Tensor::copy_of(weights_.query_weight.view().slice(0, 0, kDim));
  one.key_weight = Tensor::copy_of(weights_.key_weight.view().slice(0, 0, kDim));
  one.value_weight = Tensor::copy_of(weights_.value_weight.view().slice(0, 0, kDim));
  one.output_weight = Tensor(DType::kF32, {kWidth, kDim});
  for (Index head = 0; head < kHeads; ++head) {
    copy_part(weights_.query_weight, 0, duplicated.query_weight, head * kDim, kDim, 0);
    copy_part(weights_.key_weight, 0, duplicated.key_weight, head * kDim, kDim, 0);
    copy_part(weights_.value_weight, 0, duplicated.value_weight, head * kDim, kDim, 0);
  }
  for (Index i = 0; i < kWidth; ++i) {
    for (Index column = 0; column < kWidth; ++column) {
      one.output_weight.data<float>()[i * kDim + column % kDim] += weights_.output_weight.data<float>()[i * kWidth + column];
    }
  }
  const MultiHeadAttention single(config_of(kWidth, 1, [](LayerConfig& c) { c.head_dim = kDim; }), std::move(one));
  EXPECT_LT(max_difference(layer(duplicated).forward(x_), single.forward(x_)), 1e-6);
}

// Concat(O_1 … O_h) W_O = sum over heads of O_h W_O^h: silencing all heads but one in W_O leaves that head's part.
TEST_F(Invariants, HeadsAddUp) {
  Tensor sum(DType::kF32, {1, kLength, kWidth});
  for (Index head = 0; head < kHeads; ++head) {
    LayerWeights part = copy_of(weights_);
    part.output_weight = Tensor(DType::kF32, {kWidth, kWidth});
    copy_part(weights_.output_weight, head * kDim, part.output_weight, head * kDim, kDim, 1);
    const Tensor y = layer(part).forward(x_);
    for (Index i = 0; i < sum.size(); ++i) sum.data<float>()[i] += y.data<float>()[i];
  }
  EXPECT_LT(max_difference(sum, layer(weights_).forward(x_)), 1e-6);
}

// One wide head scores the mean of what h heads score, times sqrt(h): S_one = (1 / sqrt(h)) sum_h S_h.
TEST_F(Invariants, OneHeadScoresTheSumOfTheHeads) {
  const auto scores_of = [&](Index heads) {
    Tensor lse(DType::kF32, {1, heads, kLength}), probabilities(DType::kF32, {1, heads, kLength, kLength});
    layer(weights_, heads).forward(x_, {}, {lse, probabilities});
    std::vector<double> scores(static_cast<std::size_t>(probabilities.size()));
    for (Index i = 0; i < probabilities.size(); ++i) {
      scores[static_cast<std::size_t>(i)] =
          std::log(static_cast<double>(probabilities.data<float>()[i])) + static_cast<double>(lse.data<float>()[i / kLength]);
    }
    return scores;
  };
  const std::vector<double> one = scores_of(1), many = scores_of(kHeads);
  for (std::size_t pair = 0; pair < one.size(); ++pair) {
    double sum = 0;
    for (std::size_t head = 0; head < kHeads; ++head) sum += many[head * one.size() + pair];
    EXPECT_NEAR(one[pair], sum / std::sqrt(static_cast<double>(kHeads)), 1e-5);
  }
}

TEST_F(Invariants, WithoutPositionsTokensAreASet) {
  Tensor swapped = x_.copy();
  for (Index t = 0; t < kWidth; ++t) std::swap(swapped.data<float>()[1 * kWidth + t], swapped.data<float>()[4 * kWidth + t]);
  for (const bool causal : {false, true}) {
    const Tensor y = layer(weights_, kHeads, causal).forward(x_);
    Tensor back = layer(weights_, kHeads, causal).forward(swapped);
    for (Index t = 0; t < kWidth; ++t) std::swap(back.data<float>()[1 * kWidth + t], back.data<float>()[4 * kWidth + t]);
    if (causal) {
      EXPECT_GT(max_difference(back, y), 1e-2);
    } else {
      EXPECT_LT(max_difference(back, y), 1e-6);
    }
  }
}

// The first token of a causal layer sees itself alone: its output is W_O W_V x_0, whatever Q and K are.
TEST_F(Invariants, FirstCausalRowIsItsOwnValue) {
  LayerWeights others = random_weights(config_of(kWidth, kHeads), 99, false);
  others.value_weight = weights_.value_weight.copy();
  others.output_weight = weights_.output_weight.copy();
  const Tensor y = layer(weights_, kHeads, true).forward(x_), z = layer(others, kHeads, true).forward(x_);
  EXPECT_TRUE(same_bits(y.view().slice(1, 0, 1), z.view().slice(1, 0, 1)));
  EXPECT_FALSE(same_bits(y.view().slice(1, 1, 2), z.view().slice(1, 1, 2)));
}

// Rows of W_Q and W_K reordered within each head from interleaved pairs to halves: the two pairings agree.
TEST_F(Invariants, PairingsAgreeOnPermutedWeights) {
  constexpr Index kEven = 6;  // head_dim; the first 4 dimensions turn
  for (const RotaryScaling& scaling :
       {RotaryScaling{}, RotaryScaling{LinearRotaryScaling{2}}, RotaryScaling{YarnRotaryScaling{4, 64, 8, 1, true, {}}}}) {
    const auto config = [&](RotaryPairing pairing) {
      return config_of(kWidth, 4, [&](LayerConfig& c) {
        c.head_dim = kEven;
        c.num_kv_heads = 2;
        c.rotary = Rotary{pairing, 4, 50, scaling};
      });
    };
    const LayerWeights interleaved = random_weights(config(RotaryPairing::kInterleaved), 31, false);
    LayerWeights halves = copy_of(interleaved);
    for (auto [from, to] :
         {std::pair{&interleaved.query_weight, &halves.query_weight}, {&interleaved.key_weight, &halves.key_weight}}) {
      for (Index first = 0; first < from->shape()[0]; first += kEven) {
        for (Index j = 0; j < 2; ++j) {
          for (Index i = 0; i < 2; ++i) copy_part(*from, first + 2 * j + i, *to, first + i * 2 + j, 1, 0);
        }
      }
    }
    const MultiHeadAttention a(config(RotaryPairing::kInterleaved), copy_of(interleaved));
    const MultiHeadAttention b(config(RotaryPairing::kHalfSplit), std::move(halves));
    const MultiHeadAttention wrong(config(RotaryPairing::kHalfSplit), copy_of(interleaved));
    EXPECT_LT(max_difference(a.forward(x_), b.forward(x_)), 1e-6);
    EXPECT_GT(max_difference(a.forward(x_), wrong.forward(x_)), 1e-3);
  }
}

}  // namespace
}  // namespace multihead
