#include "layer/rotary.h"

#include <numbers>

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

using std::numbers::pi;

Rotary rotary_of(Index rotary_dim, double theta, const RotaryScaling& scaling = {},
                 RotaryPairing pairing = RotaryPairing::kHalfSplit) {
  return {pairing, rotary_dim, theta, scaling};
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t j = 0; j < actual.size(); ++j) EXPECT_NEAR(actual[j], expected[j], 1e-12 * expected[j]) << j;
}

TEST(RotaryFrequencies, FollowThetaAndAreDividedByLinearScaling) {
  expect_near(rotary_frequencies(rotary_of(8, 10000)).frequencies, {1, 0.1, 0.01, 0.001});
  expect_near(rotary_frequencies(rotary_of(8, 10000, LinearRotaryScaling{4})).frequencies, {0.25, 0.025, 0.0025, 0.00025});
  EXPECT_EQ(rotary_frequencies(rotary_of(8, 10000, LinearRotaryScaling{4})).amplitude, 1);
}

// Wavelengths 2 pi * (1, 10, 100, 1000): kept below old / 4, divided by 8 above old / 1, a blend between.
TEST(RotaryFrequencies, Llama3KeepsShortWavesStretchesLongOnesAndBlends) {
  const double old = 2 * pi * 250;
  const auto result = rotary_frequencies(rotary_of(8, 10000, Llama3RotaryScaling{8, 1, 4, old}));
  const double kept = (250.0 / 100 - 1) / (4 - 1);
  expect_near(result.frequencies, {1, 0.1, 0.01 * ((1 - kept) / 8 + kept), 0.001 / 8});
  EXPECT_EQ(result.amplitude, 1);
}

// theta = 16, 8 pairs: frequency 2^(-j/2). old = 2 pi * 64 positions make 64 * 2^(-j/2) turns: 32 turns at j = 2, 16 at j = 4.
TEST(RotaryFrequencies, YarnRampsBetweenTheTwoTurnCounts) {
  const auto with = [](double fast, double slow, bool truncate, std::optional<double> attention = {}) {
    return rotary_frequencies(rotary_of(16, 16, YarnRotaryScaling{4, 2 * pi * 64, fast, slow, truncate, attention}));
  };
  std::vector<double> expected;
  for (int j = 0; j < 8; ++j) {
    const double divided = std::clamp((j - 2) / 2.0, 0.0, 1.0);  // kept up to pair 2, divided by 4 from pair 4
    expected.push_back(std::exp2(-j / 2.0) * (1 - divided + divided / 4));
  }
  expect_near(with(32, 16, false).frequencies, expected);
  EXPECT_NEAR(with(32, 16, true).amplitude, 0.1 * std::log(4.0) + 1, 1e-15);
  EXPECT_EQ(with(32, 16, true, 1.3466).amplitude, 1.3466);
}

// The same, with ends inside whole pairs: truncate rounds outwards, otherwise they stay where they are.
TEST(RotaryFrequencies, YarnTruncatesItsEndsOutwards) {
  const double fast = 64 * std::exp2(-2.5 / 2), slow = 64 * std::exp2(-4.25 / 2);  // pairs 2.5 and 4.25
  const auto frequency_of = [&](bool truncate, std::size_t j) {
    const YarnRotaryScaling scaling{4, 2 * pi * 64, fast, slow, truncate, {}};
    return rotary_frequencies(rotary_of(16, 16, scaling)).frequencies[j];
  };
  const auto ramp = [](double j, double low, double high) {
    const double divided = (j - low) / (high - low);
    return std::exp2(-j / 2) * (1 - divided + divided / 4);
  };
  EXPECT_NEAR(frequency_of(true, 3), ramp(3, 2, 5), 1e-12);
  EXPECT_NEAR(frequency_of(true, 4), ramp(4, 2, 5), 1e-12);
  EXPECT_NEAR(frequency_of(false, 3), ramp(3, 2.5, 4.25), 1e-12);
  EXPECT_NEAR(frequency_of(false, 4), ramp(4, 2.5, 4.25), 1e-12);
  EXPECT_NEAR(frequency_of(false, 5), std::exp2(-5 / 2.0) / 4, 1e-12);
}

// Each pair is a complex number that is multiplied by amplitude * e^(i * position * frequency); the rest is left alone.
TEST(Rotate, TurnsPairsAsComplexNumbers) {
  for (const RotaryPairing pairing : {RotaryPairing::kHalfSplit, RotaryPairing::kInterleaved}) {
    const Rotary rotary = rotary_of(6, 100, YarnRotaryScaling{2, 40, 32, 1, true, 1.25}, pairing);
    const RotaryFrequencies rotation = rotary_frequencies(rotary);
    const Index first = 1000;
    Tensor rows = RandomNumbers(7).tensor({2, 5, 3 * 8});  // [batch, length, heads * head_dim]
    const Tensor before = rows.copy();
    const Dims shape{2, 3, 5, 8}, strides{5 * 24, 8, 24, 1};
    const TensorView heads(rows.data<float>(), DType::kF32, shape, strides);
    const ConstTensorView old(before.data<float>(), DType::kF32, shape, strides);
    rotate(rotary, first, heads);
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < 3; ++h) {
        for (Index t = 0; t < 5; ++t) {
          for (Index j = 0; j < 3; ++j) {
            const Index x = pairing == RotaryPairing::kInterleaved ? 2 * j : j;
            const Index y = pairing == RotaryPairing::kInterleaved ? 2 * j + 1 : j + 3;
            const double angle = static_cast<double>(first + t) * rotation.frequencies[static_cast<std::size_t>(j)];
            const double a = static_cast<double>(old.at<float>(b, h, t, x)), c = static_cast<double>(old.at<float>(b, h, t, y));
            EXPECT_NEAR(static_cast<double>(heads.at<float>(b, h, t, x)), 1.25 * (a * std::cos(angle) - c * std::sin(angle)),
                        1e-6);
            EXPECT_NEAR(static_cast<double>(heads.at<float>(b, h, t, y)), 1.25 * (a * std::sin(angle) + c * std::cos(angle)),
                        1e-6);
          }
          for (const Index rest : {6, 7}) EXPECT_EQ(heads.at<float>(b, h, t, rest), old.at<float>(b, h, t, rest));
        }
      }
    }
  }
}

// Scores depend on the distance alone, also a hundred million positions out, where f32 angles would be noise.
TEST(Rotate, ScoresDependOnDistanceAlone) {
  const Rotary rotary = rotary_of(16, 10000);
  RandomNumbers random(8);
  const Tensor query = random.tensor({1, 1, 1, 16}), key = random.tensor({1, 1, 1, 16});
  const auto score = [&](Index query_position, Index key_position) {
    Tensor q = query.copy(), k = key.copy();
    rotate(rotary, query_position, q);
    rotate(rotary, key_position, k);
    double sum = 0;
    for (Index t = 0; t < 16; ++t) sum += static_cast<double>(q.data<float>()[t]) * static_cast<double>(k.data<float>()[t]);
    return sum;
  };
  const double expected = score(3, 0);
  EXPECT_GT(std::abs(expected - score(0, 0)), 1e-2);
  for (const Index shift : {1, 77, 100'000, 100'000'000, -5}) EXPECT_NEAR(score(3 + shift, shift), expected, 2e-6) << shift;
}

}  // namespace
}  // namespace multihead
