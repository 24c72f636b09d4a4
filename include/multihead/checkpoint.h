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
  std::string family;   ///< "llama", "bert", "gpt2" …
  std::string name;     ///< tensor prefix, e.g. "model.layers.0.self_attn"
  std::string role;     ///< "self", or "cross" (keys and values come from a memory)
  LayerConfig config;   ///< resolved
  bool has_bias = false;
  std::string positions;  ///< "rotary half-split, theta 10000", "learned (outside the layer)", "ALiBi" … for people
};

/// A checkpoint folder (config.json beside *.safetensors, with or without an index) or a single .safetensors file.
class MULTIHEAD_API Checkpoint {
 public:
  /// Detects the family from the tensors' names and shapes (config.json decides only what they cannot tell).
  /// Throws IoError, FormatError; for an unknown layout an error that shows what was found.
  static Checkpoint open(const std::filesystem::path& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  /// All attention layers, self before cross within a block, in order of depth (encoder before decoder).
  const std::vector<FoundLayer>& layers() const;
  /// Weights of layer N (an index into layers()), split and transposed to LayerWeights' layout.
  LayerWeights load_weights(std::size_t layer) const;
  /// Ready to run.
  MultiHeadAttention load(std::size_t layer) const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace multihead
