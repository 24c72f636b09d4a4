#include "layer/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"

namespace multihead {
namespace {

using std::numbers::pi;

void apply(std::monostate, const Rotary&, RotaryFrequencies&) {}

void apply(const LinearRotaryScaling& scaling, const Rotary&, RotaryFrequencies& result) {
  for (double& frequency : result.frequencies) frequency /= scaling.factor;
}

// By wavelength 2 pi / f, measured in turns within the original context: fewer than low_freq_factor turns are stretched, more
// than high_freq_factor kept, in between a blend that meets both ends.
void apply(const Llama3RotaryScaling& scaling, const Rotary&, RotaryFrequencies& result) {
  for (double& frequency : result.frequencies) {
    const double turns = scaling.original_max_positions * frequency / (2 * pi);
    const double kept =
        std::clamp((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0);
    frequency *= kept + (1 - kept) / scaling.factor;
  }
}

// The pair that makes `turns` turns within the original context: solve old * theta^(-2j/R) = 2 pi turns for j.
double yarn_pair(const YarnRotaryScaling& scaling, const Rotary& rotary, double turns) {
  return static_cast<double>(rotary.rotary_dim) * std::log(scaling.original_max_positions / (2 * pi * turns)) /
         (2 * std::log(rotary.theta));
}

void apply(const YarnRotaryScaling& scaling, const Rotary& rotary, RotaryFrequencies& result) {
  double low = yarn_pair(scaling, rotary, scaling.beta_fast), high = yarn_pair(scaling, rotary, scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary.rotary_dim - 1));
  const double width = high == low ? 0.001 : high - low;  // a step instead of a division by zero
  for (std::size_t j = 0; j < result.frequencies.size(); ++j) {
    const double divided = std::clamp((static_cast<double>(j) - low) / width, 0.0, 1.0);
    result.frequencies[j] *= 1 - divided + divided / scaling.factor;
  }
  const double by_default = scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1.0;
  result.amplitude = scaling.attention_factor.value_or(by_default);
}

// Cosines and sines of one position after another: [length, rotary_dim / 2] each.
struct Turns {
  std::vector<float> cosines, sines;
};

Turns turns_of(const RotaryFrequencies& rotation, Index first_position, Index length, double direction) {
  const auto pairs = static_cast<Index>(rotation.frequencies.size());
  Turns turns;
  turns.cosines.resize(static_cast<std::size_t>(length * pairs));
  turns.sines.resize(turns.cosines.size());
  parallel_for(length, threads_for(length), [&](Index t, int) {
    for (Index j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(first_position + t) * rotation.frequencies[static_cast<std::size_t>(j)];
      turns.cosines[static_cast<std::size_t>(t * pairs + j)] = static_cast<float>(rotation.amplitude * std::cos(angle));
      turns.sines[static_cast<std::size_t>(t * pairs + j)] =
          static_cast<float>(direction * rotation.amplitude * std::sin(angle));
    }
  });
  return turns;
}

void turn(const Rotary& rotary, Index first_position, const TensorView& heads, double direction) {
  const Index num_heads = heads.shape[1], length = heads.shape[2], pairs = rotary.rotary_dim / 2;
  const Turns turns = turns_of(rotary_frequencies(rotary), first_position, length, direction);
  // Half-split pairs lie rotary_dim / 2 apart and their first members one apart; interleaved ones 1 apart and 2.
  const auto [first, second] = rotary_pair(rotary, 0);
  const Index next = rotary_pair(rotary, 1).first, apart = second - first;
  const Index rows = heads.shape[0] * length;
  parallel_for(rows, threads_for(rows), [&](Index row, int) {
    const Index batch = row / length, t = row % length;
    const float* cosines = turns.cosines.data() + t * pairs;
    const float* sines = turns.sines.data() + t * pairs;
    for (Index head = 0; head < num_heads; ++head) {
      float* x = &heads.at<float>(batch, head, t, 0);
      for (Index j = 0; j < pairs; ++j) {
        const float a = x[j * next], b = x[j * next + apart];
        x[j * next] = a * cosines[j] - b * sines[j];
        x[j * next + apart] = a * sines[j] + b * cosines[j];
      }
    }
  });
}

}  // namespace

RotaryFrequencies rotary_frequencies(const Rotary& rotary) {
  RotaryFrequencies result;
  for (Index j = 0; j < rotary.rotary_dim / 2; ++j) {
    result.frequencies.push_back(
        std::pow(rotary.theta, -2.0 * static_cast<double>(j) / static_cast<double>(rotary.rotary_dim)));
  }
  std::visit([&](const auto& scaling) { apply(scaling, rotary, result); }, rotary.scaling);
  return result;
}

void rotate(const Rotary& rotary, Index first_position, const TensorView& heads) { turn(rotary, first_position, heads, 1); }

void rotate_backward(const Rotary& rotary, Index first_position, const TensorView& heads) {
  turn(rotary, first_position, heads, -1);
}

}  // namespace multihead
