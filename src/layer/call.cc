#include "layer/call.h"

#include "attention/validate.h"
#include "base/message.h"
#include "multihead/kv_cache.h"

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
  LayerCall call{query[0], query[1], key[1], options.query_offset.value_or(0), fixed, {}, {}, {}};
  require(std::abs(call.query_offset) <= kMaxPosition, function, ": query_offset: expected at most 2^48; got ",
          call.query_offset);
  call.options.query_offsets = {call.query_offset};
  call.options.key_lengths = options.key_lengths;
  call.options.mask = options.mask;
  call.options.attention_bias = options.attention_bias;
  call.options.dropout = options.dropout;
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
  call.dropout = checked.problem.dropout;
  return call;
}

void check_cache(const char* function, const LayerConfig& config, const ConstTensorView& input, const KvCache& cache,
                 const ForwardOptions& options, const ForwardObservation& seen) {
  check_input(function, "input", input, config.model_dim);
  require(config.key_input_dim == config.model_dim && config.value_input_dim == config.model_dim, function,
          ": a cache is for self attention; this layer's keys and values come from widths ", config.key_input_dim, " and ",
          config.value_input_dim, ", its queries from ", config.model_dim);
  const KvCacheConfig& c = cache.config();
  require(c.sequences == input.shape[0] && c.num_kv_heads == config.num_kv_heads && c.head_dim == config.head_dim &&
              c.value_dim == config.value_dim,
          function, ": expected a cache of [sequences, num_kv_heads, head_dim, value_dim] = ",
          Dims{input.shape[0], config.num_kv_heads, config.head_dim, config.value_dim}, "; got ",
          Dims{c.sequences, c.num_kv_heads, c.head_dim, c.value_dim});
  require(!options.query_offset && options.key_lengths.empty(), function,
          ": the cache knows positions and lengths; expected no query_offset or key_lengths in the options");
  require(!options.dropout, function, ": a cache is for generating; expected no dropout in the options");
  require(!seen.probabilities, function, ": probabilities are not available with a cache; ask for lse");
  for (Index s = 0; s < c.sequences; ++s) {
    const Index room = c.sliding ? cache.max_append() : c.capacity - cache.length(s);
    require(input.shape[1] <= room, function, ": sequence ", s, " of the cache takes ", room,
            " more positions at once; got input ", input.shape);
    require(
        !config.relative_bias || (cache.length(s) == cache.length(0) && !options.attention_bias), function,
        ": a layer with a relative bias needs sequences of one length in the cache, and no attention_bias beside it; sequence ",
        s, " has length ", cache.length(s), ", sequence 0 ", cache.length(0));
  }
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
