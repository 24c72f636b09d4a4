#include "layer/weights.h"

#include "base/message.h"

namespace multihead {
namespace {

constexpr const char* kFunction = "MultiHeadAttention";

void check_dtype(const char* name, const Tensor& weight) {
  require(is_attention_dtype(weight.dtype()), kFunction, ": ", name, ": expected f32, f16 or bf16; found ",
          name_of(weight.dtype()));
}

// A weight that has to be there.
void check_shape(const char* name, const Tensor& weight, const Dims& expected) {
  require(!weight.empty(), kFunction, ": ", name, ": expected ", to_string(expected), "; found none");
  require(weight.shape() == expected, kFunction, ": ", name, ": expected ", to_string(expected), "; found ",
          to_string(weight.shape()));
  check_dtype(name, weight);
}

// A weight that may be there.
void check_optional(const char* name, const Tensor& weight, const Dims& expected) {
  if (!weight.empty()) check_shape(name, weight, expected);
}

// A weight that the configuration does not use: ignoring it would compute something else than the model it came from.
void check_absent(const char* name, const Tensor& weight, const char* option) {
  require(weight.empty(), kFunction, ": ", name, ": expected none, because the configuration has no ", option, "; found ",
          to_string(weight.shape()));
}

void check_norm(const char* name, const Tensor& weight, Index heads, Index head_dim) {
  const Dims shared{head_dim}, own{heads, head_dim}, whole{heads * head_dim};
  require(!weight.empty(), kFunction, ": ", name, ": expected ", to_string(shared), ", ", to_string(own), " or ",
          to_string(whole), "; found none");
  require(weight.shape() == shared || weight.shape() == own || weight.shape() == whole, kFunction, ": ", name, ": expected ",
          to_string(shared), ", ", to_string(own), " or ", to_string(whole), "; found ", to_string(weight.shape()));
  check_dtype(name, weight);
}

void check_norms(const LayerConfig& config, const LayerWeights& weights) {
  if (!config.query_key_norm) {
    check_absent("query_norm", weights.query_norm, "query_key_norm");
    check_absent("key_norm", weights.key_norm, "query_key_norm");
  } else {
    check_norm("query_norm", weights.query_norm, config.num_heads, config.head_dim);
    check_norm("key_norm", weights.key_norm, config.num_kv_heads, config.head_dim);
  }
  if (!config.query_key_norm || config.query_key_norm->kind != QueryKeyNorm::Kind::kLayer) {
    check_absent("query_norm_bias", weights.query_norm_bias, "query_key_norm of kind kLayer");
    check_absent("key_norm_bias", weights.key_norm_bias, "query_key_norm of kind kLayer");
  } else {
    check_optional("query_norm_bias", weights.query_norm_bias, weights.query_norm.shape());
    check_optional("key_norm_bias", weights.key_norm_bias, weights.key_norm.shape());
  }
}

void check_relative_bias(const LayerConfig& config, const Tensor& table) {
  if (!config.relative_bias) return check_absent("relative_bias", table, "relative_bias");
  require(!table.empty() && table.rank() == 2 && table.shape()[1] == config.num_heads, kFunction,
          ": relative_bias: expected [buckets, ", config.num_heads, "]; found ",
          table.empty() ? "none" : to_string(table.shape()));
  check_dtype("relative_bias", table);
  const Index buckets = table.shape()[0], sides = config.relative_bias->bidirectional ? 2 : 1;
  // Each side needs one bucket of its own and one beyond, and the logarithm's base to exceed 1.
  require(buckets % sides == 0 && buckets / sides >= 2, kFunction, ": relative_bias: expected ",
          sides == 2 ? "an even number of buckets, at least 4" : "at least 2 buckets", "; found ", to_string(table.shape()));
  require(config.relative_bias->max_distance > buckets / sides / 2, kFunction,
          ": relative_bias: expected max_distance beyond the ", buckets / sides / 2,
          " distances with a bucket of their own; got ", config.relative_bias->max_distance);
}

std::vector<float> numbers_of(const Tensor& weight) {
  if (weight.empty()) return {};
  const Tensor numbers = Tensor::converted(weight, DType::kF32);
  return {numbers.data<float>(), numbers.data<float>() + numbers.size()};
}

}  // namespace

void check_weights(const LayerConfig& config, const LayerWeights& weights) {
  const Index query_width = config.num_heads * config.head_dim, key_width = config.num_kv_heads * config.head_dim;
  const Index value_width = config.num_kv_heads * config.value_dim;
  check_shape("query_weight", weights.query_weight, {query_width, config.model_dim});
  check_shape("key_weight", weights.key_weight, {key_width, config.key_input_dim});
  check_shape("value_weight", weights.value_weight, {value_width, config.value_input_dim});
  check_shape("output_weight", weights.output_weight, {config.output_dim, config.num_heads * config.value_dim});
  check_optional("query_bias", weights.query_bias, {query_width});
  check_optional("key_bias", weights.key_bias, {key_width});
  check_optional("value_bias", weights.value_bias, {value_width});
  check_optional("output_bias", weights.output_bias, {config.output_dim});
  check_norms(config, weights);
  check_optional("sinks", weights.sinks, {config.num_heads});
  if (config.alibi) {
    check_optional("alibi_slopes", weights.alibi_slopes, {config.num_heads});
  } else {
    check_absent("alibi_slopes", weights.alibi_slopes, "alibi");
  }
  check_relative_bias(config, weights.relative_bias);
}

AttentionOptions attention_options(const LayerConfig& config, const LayerWeights& weights) {
  AttentionOptions options;
  options.scale = config.scale;
  options.softcap = config.softcap;
  options.causal = config.causal;
  options.window = config.window;
  options.sinks = numbers_of(weights.sinks);
  if (config.alibi)
    options.alibi_slopes = weights.alibi_slopes.empty() ? alibi_slopes(config.num_heads) : numbers_of(weights.alibi_slopes);
  return options;
}

}  // namespace multihead
