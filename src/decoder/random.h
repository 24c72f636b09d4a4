// Random numbers that are the same with every standard library: SplitMix64 (Steele, Lea, Flood 2014). Its whole state is one
// number, which a checkpoint can hold.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace multihead::decoder {

inline std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// In [0, 1).
inline double uniform(std::uint64_t& state) { return static_cast<double>(next_random(state) >> 11) * 0x1p-53; }

/// Standard normal (Box, Muller 1958).
inline double normal(std::uint64_t& state) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(state)));
  return radius * std::cos(2 * std::numbers::pi * uniform(state));
}

}  // namespace multihead::decoder
