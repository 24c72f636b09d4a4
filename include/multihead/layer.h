// The multi-head attention layer:
//
//     MultiHead(X, X') = Concat(O_1, …, O_h) W_O        O_i = softmax(Q_i K_i^T * scale + what may be seen) V_i
//     Q = X W_Q + b_Q,  K = X' W_K + b_K,  V = X' W_V + b_V        (Vaswani et al. 2017, §3.2.2)
//
// self attention when X = X', else cross attention.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "multihead/attention.h"
#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// How the rotated dimensions of a head are paired.
enum class RotaryPairing {
  kHalfSplit,    ///< (j, j + rotary_dim / 2): GPT-NeoX, Llama in the Hugging Face layout
  kInterleaved,  ///< (2j, 2j + 1): GPT-J, Llama in Meta's own layout, Cohere, GLM
};

/// Frequencies divided by `factor`.
struct LinearRotaryScaling {
  double factor = 1;
};
/// Llama 3.1: long wavelengths divided by `factor`, short ones kept, a blend between.
struct Llama3RotaryScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};
/// YaRN (Peng et al. 2023): a ramp over dimensions between kept and divided frequencies; cos and sin times a factor.
struct YarnRotaryScaling {
  double factor = 1;
  double original_max_positions = 4096;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;                    ///< round the ramp's ends to whole dimensions
  std::optional<double> attention_factor;  ///< absent: 0.1 ln(factor) + 1
};
using RotaryScaling = std::variant<std::monostate, LinearRotaryScaling, Llama3RotaryScaling, YarnRotaryScaling>;

/// Rotary position embedding (Su et al. 2021) of query and key: pair j of position p turns by p * theta^(-2j / rotary_dim).
struct Rotary {
  RotaryPairing pairing = RotaryPairing::kHalfSplit;
  Index rotary_dim = 0;  ///< the first so many dimensions of each head turn, even; 0 = head_dim
  double theta = 10000;
  RotaryScaling scaling;
};

/// Normalisation of query and key before the rotation. What it spans follows from the weight's shape:
/// [head_dim] per head with shared weights, [heads, head_dim] per head with its own, [heads * head_dim] over the whole width.
struct QueryKeyNorm {
  enum class Kind { kRms, kLayer };
  Kind kind = Kind::kRms;
  double epsilon = 1e-6;
  bool weight_plus_one = false;  ///< Gemma: the factor is 1 + weight
};

/// T5's bucketed relative position bias (Raffel et al. 2020, §2.1).
struct RelativeBias {
  Index max_distance = 128;
  bool bidirectional = true;
};

/// What a layer is. Zeros mean "follows from the others".
struct LayerConfig {
  Index model_dim = 0;  ///< width of X and, unless output_dim is given, of the result
  Index num_heads = 1;
  Index num_kv_heads = 0;     ///< 0 = num_heads; must divide num_heads
  Index head_dim = 0;         ///< 0 = model_dim / num_heads, which must be exact
  Index value_dim = 0;        ///< 0 = head_dim
  Index key_input_dim = 0;    ///< width of X' where K comes from; 0 = model_dim
  Index value_input_dim = 0;  ///< width of X' where V comes from; 0 = key_input_dim
  Index output_dim = 0;       ///< 0 = model_dim

  bool causal = false;
  std::optional<Window> window;
  std::optional<float> scale;  ///< absent: 1 / sqrt(head_dim)
  std::optional<float> softcap;
  bool alibi = false;  ///< slopes from LayerWeights::alibi_slopes, or the standard ones when that is empty
  std::optional<Rotary> rotary;
  std::optional<QueryKeyNorm> query_key_norm;
  std::optional<RelativeBias> relative_bias;
  std::optional<float> clip;  ///< Q, K and V clamped to ±clip after projection (MPT, DBRX)

  /// Fills the zeros. Throws InvalidArgument that helps: for num_heads that does not divide model_dim it lists the divisors and
  /// says that an explicit head_dim makes it legal.
  MULTIHEAD_API LayerConfig resolved() const;
};

/// Learned parameters, as PyTorch's Linear holds them: weight [out, in], y = x W^T + b. Heads are major in the rows of
/// query/key/value weights and in the columns of the output weight. An empty Tensor means "none". f32, f16 or bf16 each.
struct LayerWeights {
  Tensor query_weight;   ///< [num_heads * head_dim, model_dim]
  Tensor key_weight;     ///< [num_kv_heads * head_dim, key_input_dim]
  Tensor value_weight;   ///< [num_kv_heads * value_dim, value_input_dim]
  Tensor output_weight;  ///< [output_dim, num_heads * value_dim]
  Tensor query_bias, key_bias, value_bias, output_bias;
  Tensor query_norm, key_norm;            ///< see QueryKeyNorm
  Tensor query_norm_bias, key_norm_bias;  ///< layer norms only
  Tensor sinks;                           ///< [num_heads]
  Tensor alibi_slopes;                    ///< [num_heads]
  Tensor relative_bias;                   ///< [buckets, num_heads]
};

class KvCache;
struct Capture;
struct LayerTape;

/// What one call adds to the layer.
struct ForwardOptions {
  /// Absolute position of the first query, for rotary positions, causality, windows and relative biases; key j always stands at
  /// position j. Absent: 0, in self and in cross attention, so that a plain call is an ordinary pass over a sequence from its
  /// beginning and padding (key_lengths) moves nobody.
  std::optional<Index> query_offset;
  std::vector<Index> key_lengths;       ///< valid keys per batch entry
  std::optional<ConstTensorView> mask;  ///< see AttentionOptions::mask
  /// See AttentionOptions::attention_bias. Together with a relative bias the two are added, which is the one case that expands
  /// a bias: [its batch extent, num_heads, query_len, key_len] in f32 for the duration of the call.
  std::optional<ConstTensorView> attention_bias;
  std::optional<Dropout> dropout;  ///< of coefficients, see attention.h; not with a cache
};

/// What one call can return besides the output; fill in a view to have it written.
struct ForwardObservation {
  std::optional<TensorView> lse;  ///< [batch, num_heads, query_len], f32 (reference_forward: or f64)
  std::optional<TensorView>
      probabilities;  ///< [batch, num_heads, query_len, key_len], f32, f16 or bf16 (reference: f32 or f64)
  /// Filled with what it takes to look at the call's coefficients later (capture.h, which you include to have one): rotated
  /// query and key, lse, the complete options, W_O; labels are left as they are. Also with a cache. Not by reference_forward.
  Capture* capture = nullptr;
  bool capture_values = false;  ///< the capture's value and output too
  /// Filled with what layer_backward needs (layer_gradient.h). Not with a cache, not by reference_forward.
  LayerTape* tape = nullptr;
};

/// A ready layer: weights converted to f32 and packed once, beside the given ones. Calls may run concurrently.
///
/// All inputs are [batch, length, width] in f32, f16 or bf16 with any strides; batch and lengths may be 0. 16-bit numbers are
/// widened once, everything between is f32, and the output is rounded once to the dtype of `input`. A row of the output has the
/// same bits for any number of threads, any batch neighbours and any cut of the rows into calls.
class MULTIHEAD_API MultiHeadAttention {
 public:
  /// Throws InvalidArgument when a weight's shape does not fit the configuration (both shapes in the text), is missing, or has
  /// no counterpart in the configuration.
  MultiHeadAttention(const LayerConfig& config, LayerWeights weights);
  ~MultiHeadAttention();
  MultiHeadAttention(MultiHeadAttention&&) noexcept;
  MultiHeadAttention& operator=(MultiHeadAttention&&) noexcept;

  const LayerConfig& config() const;  ///< resolved: no zeros left
  const LayerWeights& weights() const;

  /// Self attention. input [batch, length, model_dim] -> [batch, length, output_dim].
  Tensor forward(const ConstTensorView& input, const ForwardOptions& options = {}, const ForwardObservation& seen = {}) const;
  /// Cross attention: keys and values from memory [batch, key_len, key_input_dim].
  Tensor forward(const ConstTensorView& input, const ConstTensorView& memory, const ForwardOptions& options = {},
                 const ForwardObservation& seen = {}) const;
  /// Keys and values from different tensors, [batch, key_len, key_input_dim] and [batch, key_len, value_input_dim].
  Tensor forward(const ConstTensorView& input, const ConstTensorView& key_input, const ConstTensorView& value_input,
                 const ForwardOptions& options = {}, const ForwardObservation& seen = {}) const;
  /// Self attention over what a cache holds and what comes now: keys and values of `input`, [cache sequences, n, model_dim],
  /// are appended (a prompt, a chunk, or one token), then its n positions attend. The cache knows positions and lengths, so
  /// `options` may set only mask and attention_bias (over absolute key positions), and `seen` only lse. The cache's shape is
  /// {sequences = batch, num_kv_heads, head_dim, value_dim}. A prompt in one call, in chunks or token by token gives the bits
  /// of one pass (16-bit storage: of one over rounded keys and values). Throws InvalidArgument, with nothing appended, when it
  /// does not fit; a layer with a relative bias needs sequences of one length.
  Tensor forward(const ConstTensorView& input, KvCache& cache, const ForwardOptions& options = {},
                 const ForwardObservation& seen = {}) const;
  /// The same from the definitions, in float64 throughout: slow, obvious, for comparison. Result f64.
  Tensor reference_forward(const ConstTensorView& input, const ConstTensorView& memory, const ForwardOptions& options = {},
                           const ForwardObservation& seen = {}) const;
  Tensor reference_forward(const ConstTensorView& input, const ConstTensorView& key_input, const ConstTensorView& value_input,
                           const ForwardOptions& options = {}, const ForwardObservation& seen = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One step of the layer, as numbers: what `describe` tells.
struct LayerStep {
  std::string name;       ///< "query projection", "query split", "query heads", "scores" …
  std::string equation;   ///< "Q = X W_Q"
  Dims shape;             ///< of the step's result for batch 1, e.g. [32, S, 128]
  Index parameters = 0;   ///< learned numbers of the projection
  double operations = 0;  ///< of the matrix product, over the pairs that causality and window leave; multiply and add count two
  double bytes = 0;       ///< of the result in f32
  bool stored = true;     ///< false: never materialised (scores and probabilities in the fused kernel), a view, or in place
};

struct LayerDescription {
  LayerConfig config;
  Index query_len = 0, key_len = 0;
  std::vector<LayerStep> steps;
  Index parameters = 0;
  double operations = 0;
  double bytes_not_stored = 0;  ///< the h * n * m matrix that no step keeps
};

/// Shapes, parameters, operations and bytes of every step: (S, 4096) -> (S, 32, 128) -> (32, S, 128) -> … -> (S, 4096).
/// At a fixed model_dim the parameter count does not depend on num_heads. `with_bias` counts four biases. What norms, sinks,
/// slopes and relative biases learn follows from weights, not from a configuration, and is not counted. Under causality and
/// windows the last query stands at the last key. Throws InvalidArgument for a negative length or an impossible configuration.
MULTIHEAD_API LayerDescription describe(const LayerConfig& config, Index query_len, Index key_len, bool with_bias = false);

/// A named configuration with weights and, for the lab, an input: "vaswani-base" (512, 8 heads of 64), "llama-7b" (4096, 32
/// heads of 128, causal, rotary), "lab" (n = 3, d = 4, h = 2, identity matrices; X = (2,0,2,0), (0,2,2,0), (2,0,0,2)).
struct Preset {
  std::string name;
  std::string summary;
  LayerConfig config;
  Index default_length = 0;
};
MULTIHEAD_API std::vector<Preset> presets();
/// Throws InvalidArgument that lists the names.
MULTIHEAD_API Preset find_preset(std::string_view name);
/// Reproducible weights for a configuration: uniform in ±sqrt(3 / fan_in) from `seed`; the lab preset's are identities.
MULTIHEAD_API LayerWeights preset_weights(const Preset& preset, std::uint64_t seed);
/// Input [length, model_dim] f32 from `seed` (standard normal); the lab preset's own matrix when length is its default.
MULTIHEAD_API Tensor preset_input(const Preset& preset, Index length, std::uint64_t seed);

}  // namespace multihead
