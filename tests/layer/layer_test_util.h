// What the layer's tests share: random layers and inputs, and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "multihead/layer.h"
#include "random_inputs.h"

namespace multihead {

/// Tensors of reproducible numbers, uniform in (-factor, factor].
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : random_(seed) {}

  Tensor tensor(const Dims& shape, DType dtype = DType::kF32, double factor = 1) {
    return test::filled(dtype, shape, [&](Index) { return factor * (2 * random_.uniform() - 1); });
  }

 private:
  test::Random random_;
};

/// Weights for a configuration, about as large as keeps outputs near 1; with biases or without.
inline LayerWeights random_weights(const LayerConfig& config, unsigned seed, bool with_bias, DType dtype = DType::kF32) {
  const LayerConfig c = config.resolved();
  RandomNumbers random(seed);
  const auto weight = [&](Index out, Index in) {
    return random.tensor({out, in}, dtype, std::sqrt(3.0 / static_cast<double>(in)));
  };
  const auto bias = [&](Index out) { return with_bias ? random.tensor({out}, dtype, 0.5) : Tensor(); };
  LayerWeights weights;
  weights.query_weight = weight(c.num_heads * c.head_dim, c.model_dim);
  weights.key_weight = weight(c.num_kv_heads * c.head_dim, c.key_input_dim);
  weights.value_weight = weight(c.num_kv_heads * c.value_dim, c.value_input_dim);
  weights.output_weight = weight(c.output_dim, c.num_heads * c.value_dim);
  weights.query_bias = bias(c.num_heads * c.head_dim);
  weights.key_bias = bias(c.num_kv_heads * c.head_dim);
  weights.value_bias = bias(c.num_kv_heads * c.value_dim);
  weights.output_bias = bias(c.output_dim);
  return weights;
}

inline LayerConfig config_of(Index model_dim, Index num_heads, const std::function<void(LayerConfig&)>& change = {}) {
  LayerConfig config;
  config.model_dim = model_dim;
  config.num_heads = num_heads;
  if (change) change(config);
  return config;
}

/// The largest absolute difference between two tensors of one shape, in any dtypes; NaN anywhere gives NaN.
inline double max_difference(const ConstTensorView& a, const ConstTensorView& b) {
  EXPECT_EQ(to_string(a.shape), to_string(b.shape));
  const Tensor x = Tensor::converted(a, DType::kF64), y = Tensor::converted(b, DType::kF64);
  double largest = 0;
  for (Index i = 0; i < x.size(); ++i) {
    const double difference =
        x.data<double>()[i] == y.data<double>()[i] ? 0.0 : std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

inline bool same_bits(const ConstTensorView& a, const ConstTensorView& b) {
  if (!(a.shape == b.shape) || a.dtype != b.dtype) return false;
  const Tensor x = Tensor::copy_of(a), y = Tensor::copy_of(b);
  return std::memcmp(x.data<char>(), y.data<char>(), static_cast<std::size_t>(x.size()) * size_of(x.dtype())) == 0;
}

/// The text of the InvalidArgument that `call` throws; empty, and a failure, when it throws nothing.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected InvalidArgument";
  return "";
}

}  // namespace multihead
