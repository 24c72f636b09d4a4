// What the loader knows about an architecture: how its attention tensors are called (Naming), how they lie (Fused), and what
// its config.json adds (Configure). One small file a family fills in these three; everything else is shared.
//
// Rules that hold for all of them: sizes come from the tensors' shapes and the number of heads; a bias is there when its
// tensor is there, whatever config.json says; a tensor under a block's path that the naming does not mention is an error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/message.h"
#include "checkpoint/config.h"
#include "multihead/io.h"
#include "multihead/layer.h"

namespace multihead::checkpoint {

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw FormatError(concat(parts...));
}

/// A weight and its bias, as they are called under a block's path. Empty = the architecture has none.
struct Part {
  std::string weight = {};
  std::string bias = {};
};

/// As PyTorch calls the two of a module.
inline Part module(const std::string& name) { return {name + ".weight", name + ".bias"}; }

/// Names of one kind of attention block. All that is named must be there, but for biases and `others`.
struct Naming {
  std::string block = {};  ///< path pattern, # = a number; the longest pattern that fits wins
  bool cross = false;
  bool causal = false;
  bool transposed = false;  ///< weights are [in, out]
  Part query = {}, key = {}, value = {};
  Part fused = {};  ///< holds whatever of query, key and value has no name of its own
  Part output = {};
  Part query_norm = {}, key_norm = {};
  std::string sinks = {};
  /// Tensors that may lie under the path and are none of the above: buffers, norms of the block, tables that Configure reads.
  std::vector<std::string> others = {};
};

/// How query, key and value heads share the rows of a fused tensor. All known layouts are one: `blocks` equal blocks, in each
/// its share of the query heads, then of the key heads, then of the value heads.
///   1 block            q | k | v, thirds when there are as many kv heads as heads    nn.MultiheadAttention, GPT-2, Phi-3, MPT
///   num_kv_heads       each group's queries, its key, its value; without grouping    GPT-NeoX, BLOOM, Falcon, InternLM2,
///                      that is a triple a head                                        GPTBigCode
///   4, values first    q | v | k in each                                             CodeGen
struct Fused {
  Index blocks = 1;
  bool values_first = false;
};

/// A block found in the file.
struct Block {
  std::string path;
  Index depth = 0;  ///< number of the layer in its stack
};

/// What a family says about one of its blocks.
struct BlockPlan {
  LayerConfig config;
  bool cross = false;
  Fused fused;
  std::string positions = "learned (outside the layer)";  ///< unless `config` has something better to say
  std::string relative_bias;                              ///< full name of T5's table
  std::vector<float> alibi_slopes;                        ///< empty: the standard ones
  Index uses = 1;                                         ///< consecutive layers of the model that are this block (ALBERT)
};

/// Everything that Configure may look at.
struct Context {
  const Safetensors& tensors;
  const Config& config;
  const Naming& naming;
  const Block& block;

  std::string full_name(const std::string& name) const { return block.path.empty() ? name : block.path + "." + name; }
  /// A tensor under the block's path; null for none, and for an empty name.
  const SafetensorsEntry* find(const std::string& name) const { return name.empty() ? nullptr : tensors.find(full_name(name)); }
  /// True when a component of the path is this word.
  bool path_has(std::string_view word) const;
};

/// The names of Llama, which many share; and with q_norm and k_norm.
Naming llama_naming();
Naming with_norms(Naming naming);

using Configure = BlockPlan (*)(const Context&);

struct Family {
  std::string name;
  /// config.json's model_type (or _class_name). Empty: the names alone identify the family, whatever the model is.
  std::vector<std::string> model_types;
  std::vector<Naming> namings;
  Configure configure = nullptr;
};

/// Every family known.
const std::vector<Family>& families();

// What the families' files add to that list.
std::vector<Family> torch_families();      // torch.cc
std::vector<Family> bert_families();       // bert.cc
std::vector<Family> seq2seq_families();    // seq2seq.cc
std::vector<Family> t5_families();         // t5.cc
std::vector<Family> vision_families();     // vision.cc
std::vector<Family> diffusion_families();  // diffusion.cc
std::vector<Family> gpt_families();        // gpt.cc
std::vector<Family> falcon_families();     // falcon.cc
std::vector<Family> mpt_families();        // mpt.cc
std::vector<Family> llama_families();      // llama.cc
std::vector<Family> gemma_families();      // gemma.cc
std::vector<Family> gpt_oss_families();    // gpt_oss.cc

}  // namespace multihead::checkpoint
