// A decoder around the layer, in the architecture of Llama (Touvron et al. 2023):
//
//     x = E[ids]
//     x = x + MultiHead(norm(x))                        norm(x) = x / sqrt(mean(x^2) + epsilon) * g     (Zhang, Sennrich 2019)
//     x = x + W_down (silu(W_gate norm(x)) * W_up norm(x))                                 (SwiGLU: Shazeer 2020), once a block
//     logits = W_out norm(x)                                                                    W_out = E when they are tied
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "multihead/capture.h"
#include "multihead/export.h"
#include "multihead/kv_cache.h"
#include "multihead/layer.h"
#include "multihead/tensor.h"

namespace multihead {

/// What a decoder is. Every block has its own LayerConfig, because some models let only a part of their layers slide.
struct DecoderConfig {
  Index vocab_size = 0;
  Index model_dim = 0;
  Index hidden_dim = 0;  ///< width between W_gate, W_up and W_down
  double norm_epsilon = 1e-5;
  bool tied_output = true;        ///< the output projection is the embedding
  Index max_positions = 0;        ///< positions that it was trained for; 0 = not known
  std::optional<Index> begin_id;  ///< what a text begins with
  std::vector<Index> end_ids;     ///< any of these ends a text
  std::vector<LayerConfig> layers;
};

/// y = x W^T + b: weight [out, in], bias [out] or empty.
struct LinearWeights {
  Tensor weight, bias;
};

/// Learned parameters of one block.
struct DecoderBlockWeights {
  Tensor attention_norm;  ///< [model_dim]
  LayerWeights attention;
  Tensor feed_forward_norm;  ///< [model_dim]
  LinearWeights gate, up;    ///< [hidden_dim, model_dim]
  LinearWeights down;        ///< [model_dim, hidden_dim]
};

/// Learned parameters of a decoder; f32, f16 or bf16 each. Gradients have the same shape, in f32.
struct DecoderWeights {
  Tensor embedding;  ///< [vocab_size, model_dim]
  std::vector<DecoderBlockWeights> blocks;
  Tensor final_norm;  ///< [model_dim]
  Tensor output;      ///< [vocab_size, model_dim]; empty when tied
};

/// Calls visit(name, tensor) for every tensor that is there, in a fixed order, under the names that Llama's checkpoints have
/// ("model.layers.0.self_attn.q_proj.weight" …).
MULTIHEAD_API void for_each_weight(DecoderWeights& weights, const std::function<void(const std::string& name, Tensor&)>& visit);
MULTIHEAD_API void for_each_weight(const DecoderWeights& weights,
                                   const std::function<void(const std::string& name, const Tensor&)>& visit);

/// Keys and values of every block: what a decoder remembers of the tokens that it has seen.
struct DecoderCache {
  std::vector<KvCache> layers;

  Index length(Index sequence = 0) const { return layers.front().length(sequence); }
  Index capacity() const { return layers.front().config().capacity; }
};

/// A ready decoder. Calls may run concurrently. Everything between the ids and the logits is f32; a row's bits do not depend on
/// the number of threads, the batch, or how a sequence was cut into calls.
class MULTIHEAD_API Decoder {
 public:
  /// Throws InvalidArgument when a weight is missing or does not fit the configuration (both shapes in the text).
  Decoder(DecoderConfig config, DecoderWeights weights);
  /// A folder in the Hugging Face layout (config.json and *.safetensors), of an architecture that is Llama's: model_type llama,
  /// mistral, qwen2 or qwen3. Throws IoError; FormatError that names what is missing, left over, or not supported.
  static Decoder open(const std::filesystem::path& folder);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  const DecoderConfig& config() const;  ///< with resolved layers
  const MultiHeadAttention& layer(Index block) const;

  /// Logits of every position: ids [batch, length], i64 -> [batch, length, vocab_size], f32. With `captures` each block's
  /// attention is captured, values included: one entry a block, with its name and number. Throws InvalidArgument for an id that
  /// is not in the vocabulary, before anything is computed.
  Tensor forward(const ConstTensorView& ids, std::vector<Capture>* captures = nullptr) const;
  /// The next tokens of what the cache holds: ids [cache sequences, n] -> the logits of the last one, [sequences, vocab_size].
  /// n must be positive and fit into the cache; else InvalidArgument, with nothing appended.
  Tensor forward(const ConstTensorView& ids, DecoderCache& cache, std::vector<Capture>* captures = nullptr) const;
  /// Empty. Memory: 2 * sequences * capacity * num_kv_heads * head_dim elements a block.
  DecoderCache make_cache(Index sequences, Index capacity, DType dtype = DType::kF32) const;

  struct State;
  /// For the library itself.
  const State& state() const { return *state_; }

 private:
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Weights of a folder that Decoder::open would open, in the file's element types, and its configuration.
struct DecoderFiles {
  DecoderConfig config;
  DecoderWeights weights;
};
MULTIHEAD_API DecoderFiles read_decoder(const std::filesystem::path& folder);
/// Writes config.json and model.safetensors into `folder`, which is created, in the layout that read_decoder and Hugging Face's
/// LlamaForCausalLM read. Weights are rounded to `dtype` (f32, f16 or bf16). Each file is written beside and renamed. Throws
/// IoError; InvalidArgument for what that layout cannot say: other layers than causal ones of equal shape with unscaled rotary
/// positions of half-split pairs over the whole head.
MULTIHEAD_API void write_decoder(const std::filesystem::path& folder, const DecoderConfig& config,
                                 const DecoderWeights& weights, DType dtype = DType::kF32);

/// How the next token is drawn.
struct SamplingOptions {
  double temperature = 0;  ///< logits are divided by it; 0 = greedy: the largest logit, the lowest id among equals
  double top_p = 1;        ///< draw from the fewest tokens that together have this probability (Holtzman et al. 2020)
  std::uint64_t seed = 0;
};

/// Draws token after token; the same options and logits give the same tokens.
class MULTIHEAD_API Sampler {
 public:
  /// Throws InvalidArgument for a negative temperature or a top_p outside (0, 1].
  explicit Sampler(const SamplingOptions& options);
  /// logits [vocab_size], dense f32. Throws InvalidArgument when there are none, or one is NaN.
  Index draw(const ConstTensorView& logits);

 private:
  SamplingOptions options_;
  std::uint64_t state_;
};

struct GenerateOptions {
  Index tokens = 128;  ///< at most; fewer when the text ends
  SamplingOptions sampling;
  /// Called for each new token; false stops.
  std::function<bool(Index id)> on_token;
};

struct Generated {
  std::vector<Index> ids;  ///< the prompt's, then the new ones; an end token is not among them
  Tensor next_logits;      ///< [vocab_size] after the last of them
};

/// Continues a prompt, which must not be empty, through a KvCache. Throws InvalidArgument when prompt and tokens pass
/// max_positions, or the prompt does not fit the vocabulary.
MULTIHEAD_API Generated generate(const Decoder& decoder, const std::vector<Index>& prompt, const GenerateOptions& options = {});

}  // namespace multihead
