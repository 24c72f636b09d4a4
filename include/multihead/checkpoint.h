// Real checkpoints: which tensors are the attention layers here, how they lie, and what configuration they have.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "multihead/export.h"
#include "multihead/io.h"
#include "multihead/layer.h"

namespace multihead {

/// One attention layer found in a checkpoint.
struct FoundLayer {
  std::string family;  ///< "llama", "bert", "gpt2" …
  std::string name;    ///< tensor prefix, e.g. "model.layers.0.self_attn"; empty for a bare nn.MultiheadAttention
  std::string role;    ///< "self", or "cross" (keys and values come from a memory)
  LayerConfig config;  ///< resolved
  bool has_bias = false;
  std::string positions;  ///< "rotary half-split, theta 10000", "learned (outside the layer)", "ALiBi" … for people
};

/// A checkpoint folder (config.json, or Meta's params.json, beside *.safetensors, with or without an index) or a single
/// .safetensors file or index, with the config.json beside it if there is one.
///
/// Families: torch.nn.MultiheadAttention and Transformer layers; BERT, RoBERTa, MiniLM, DistilBERT, ALBERT; ViT, timm, CLIP,
/// SigLIP; T5, BART, Whisper, OPT; GPT-2, GPTBigCode, GPT-NeoX, GPT-J, CodeGen, BLOOM, Falcon, MPT, DBRX; Llama (also under
/// Meta's own names), Mistral, Mixtral, Qwen2, Qwen3, Gemma 1 to 3, GPT-OSS, Phi, Phi-3, OLMo 2, Cohere, GLM, Granite,
/// StableLM, StarCoder2, InternLM2; the UNets of Stable Diffusion. The prefix before the names (`bert.`, `transformer.`,
/// `language_model.` …) is free.
class MULTIHEAD_API Checkpoint {
 public:
  /// Detects each layer's family from the tensors' names and shapes. config.json decides only what they cannot tell: which of
  /// the families that share names (model_type), the number of heads where no tensor has one row a head, rotation, windows,
  /// scale. Biases are there when their tensors are. Reads headers only. Throws IoError; FormatError that shows what was found
  /// when no family fits, and that names the layer and the tensor or the key of config.json when one is missing, unexpected, of
  /// a wrong shape or type, or means something that is not supported.
  static Checkpoint open(const std::filesystem::path& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  /// All attention layers, self before cross within a block, in order of depth (encoder before decoder). One set of weights
  /// that a model uses in several layers (ALBERT) appears once for each.
  const std::vector<FoundLayer>& layers() const;
  /// Weights of layer N (an index into layers()), split and transposed to LayerWeights' layout, in the file's element types.
  /// Throws InvalidArgument for a layer that is not there, IoError and FormatError from reading.
  LayerWeights load_weights(std::size_t layer) const;
  /// Ready to run. As load_weights.
  MultiHeadAttention load(std::size_t layer) const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace multihead
