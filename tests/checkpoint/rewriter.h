// One checkpoint under every family's names and layouts: weights in the Llama form are written as another family would hold
// them, and the layer that the loader must then give is built beside. The layouts are written out here one by one, row by row,
// so that they share nothing with the loader's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.h"

namespace multihead::testing {

enum class Layout { kSeparate, kThirds, kQueriesKeysValues, kTriplePerHead, kGroups, kFourShards };
enum class Heads { kGrouped, kExpanded, kSingle };  // kv heads: as they are; repeated for every query head; only the first

/// Head counts and sizes of a model.
struct Shape {
  Index model_dim, num_heads, num_kv_heads, head_dim;
};

/// Row of element d of a head in a fused weight; part 0, 1, 2 = query, key, value.
inline Index fused_row(Layout layout, const Shape& s, int part, Index head, Index d) {
  const Index h = s.num_heads, g = s.num_kv_heads, size = s.head_dim, group = h / g;
  switch (layout) {
    case Layout::kThirds:
      return part * h * size + head * size + d;
    case Layout::kQueriesKeysValues:
      return (part == 0 ? 0 : part == 1 ? h * size : (h + g) * size) + head * size + d;
    case Layout::kTriplePerHead:
      return (head * 3 + part) * size + d;
    case Layout::kGroups:
      return part == 0 ? (head / group * (group + 2) + head % group) * size + d
                       : (head * (group + 2) + group + part - 1) * size + d;
    case Layout::kFourShards: {  // each: its quarter of the queries, of the values, of the keys
      const Index local = h / 4, place = part == 0 ? 0 : part == 2 ? 1 : 2;
      return (head / local * 3 + place) * local * size + head % local * size + d;
    }
    case Layout::kSeparate:
      break;
  }
  throw InvalidArgument("not a fused layout");
}

/// What an entry may add to the file and to the layer that is expected.
struct Draft {
  std::string block;  ///< path of the layer
  Index layer;
  NamedTensors& tensors;
  LayerConfig& config;
  LayerWeights& weights;

  void add(const std::string& name, const Tensor& tensor) const { tensors.emplace_back(block + "." + name, tensor.copy()); }
};

struct Rewriting {
  std::string label = {};
  std::string family = {};
  std::string config = {};              ///< config.json; $H $G $D $E $L stand for the model's numbers
  std::string block = {};               ///< path, {} = the layer's number
  std::vector<std::string> names = {};  ///< weights: query, key, value, output; or fused, output
  Layout layout = Layout::kSeparate;
  bool transposed = false;
  Heads heads = Heads::kGrouped;
  std::optional<RotaryPairing> rotary = {};
  std::string biases = "";  ///< which of q, k, v, o the family can have
  bool causal = true;
  bool cross = false;
  std::function<void(const Draft&)> extra = {};

  /// The result must be that of the model itself.
  bool is_pure() const { return causal && !cross && rotary && heads != Heads::kSingle && !extra; }
};

inline void PrintTo(const Rewriting& rewriting, std::ostream* out) { *out << rewriting.label; }

inline const std::vector<std::string> kOutProjNames = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

/// A matrix whose row r is row from(r) of another.
inline Tensor rows_taken(const Tensor& from, Index count, const std::function<Index(Index)>& row) {
  const Index width = from.rank() == 2 ? from.shape()[1] : 1;
  Tensor taken(DType::kF32, from.rank() == 2 ? Dims{count, width} : Dims{count});
  for (Index r = 0; r < count; ++r) {
    std::copy_n(from.data<float>() + row(r) * width, width, taken.data<float>() + r * width);
  }
  return taken;
}

/// Rows of kv heads for another number of them.
inline Tensor kv_heads_of(const Tensor& rows, const Shape& from, const Shape& to) {
  const Index each = to.num_kv_heads == 1 ? 1 : to.num_kv_heads / from.num_kv_heads;
  return rows_taken(rows, to.num_kv_heads * to.head_dim,
                    [&](Index r) { return r / to.head_dim / each * to.head_dim + r % to.head_dim; });
}

/// Half-split rows of query or key as an interleaved family holds them: pairs (j, j + D/2) side by side.
inline Tensor interleaved(const Tensor& rows, Index head_dim) {
  return rows_taken(rows, rows.shape()[0], [&](Index r) {
    const Index d = r % head_dim;
    return r - d + d / 2 + d % 2 * (head_dim / 2);
  });
}

inline Tensor transposed_copy(const Tensor& matrix) { return Tensor::copy_of(matrix.view().transposed(0, 1)); }

/// Writes one layer and returns what must be loaded. `source`: weights in the Llama form, without biases.
class LayerRewriter {
 public:
  LayerRewriter(const Rewriting& rewriting, const Shape& shape, Index layer)
      : rewriting_(rewriting),
        from_(shape),
        to_(shape),
        layer_(layer),
        block_(replaced(rewriting.block, "{}", std::to_string(layer))) {
    if (rewriting.heads == Heads::kExpanded) to_.num_kv_heads = to_.num_heads;
    if (rewriting.heads == Heads::kSingle) to_.num_kv_heads = 1;
  }

  MultiHeadAttention write(const LayerWeights& source, bool with_biases, NamedTensors& tensors) const {
    LayerConfig config;
    config.model_dim = to_.model_dim;
    config.num_heads = to_.num_heads;
    config.num_kv_heads = to_.num_kv_heads;
    config.head_dim = to_.head_dim;
    config.causal = rewriting_.causal;
    if (rewriting_.rotary) config.rotary = Rotary{};
    LayerWeights weights;
    weights.query_weight = source.query_weight.copy();
    weights.key_weight = kv_heads_of(source.key_weight, from_, to_);
    weights.value_weight = kv_heads_of(source.value_weight, from_, to_);
    weights.output_weight = source.output_weight.copy();
    if (with_biases) add_biases(weights);
    if (rewriting_.layout == Layout::kSeparate) {
      write_separate(weights, tensors);
    } else {
      write_fused(weights, tensors);
    }
    if (rewriting_.extra) rewriting_.extra(Draft{block_, layer_, tensors, config, weights});
    return MultiHeadAttention(config, std::move(weights));
  }

  const std::string& block() const { return block_; }

 private:
  void add_biases(LayerWeights& weights) const {
    const auto seed = static_cast<unsigned>(1000 + 10 * layer_);
    const auto add = [&](char part, Tensor& bias, Index size, unsigned number) {
      if (rewriting_.biases.find(part) != std::string::npos) bias = random_tensor({size}, seed + number, 0.5);
    };
    add('q', weights.query_bias, to_.num_heads * to_.head_dim, 0);
    add('k', weights.key_bias, to_.num_kv_heads * to_.head_dim, 1);
    add('v', weights.value_bias, to_.num_kv_heads * to_.head_dim, 2);
    add('o', weights.output_bias, to_.model_dim, 3);
  }

  // As the file holds queries and keys.
  Tensor turned(const Tensor& rows) const {
    return rewriting_.rotary == RotaryPairing::kInterleaved ? interleaved(rows, to_.head_dim) : rows.copy();
  }

  void put(NamedTensors& tensors, const std::string& name, const Tensor& tensor) const {
    if (tensor.empty()) return;
    const bool turn = rewriting_.transposed && tensor.rank() == 2;
    tensors.emplace_back(block_ + (block_.empty() ? "" : ".") + name, turn ? transposed_copy(tensor) : tensor.copy());
  }

  static std::string bias_name(const std::string& weight) { return replaced(weight, "weight", "bias"); }

  void write_separate(const LayerWeights& weights, NamedTensors& tensors) const {
    const auto& names = rewriting_.names;
    put(tensors, names[0], turned(weights.query_weight));
    put(tensors, names[1], turned(weights.key_weight));
    put(tensors, names[2], weights.value_weight);
    put(tensors, names[3], weights.output_weight);
    if (!weights.query_bias.empty()) put(tensors, bias_name(names[0]), turned(weights.query_bias));
    if (!weights.key_bias.empty()) put(tensors, bias_name(names[1]), turned(weights.key_bias));
    put(tensors, bias_name(names[2]), weights.value_bias);
    put(tensors, bias_name(names[3]), weights.output_bias);
  }

  Tensor fused(const Tensor& query, const Tensor& key, const Tensor& value) const {
    const Index width = query.rank() == 2 ? query.shape()[1] : 1;
    const Index rows = query.shape()[0] + key.shape()[0] + value.shape()[0];
    Tensor all(DType::kF32, query.rank() == 2 ? Dims{rows, width} : Dims{rows});
    const Tensor query_rows = turned(query), key_rows = turned(key);
    const Tensor* const parts[] = {&query_rows, &key_rows, &value};
    for (int part = 0; part < 3; ++part) {
      for (Index r = 0; r < parts[part]->shape()[0]; ++r) {
        const Index row = fused_row(rewriting_.layout, to_, part, r / to_.head_dim, r % to_.head_dim);
        std::copy_n(parts[part]->data<float>() + r * width, width, all.data<float>() + row * width);
      }
    }
    return all;
  }

  void write_fused(const LayerWeights& weights, NamedTensors& tensors) const {
    const auto& names = rewriting_.names;
    put(tensors, names[0], fused(weights.query_weight, weights.key_weight, weights.value_weight));
    put(tensors, names[1], weights.output_weight);
    if (!weights.query_bias.empty())
      put(tensors, bias_name(names[0]), fused(weights.query_bias, weights.key_bias, weights.value_bias));
    put(tensors, bias_name(names[1]), weights.output_bias);
  }

  const Rewriting& rewriting_;
  Shape from_, to_;
  Index layer_;
  std::string block_;
};

}  // namespace multihead::testing
