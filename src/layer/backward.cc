// The layer's backward pass: its forward, read from the last line to the first.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/message.h"
#include "layer/call.h"
#include "layer/dense_rows.h"
#include "layer/gradient_products.h"
#include "layer/heads.h"
#include "layer/query_key_norm.h"
#include "layer/relative_bias.h"
#include "layer/rotary.h"
#include "layer/weights.h"
#include "multihead/gradient.h"
#include "multihead/layer_gradient.h"

namespace multihead {
namespace {

constexpr const char* kFunction = "layer_backward";

void add(const Tensor& y, Tensor& x) {
  std::transform(x.data<float>(), x.data<float>() + x.size(), y.data<float>(), x.data<float>(), std::plus<>());
}

// Where clamping held a number at the limit, nothing comes through.
void clip_backward(const Tensor& clamped, float limit, Tensor& gradient) {
  const float* x = clamped.data<float>();
  float* g = gradient.data<float>();
  for (Index i = 0, count = clamped.size(); i < count; ++i) {
    if (std::abs(x[i]) >= limit) g[i] = 0;
  }
}

// Gradients of [num_heads, head_dim] numbers for a weight in any of its three shapes.
Tensor gather(const std::vector<double>& per_head, const Tensor& weight) {
  if (weight.empty()) return {};
  std::vector<double> sums(static_cast<std::size_t>(weight.size()));
  for (std::size_t i = 0; i < per_head.size(); ++i) sums[i % sums.size()] += per_head[i];
  Tensor result = Tensor::uninitialized(DType::kF32, weight.shape());
  std::transform(sums.begin(), sums.end(), result.data<float>(), [](double sum) { return static_cast<float>(sum); });
  return result;
}

// Which of the inputs are one tensor, to which all gradients come back together.
enum class Sharing { kAll, kKeyAndValue, kNone };

class Backward {
 public:
  Backward(const MultiHeadAttention& layer, const LayerCall& call, const LayerTape& tape)
      : config_(layer.config()), weights_(layer.weights()), call_(call), tape_(tape) {
    check_tape();
  }

  LayerGradients run(const ConstTensorView& x, const ConstTensorView& x_key, const ConstTensorView& x_value,
                     const ConstTensorView& grad_output, Sharing sharing);

 private:
  void check_tape() const;
  void attend(const Tensor& dconcatenation);
  void attend_with_bias(AttentionGradients& gradients, const Tensor& dconcatenation, AttentionOptions options);
  void gather_relative_bias(const Tensor& dbias);
  void unplace(Tensor& gradient, const Tensor& plain, Index num_heads, Index first_position, bool is_query);
  Tensor heads_like(const Tensor& projected) const { return Tensor::uninitialized(DType::kF32, projected.shape()); }

  const LayerConfig& config_;
  const LayerWeights& weights_;
  const LayerCall& call_;
  const LayerTape& tape_;
  Tensor dquery_, dkey_, dvalue_;  // [batch, length, heads * dim]
  LayerGradients result_;
};

void Backward::check_tape() const {
  const auto check = [](const char* name, const Tensor& tensor, const Dims& expected) {
    require(!tensor.empty() && tensor.shape() == expected && tensor.dtype() == DType::kF32, kFunction, ": tape: expected ",
            name, " ", expected, " from the forward call; got ", tensor.empty() ? "none" : to_string(tensor.shape()));
  };
  const LayerConfig& c = config_;
  check("query", tape_.query, {call_.batch, call_.query_len, c.num_heads * c.head_dim});
  check("key", tape_.key, {call_.batch, call_.key_len, c.num_kv_heads * c.head_dim});
  check("value", tape_.value, {call_.batch, call_.key_len, c.num_kv_heads * c.value_dim});
  check("concatenation", tape_.concatenation, {call_.batch, call_.query_len, c.num_heads * c.value_dim});
  check("lse", tape_.lse, {call_.batch, c.num_heads, call_.query_len});
  if (c.clip || c.query_key_norm) {
    check("plain_query", tape_.plain_query, tape_.query.shape());
    check("plain_key", tape_.plain_key, tape_.key.shape());
  }
}

// From Concat(O_1, …, O_h) to Q, K and V.
void Backward::attend(const Tensor& dconcatenation) {
  dquery_ = heads_like(tape_.query);
  dkey_ = heads_like(tape_.key);
  dvalue_ = heads_like(tape_.value);
  AttentionGradients gradients;
  gradients.query = as_heads(dquery_.view(), config_.num_heads);
  gradients.key = as_heads(dkey_.view(), config_.num_kv_heads);
  gradients.value = as_heads(dvalue_.view(), config_.num_kv_heads);
  const auto per_head = [&](bool wanted, Tensor& gradient) -> std::optional<TensorView> {
    if (!wanted) return std::nullopt;
    gradient = Tensor(DType::kF32, {config_.num_heads});
    return gradient.view();
  };
  gradients.sinks = per_head(!weights_.sinks.empty(), result_.weights.sinks);
  gradients.alibi_slopes = per_head(config_.alibi, result_.weights.alibi_slopes);
  attend_with_bias(gradients, dconcatenation, call_.options);
}

void Backward::attend_with_bias(AttentionGradients& gradients, const Tensor& dconcatenation, AttentionOptions options) {
  std::optional<RelativeBiasLines> relative;
  Tensor sum, dbias;
  if (config_.relative_bias) {
    relative.emplace(*config_.relative_bias, weights_.relative_bias, call_.query_len, call_.key_len, call_.query_offset);
    options.attention_bias = relative->view();
    if (call_.bias.data != nullptr) {
      const ConstTensorView& given = *call_.options.attention_bias;
      sum = add_biases(relative->view(), call_.bias, given.rank() == 4 ? given.shape[0] : 1);
      options.attention_bias = sum;
    }
    dbias = Tensor(DType::kF32, options.attention_bias->shape);
    gradients.attention_bias = dbias.view();
  }
  attention_backward(as_heads(tape_.query.view(), config_.num_heads), as_heads(tape_.key.view(), config_.num_kv_heads),
                     as_heads(tape_.value.view(), config_.num_kv_heads),
                     as_heads(tape_.concatenation.view(), config_.num_heads), tape_.lse,
                     as_heads(dconcatenation.view(), config_.num_heads), gradients, options);
  if (config_.relative_bias) gather_relative_bias(dbias);
}

// [batch or 1, num_heads, query_len, key_len] into the buckets [buckets, num_heads].
void Backward::gather_relative_bias(const Tensor& dbias) {
  const Index buckets = weights_.relative_bias.shape()[0], heads = config_.num_heads, n = call_.query_len, m = call_.key_len;
  std::vector<double> sums(static_cast<std::size_t>(buckets * heads));
  for (Index row = 0; row < dbias.shape()[0] * heads * n; ++row) {
    const Index i = row % n, head = row / n % heads;
    for (Index j = 0; j < m; ++j) {
      const Index bucket = relative_bucket(*config_.relative_bias, buckets, j - (call_.query_offset + i));
      sums[static_cast<std::size_t>(bucket * heads + head)] += static_cast<double>(dbias.data<float>()[row * m + j]);
    }
  }
  result_.weights.relative_bias = gather(sums, weights_.relative_bias);
}

// Rotation, norm and clamp, backwards, where the gradient lies.
void Backward::unplace(Tensor& gradient, const Tensor& plain, Index num_heads, Index first_position, bool is_query) {
  const TensorView heads = as_heads(gradient.view(), num_heads);
  if (config_.rotary) rotate_backward(*config_.rotary, first_position, heads);
  if (config_.query_key_norm) {
    const Tensor& weight = is_query ? weights_.query_norm : weights_.key_norm;
    const Tensor& bias = is_query ? weights_.query_norm_bias : weights_.key_norm_bias;
    const HeadNorm norm(*config_.query_key_norm, weight, bias, num_heads, config_.head_dim);
    const HeadNorm::Gradients gradients = norm.backward(as_heads(plain.view(), num_heads), heads);
    (is_query ? result_.weights.query_norm : result_.weights.key_norm) = gather(gradients.factor, weight);
    (is_query ? result_.weights.query_norm_bias : result_.weights.key_norm_bias) = gather(gradients.shift, bias);
  }
  if (config_.clip) clip_backward(plain, *config_.clip, gradient);
}

LayerGradients Backward::run(const ConstTensorView& x, const ConstTensorView& x_key, const ConstTensorView& x_value,
                             const ConstTensorView& grad_output, Sharing sharing) {
  const Index rows = call_.batch * call_.query_len, key_rows = call_.batch * call_.key_len;
  const DenseRows dense(x), dense_key(x_key), dense_value(x_value), dy(grad_output);
  LayerWeights& grads = result_.weights;

  LinearGradients output = linear_backward(tape_.concatenation.data<float>(), weights_.output_weight,
                                           !weights_.output_bias.empty(), dy.data(), rows);
  grads.output_weight = std::move(output.weight);
  grads.output_bias = std::move(output.bias);
  attend(std::move(output.input).reshaped(tape_.concatenation.shape()));
  unplace(dquery_, tape_.plain_query, config_.num_heads, call_.query_offset, true);
  unplace(dkey_, tape_.plain_key, config_.num_kv_heads, 0, false);
  if (config_.clip) clip_backward(tape_.value, *config_.clip, dvalue_);

  LinearGradients q =
      linear_backward(dense.data(), weights_.query_weight, !weights_.query_bias.empty(), dquery_.data<float>(), rows);
  LinearGradients k =
      linear_backward(dense_key.data(), weights_.key_weight, !weights_.key_bias.empty(), dkey_.data<float>(), key_rows);
  LinearGradients v =
      linear_backward(dense_value.data(), weights_.value_weight, !weights_.value_bias.empty(), dvalue_.data<float>(), key_rows);
  grads.query_weight = std::move(q.weight);
  grads.query_bias = std::move(q.bias);
  grads.key_weight = std::move(k.weight);
  grads.key_bias = std::move(k.bias);
  grads.value_weight = std::move(v.weight);
  grads.value_bias = std::move(v.bias);

  result_.input = std::move(q.input).reshaped(x.shape);
  result_.key_input = std::move(k.input).reshaped(x_key.shape);
  result_.value_input = std::move(v.input).reshaped(x_value.shape);
  if (sharing != Sharing::kNone) {
    add(result_.value_input, result_.key_input);
    result_.value_input = Tensor();
  }
  if (sharing == Sharing::kAll) {
    add(result_.key_input, result_.input);
    result_.key_input = Tensor();
  }
  return std::move(result_);
}

struct Inputs {
  const ConstTensorView &query, &key, &value;
};

LayerGradients backward(const MultiHeadAttention& layer, const Inputs& x, const ConstTensorView& grad_output,
                        const LayerTape& tape, const ForwardOptions& options, Sharing sharing) {
  const LayerConfig& config = layer.config();
  const LayerCall call =
      check_call({kFunction, x.query, x.key, x.value}, config, attention_options(config, layer.weights()), options);
  const Dims expected{call.batch, call.query_len, config.output_dim};
  require(grad_output.shape == expected, kFunction, ": grad_output: expected ", expected, "; got ", grad_output.shape);
  require(is_attention_dtype(grad_output.dtype), kFunction, ": grad_output: expected f32, f16 or bf16; got ",
          name_of(grad_output.dtype));
  return Backward(layer, call, tape).run(x.query, x.key, x.value, grad_output, sharing);
}

}  // namespace

LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input, const ConstTensorView& grad_output,
                              const LayerTape& tape, const ForwardOptions& options) {
  return backward(layer, {input, input, input}, grad_output, tape, options, Sharing::kAll);
}

LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input, const ConstTensorView& memory,
                              const ConstTensorView& grad_output, const LayerTape& tape, const ForwardOptions& options) {
  return backward(layer, {input, memory, memory}, grad_output, tape, options, Sharing::kKeyAndValue);
}

LayerGradients layer_backward(const MultiHeadAttention& layer, const ConstTensorView& input, const ConstTensorView& key_input,
                              const ConstTensorView& value_input, const ConstTensorView& grad_output, const LayerTape& tape,
                              const ForwardOptions& options) {
  return backward(layer, {input, key_input, value_input}, grad_output, tape, options, Sharing::kNone);
}

}  // namespace multihead
