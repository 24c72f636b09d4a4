// The layer: project ▶ heads ▶ attend ▶ concatenate ▶ project.
#include "multihead/layer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "attention/run.h"
#include "layer/call.h"
#include "layer/dense_rows.h"
#include "layer/heads.h"
#include "layer/projection.h"
#include "layer/query_key_norm.h"
#include "layer/relative_bias.h"
#include "layer/rotary.h"
#include "layer/weights.h"
#include "multihead/capture.h"
#include "multihead/kv_cache.h"
#include "multihead/layer_gradient.h"

namespace multihead {
namespace {

constexpr const char* kForward = "MultiHeadAttention::forward";

std::optional<HeadNorm> make_norm(const LayerConfig& config, const Tensor& weight, const Tensor& bias, Index heads) {
  if (!config.query_key_norm) return std::nullopt;
  return HeadNorm(*config.query_key_norm, weight, bias, heads, config.head_dim);
}

void clamp(Tensor& numbers, float limit) {
  std::for_each_n(numbers.data<float>(), numbers.size(), [limit](float& x) { x = std::clamp(x, -limit, limit); });
}

}  // namespace

struct MultiHeadAttention::State {
  State(const LayerConfig& resolved, LayerWeights given)
      : config(resolved),
        weights(std::move(given)),
        options(attention_options(config, weights)),
        query(weights.query_weight, weights.query_bias),
        key(weights.key_weight, weights.key_bias),
        value(weights.value_weight, weights.value_bias),
        output(weights.output_weight, weights.output_bias),
        query_norm(make_norm(config, weights.query_norm, weights.query_norm_bias, config.num_heads)),
        key_norm(make_norm(config, weights.key_norm, weights.key_norm_bias, config.num_kv_heads)) {}

  LayerConfig config;
  LayerWeights weights;
  AttentionOptions options;
  Projection query, key, value, output;
  std::optional<HeadNorm> query_norm, key_norm;

  // Q, K or V, [batch, length, heads * dim].
  Tensor project(const Projection& projection, const DenseRows& x, const LayerCall& call, Index length) const {
    Tensor result = Tensor::uninitialized(DType::kF32, {call.batch, length, projection.output_width()});
    projection.apply(x.data(), x.rows(), result.data<float>());
    if (config.clip) clamp(result, *config.clip);
    return result;
  }

  void place(const TensorView& heads, const std::optional<HeadNorm>& norm, Index first_position) const {
    if (norm) norm->apply(heads);
    if (config.rotary) rotate(*config.rotary, first_position, heads);
  }

  // The call's capture with what the layer alone knows.
  void fill(Capture captured, const ForwardObservation& seen) const {
    captured.output_weight = weights.output_weight.copy();
    captured.labels = std::move(seen.capture->labels);
    *seen.capture = std::move(captured);
  }
  TensorView start_tape(LayerTape& tape, const Tensor& q, const Tensor& k, const LayerCall& call) const;
  void attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& heads,
              const LayerCall& call, const ForwardObservation& seen) const;
  Tensor forward(const LayerCall& call, const DenseRows& x, const DenseRows& x_key, const DenseRows& x_value, DType dtype,
                 const ForwardObservation& seen) const;
  void extend(KvCache& cache, const TensorView& q_heads, const TensorView& k_heads, const ConstTensorView& v_heads) const;
  Tensor forward(const ConstTensorView& input, KvCache& cache, const ForwardOptions& given,
                 const ForwardObservation& seen) const;
};

// attention, with the relative bias added to the options and what the caller wants to see written.
void MultiHeadAttention::State::attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                       const TensorView& heads, const LayerCall& call, const ForwardObservation& seen) const {
  AttentionOptions complete = call.options;
  std::optional<RelativeBiasLines> relative;
  Tensor sum;
  if (config.relative_bias) {
    relative.emplace(*config.relative_bias, weights.relative_bias, call.query_len, call.key_len, call.query_offset);
    complete.attention_bias = relative->view();
  }
  if (config.relative_bias && call.bias.data != nullptr) {
    const ConstTensorView& given = *call.options.attention_bias;
    sum = add_biases(relative->view(), call.bias, given.rank() == 4 ? given.shape[0] : 1);
    complete.attention_bias = sum;
  }
  Tensor exact_lse;  // what coefficients are recomputed from
  std::optional<TensorView> lse = seen.lse;
  if (seen.probabilities) {
    exact_lse = Tensor::uninitialized(DType::kF64, {call.batch, config.num_heads, call.query_len});
    lse = exact_lse.view();
  }
  if (seen.capture != nullptr) {
    fill(capture(q, k, v, heads, complete, {seen.capture_values, seen.capture_values}, lse), seen);
  } else {
    attention(q, k, v, heads, complete, lse);
  }
  if (!seen.probabilities) return;
  attention_probabilities(q, k, exact_lse, *seen.probabilities, complete);
  if (seen.lse) copy_lse(exact_lse, *seen.lse);
}

// What the backward pass needs and the steps to come overwrite. Returns where the lse belongs.
TensorView MultiHeadAttention::State::start_tape(LayerTape& tape, const Tensor& q, const Tensor& k,
                                                 const LayerCall& call) const {
  tape = LayerTape();
  if (config.clip || config.query_key_norm) {
    tape.plain_query = q.copy();
    tape.plain_key = k.copy();
  }
  tape.lse = Tensor::uninitialized(DType::kF32, {call.batch, config.num_heads, call.query_len});
  return tape.lse.view();
}

Tensor MultiHeadAttention::State::forward(const LayerCall& call, const DenseRows& x, const DenseRows& x_key,
                                          const DenseRows& x_value, DType dtype, const ForwardObservation& seen) const {
  check_observation(kForward, config, call, seen, {DType::kF32}, {DType::kF32, DType::kF16, DType::kBF16});
  // Project: Q = X W_Q, K = X' W_K, V = X' W_V.
  Tensor q = project(query, x, call, call.query_len);
  Tensor k = project(key, x_key, call, call.key_len);
  Tensor v = project(value, x_value, call, call.key_len);
  ForwardObservation wanted = seen;
  if (seen.tape != nullptr) wanted.lse = start_tape(*seen.tape, q, k, call);
  if (seen.lse) wanted.lse = seen.lse;

  // Heads: [batch, num_heads, length, head_dim], normalised and rotated to their positions where they lie.
  const TensorView q_heads = as_heads(q.view(), config.num_heads), k_heads = as_heads(k.view(), config.num_kv_heads);
  place(q_heads, query_norm, call.query_offset);
  place(k_heads, key_norm, 0);

  // Attend: O_i = softmax(Q_i K_i^T * scale + what may be seen) V_i, written where Concat(O_1, …, O_h) wants it.
  Tensor concatenation = Tensor::uninitialized(DType::kF32, {call.batch, call.query_len, config.num_heads * config.value_dim});
  attend(q_heads, k_heads, as_heads(v.view(), config.num_kv_heads), as_heads(concatenation.view(), config.num_heads), call,
         wanted);

  // Project: Concat(O_1, …, O_h) W_O, rounded once to the input's dtype.
  Tensor y = Tensor::uninitialized(DType::kF32, {call.batch, call.query_len, config.output_dim});
  output.apply(concatenation.data<float>(), call.batch * call.query_len, y.data<float>());
  if (seen.tape != nullptr) {
    seen.tape->query = std::move(q);
    seen.tape->key = std::move(k);
    seen.tape->value = std::move(v);
    seen.tape->concatenation = std::move(concatenation);
    if (seen.lse) seen.tape->lse = Tensor::copy_of(*seen.lse);
  }
  return dtype == DType::kF32 ? std::move(y) : Tensor::converted(y, dtype);
}

// The step of `forward` that a cache changes: everything stands behind what its sequence already holds.
void MultiHeadAttention::State::extend(KvCache& cache, const TensorView& q_heads, const TensorView& k_heads,
                                       const ConstTensorView& v_heads) const {
  for (Index s = 0; s < cache.config().sequences; ++s) {
    place(q_heads.slice(0, s, s + 1), query_norm, cache.length(s));
    place(k_heads.slice(0, s, s + 1), key_norm, cache.length(s));
  }
  cache.append(k_heads, v_heads);
}

Tensor MultiHeadAttention::State::forward(const ConstTensorView& input, KvCache& cache, const ForwardOptions& given,
                                          const ForwardObservation& seen) const {
  check_cache(kForward, config, input, cache, given, seen);
  const Index batch = input.shape[0], length = input.shape[1];
  const DenseRows x(input);
  LayerCall call{batch, length, 0, 0, options, {}, {}, {}};
  call.options.mask = given.mask;
  call.options.attention_bias = given.attention_bias;
  Tensor q = project(query, x, call, length), k = project(key, x, call, length), v = project(value, x, call, length);
  const TensorView q_heads = as_heads(q.view(), config.num_heads);
  extend(cache, q_heads, as_heads(k.view(), config.num_kv_heads), as_heads(v.view(), config.num_kv_heads));

  std::optional<RelativeBiasLines> relative;
  if (config.relative_bias && batch > 0) {
    relative.emplace(*config.relative_bias, weights.relative_bias, length, cache.length(0), cache.length(0) - length);
    call.options.attention_bias = relative->view();
  }
  Tensor concatenation = Tensor::uninitialized(DType::kF32, {batch, length, config.num_heads * config.value_dim});
  const TensorView heads = as_heads(concatenation.view(), config.num_heads);
  if (seen.capture != nullptr) {
    fill(capture(cache, q_heads, heads, call.options, {seen.capture_values, seen.capture_values}, seen.lse), seen);
  } else {
    cache.attend(q_heads, heads, call.options, seen.lse);
  }
  Tensor y = Tensor::uninitialized(DType::kF32, {batch, length, config.output_dim});
  output.apply(concatenation.data<float>(), batch * length, y.data<float>());
  return input.dtype == DType::kF32 ? std::move(y) : Tensor::converted(y, input.dtype);
}

MultiHeadAttention::MultiHeadAttention(const LayerConfig& config, LayerWeights weights) {
  const LayerConfig resolved = config.resolved();
  check_weights(resolved, weights);
  state_ = std::make_unique<State>(resolved, std::move(weights));
}
MultiHeadAttention::~MultiHeadAttention() = default;
MultiHeadAttention::MultiHeadAttention(MultiHeadAttention&&) noexcept = default;
MultiHeadAttention& MultiHeadAttention::operator=(MultiHeadAttention&&) noexcept = default;

const LayerConfig& MultiHeadAttention::config() const { return state_->config; }
const LayerWeights& MultiHeadAttention::weights() const { return state_->weights; }

Tensor MultiHeadAttention::forward(const ConstTensorView& input, const ForwardOptions& options,
                                   const ForwardObservation& seen) const {
  const LayerCall call = check_call({kForward, input, input, input}, config(), state_->options, options);
  const DenseRows x(input);
  return state_->forward(call, x, x, x, input.dtype, seen);
}

Tensor MultiHeadAttention::forward(const ConstTensorView& input, const ConstTensorView& memory, const ForwardOptions& options,
                                   const ForwardObservation& seen) const {
  const LayerCall call = check_call({kForward, input, memory, memory}, config(), state_->options, options);
  const DenseRows x(input), x_memory(memory);
  return state_->forward(call, x, x_memory, x_memory, input.dtype, seen);
}

Tensor MultiHeadAttention::forward(const ConstTensorView& input, const ConstTensorView& key_input,
                                   const ConstTensorView& value_input, const ForwardOptions& options,
                                   const ForwardObservation& seen) const {
  const LayerCall call = check_call({kForward, input, key_input, value_input}, config(), state_->options, options);
  return state_->forward(call, DenseRows(input), DenseRows(key_input), DenseRows(value_input), input.dtype, seen);
}

Tensor MultiHeadAttention::forward(const ConstTensorView& input, KvCache& cache, const ForwardOptions& options,
                                   const ForwardObservation& seen) const {
  return state_->forward(input, cache, options, seen);
}

}  // namespace multihead
