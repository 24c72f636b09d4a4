#include "layer/call.h"

#include "attention/validate.h"
#include "base/message.h"

namespace multihead {
namespace {

constexpr Index kMaxPosition =
    Index{1} << 48;  // the op's own limit; rotary and relative positions are computed before it is asked

void check_input(const char* function, const char* name, const ConstTensorView& input, Index width) {
  require(input.rank() == 3 && input.shape[2] == width, function, ": ", name, ": expected [batch, length, ", width, "]; got ",
          to_string(input.shape));
  validate_input(function, name, input, input.shape, {DType::kF32, DType::kF16, DType::kBF16});
}

}  // namespace

LayerCall check_call(const LayerInputs& inputs, const LayerConfig& config, const AttentionOptions& fixed,
                     const ForwardOptions& options) {
  const char* function = inputs.function;
  check_input(function, "input", inputs.query, config.model_dim);
  check_input(function, "key input", inputs.key, config.key_input_dim);
  check_input(function, "value input", inputs.value, config.value_input_dim);
  const Dims &query = inputs.query.shape, &key = inputs.key.shape, &value = inputs.value.shape;
  require(key[0] == query[0] && value[0] == query[0] && value[1] == key[1], function,
          ": expected one batch size, and one length of key and value input; got input ", to_string(query), ", key input ",
          to_string(key), " and value input ", to_string(value));
  LayerCall call{query[0], query[1], key[1], options.query_offset.value_or(0), fixed, {}, {}};
  require(std::abs(call.query_offset) <= kMaxPosition, function, ": query_offset: expected at most 2^48; got ",
          call.query_offset);
  call.options.query_offsets = {call.query_offset};
  call.options.key_lengths = options.key_lengths;
  call.options.mask = options.mask;
  call.options.attention_bias = options.attention_bias;
  // The op's own rules for masks, biases and lengths, asked about heads that do not exist yet: one number under strides of 0.
  const float number = 0;
  const auto heads = [&](Index num_heads, Index length, Index dim) {
    return ConstTensorView(&number, DType::kF32, {call.batch, num_heads, length, dim}, {0, 0, 0, 0});
  };
  const ConstTensorView q = heads(config.num_heads, call.query_len, config.head_dim);
  const ConstTensorView k = heads(config.num_kv_heads, call.key_len, config.head_dim);
  const ConstTensorView v = heads(config.num_kv_heads, call.key_len, config.value_dim);
  const ValidatedProblem checked = validate({function, q, k, &v, call.options});
  call.mask = checked.problem.mask;
  call.bias = checked.problem.bias;
  return call;
}

CheckedObservation check_observation(const char* function, const LayerConfig& config, const LayerCall& call,
                                     const ForwardObservation& seen, std::initializer_list<DType> lse_dtypes,
                                     std::initializer_list<DType> probability_dtypes) {
  CheckedObservation checked;
  if (seen.lse)
    checked.lse = validate_result(function, "lse", *seen.lse, {call.batch, config.num_heads, call.query_len}, lse_dtypes);
  if (seen.probabilities) {
    checked.probabilities = validate_result(function, "probabilities", *seen.probabilities,
                                            {call.batch, config.num_heads, call.query_len, call.key_len}, probability_dtypes);
  }
  return checked;
}

}  // namespace multihead
