// Inputs for tests, the same on every machine: seeds are fixed and no distribution of the standard library is used (their
// results differ between libraries).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <utility>

#include "multihead/tensor.h"

namespace multihead::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// In (0, 1].
  double uniform() { return (static_cast<double>(engine_() >> 11) + 1) * 0x1p-53; }
  /// Both ends included.
  Index between(Index low, Index high) {
    return low + static_cast<Index>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return uniform() <= probability; }
  double sign() { return chance(0.5) ? 1.0 : -1.0; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  /// Student's t with 2 degrees of freedom: infinite variance.
  double student_t() { return normal() / std::sqrt(-std::log(uniform()) + 1e-12); }

 private:
  std::mt19937_64 engine_;
};

/// Writes one element of any floating type, u8 or bool. `offset` in elements.
inline void set_element(const TensorView& view, Index offset, double value) {
  switch (view.dtype) {
    case DType::kF16:
      view.as<Float16>()[offset] = Float16(static_cast<float>(value));
      break;
    case DType::kBF16:
      view.as<BFloat16>()[offset] = BFloat16(static_cast<float>(value));
      break;
    case DType::kF32:
      view.as<float>()[offset] = static_cast<float>(value);
      break;
    case DType::kF64:
      view.as<double>()[offset] = value;
      break;
    default:
      view.as<std::uint8_t>()[offset] = static_cast<std::uint8_t>(value);
      break;
  }
}

/// A dense tensor whose element n, in row-major order, is value(n).
template <typename Value>
Tensor filled(DType dtype, const Dims& shape, Value value) {
  Tensor tensor = Tensor::uninitialized(dtype, shape);
  const TensorView view = tensor;
  for (Index n = 0, count = tensor.size(); n < count; ++n) set_element(view, n, value(n));
  return tensor;
}

/// G(shape, s): multiples of 1/8 in [-1.375, 1.375], exact in every floating type, different for every s.
inline Tensor grid(const Dims& shape, Index s, DType dtype = DType::kF32) {
  return filled(dtype, shape, [&](Index n) { return static_cast<double>((37 * n + 101 * s) % 23 - 11) / 8; });
}

/// A mask that allows each pair with the given probability.
inline Tensor random_mask(const Dims& shape, double allowed, Random& random) {
  return filled(DType::kBool, shape, [&](Index) { return random.chance(allowed) ? 1.0 : 0.0; });
}

struct Shape {
  Index batch = 1, heads = 1, kv_heads = 1, query_len = 1, key_len = 1, head_dim = 1, value_dim = 1;

  Dims query() const { return {batch, heads, query_len, head_dim}; }
  Dims key() const { return {batch, kv_heads, key_len, head_dim}; }
  Dims value() const { return {batch, kv_heads, key_len, value_dim}; }
  Dims output() const { return {batch, heads, query_len, value_dim}; }
  Dims lse() const { return {batch, heads, query_len}; }
  Dims scores() const { return {batch, heads, query_len, key_len}; }
};

inline std::string to_string(const Shape& s) {
  return "batch " + std::to_string(s.batch) + ", heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) +
         ", lengths " + std::to_string(s.query_len) + " x " + std::to_string(s.key_len) + ", dims " +
         std::to_string(s.head_dim) + " and " + std::to_string(s.value_dim);
}

/// What can go wrong in a softmax, as distributions of query, key and value.
enum class Family {
  kNormal,
  kStudentT,      ///< heavy tails: few scores decide everything
  kLognormal,     ///< positive and negative over four orders of magnitude
  kTies,          ///< few distinct scores, so the maximum is attained many times
  kAscending,     ///< every key has a larger score than all before: each block changes the running maximum
  kAllEqual,      ///< every probability is 1 / visible keys
  kHugeNegative,  ///< all scores near -900 sqrt(head_dim): a maximum that starts at a finite "minimum" fails
  kCancellation,  ///< dot products and value sums of large terms that cancel
  kDenormal,      ///< subnormal numbers of the element type
  kDominantKey,   ///< one key takes nearly all weight
  kAlternating,   ///< signs alternate along every axis
};

inline constexpr std::array<std::pair<Family, const char*>, 11> kFamilies{{{Family::kNormal, "normal"},
                                                                           {Family::kStudentT, "Student t"},
                                                                           {Family::kLognormal, "lognormal"},
                                                                           {Family::kTies, "ties"},
                                                                           {Family::kAscending, "ascending"},
                                                                           {Family::kAllEqual, "all equal"},
                                                                           {Family::kHugeNegative, "huge negative"},
                                                                           {Family::kCancellation, "cancellation"},
                                                                           {Family::kDenormal, "denormal"},
                                                                           {Family::kDominantKey, "dominant key"},
                                                                           {Family::kAlternating, "alternating"}}};

struct Inputs {
  Tensor query, key, value;
};

namespace detail {

// One element of query, key (both with `width` = head_dim) or value, at row `row` and column `column`.
enum class Role { kQuery, kKey, kValue };

inline double family_element(Family family, Role role, Index row, Index column, Index rows, DType dtype, Random& random) {
  const double column_sign = column % 2 == 0 ? 1.0 : -1.0, row_sign = row % 2 == 0 ? 1.0 : -1.0;
  const bool is_value = role == Role::kValue;
  switch (family) {
    case Family::kNormal:
      return random.normal();
    case Family::kStudentT:
      return std::clamp(random.student_t(), -300.0, 300.0);
    case Family::kLognormal:
      return random.sign() * std::min(std::exp(2 * random.normal()), 300.0);
    case Family::kTies:
      return is_value ? random.normal() : static_cast<double>(random.between(-1, 1));
    case Family::kAscending:
      if (is_value) return random.normal();
      return role == Role::kQuery ? 0.5 + random.uniform() : 8.0 * static_cast<double>(row) / static_cast<double>(rows);
    case Family::kAllEqual:
      return is_value ? random.normal() : 0.5;
    case Family::kHugeNegative:
      if (is_value) return random.normal();
      return (role == Role::kQuery ? 30.0 : -30.0) + 0.125 * random.normal();
    case Family::kCancellation:
      if (is_value) return 100 * row_sign + random.normal();
      return role == Role::kQuery ? 16 * column_sign + 0.125 * random.normal() : 16 + 0.125 * random.normal();
    case Family::kDenormal:
      return random.normal() * (dtype == DType::kF16 ? 1e-6 : 1e-39);
    case Family::kDominantKey:
      if (is_value) return random.normal();
      if (role == Role::kQuery) return std::abs(random.normal());
      return row == rows / 2 ? 8.0 : random.normal();
    case Family::kAlternating:
      if (role == Role::kQuery) return column_sign * (0.5 + random.uniform());
      return (role == Role::kKey ? column_sign : 1.0) * row_sign * (0.5 + random.uniform());
  }
  return 0;
}

inline Tensor family_tensor(Family family, Role role, DType dtype, const Dims& shape, Random& random) {
  const Index rows = shape[2], columns = shape[3];
  return filled(dtype, shape,
                [&](Index n) { return family_element(family, role, n / columns % rows, n % columns, rows, dtype, random); });
}

}  // namespace detail

/// query, key and value of one family.
inline Inputs make_inputs(const Shape& shape, std::uint64_t seed, DType dtype = DType::kF32, Family family = Family::kNormal) {
  Random random(seed);
  Inputs inputs;
  inputs.query = detail::family_tensor(family, detail::Role::kQuery, dtype, shape.query(), random);
  inputs.key = detail::family_tensor(family, detail::Role::kKey, dtype, shape.key(), random);
  inputs.value = detail::family_tensor(family, detail::Role::kValue, dtype, shape.value(), random);
  return inputs;
}

}  // namespace multihead::test
