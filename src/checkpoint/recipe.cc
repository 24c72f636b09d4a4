#include "checkpoint/recipe.h"

#include <algorithm>
#include <cstring>

#include "io/text.h"

namespace multihead::checkpoint {
namespace {

using Member = Tensor LayerWeights::*;

enum class FusedPart { kQuery, kKey, kValue };

// The rows that one part has in a fused tensor, in the order of its heads: one stretch a block.
std::vector<Rows> fused_rows(const Fused& fused, FusedPart part, Index query_heads, Index kv_heads, Index head_dim) {
  const Index query_rows = query_heads / fused.blocks * head_dim;
  const Index kv_rows = kv_heads / fused.blocks * head_dim;
  const Index block_rows = query_rows + 2 * kv_rows;
  Index begin = 0, count = query_rows;
  if (part != FusedPart::kQuery) {
    begin = query_rows + ((part == FusedPart::kValue) != fused.values_first ? kv_rows : 0);
    count = kv_rows;
  }
  std::vector<Rows> rows;
  for (Index block = 0; block < fused.blocks; ++block) {
    rows.push_back({block * block_rows + begin, block * block_rows + begin + count});
  }
  return rows;
}

// Query, key or value: where it goes, and where it comes from when it has a tensor of its own.
struct Projection {
  FusedPart part;
  Member weight;
  Member bias;
  const Part& own;
};

// Builds a recipe tensor by tensor.
class RecipeMaker {
 public:
  RecipeMaker(const Context& context, const BlockPlan& plan)
      : context_(context), names_(context.naming), fused_(plan.fused), layer_(plan.config) {}

  Recipe make(const std::string& relative_bias) {
    if (layer_.num_heads % fused_.blocks != 0 || layer_.num_kv_heads % fused_.blocks != 0) {
      fail("expected a multiple of ", fused_.blocks, " heads; got ", layer_.num_heads, " and ", layer_.num_kv_heads,
           " key/value heads");
    }
    const Projection projections[] = {
        {FusedPart::kQuery, &LayerWeights::query_weight, &LayerWeights::query_bias, names_.query},
        {FusedPart::kKey, &LayerWeights::key_weight, &LayerWeights::key_bias, names_.key},
        {FusedPart::kValue, &LayerWeights::value_weight, &LayerWeights::value_bias, names_.value},
    };
    for (const Projection& projection : projections) add_weight(projection);
    for (const Projection& projection : projections) add_bias(projection);
    add(&LayerWeights::output_weight, {context_.full_name(names_.output.weight), names_.transposed, {}});
    add_whole(&LayerWeights::output_bias, names_.output.bias, {Dims{layer_.output_dim}});
    add_norm(&LayerWeights::query_norm, names_.query_norm, layer_.num_heads);
    add_norm(&LayerWeights::key_norm, names_.key_norm, layer_.num_kv_heads);
    add_whole(&LayerWeights::sinks, names_.sinks, {Dims{layer_.num_heads}});
    if (!relative_bias.empty()) add(&LayerWeights::relative_bias, {relative_bias, false, {}});
    return std::move(recipe_);
  }

 private:
  void add(Member member, Source source) {
    const SafetensorsEntry* entry = context_.tensors.find(source.tensor);
    if (!entry->dtype || !is_attention_dtype(*entry->dtype)) {
      fail(quote(entry->name), ": expected F32, F16 or BF16; got ", entry->dtype_name);
    }
    recipe_.sources.emplace_back(member, std::move(source));
  }

  // A vector or small matrix under the block's path, if it is there. Its shape must be one of these.
  void add_whole(Member member, const std::string& name, const std::vector<Dims>& shapes, std::vector<Rows> rows = {}) {
    const SafetensorsEntry* entry = context_.find(name);
    if (entry == nullptr) return;
    if (std::find(shapes.begin(), shapes.end(), entry->shape) == shapes.end()) {
      fail(name, ": expected shape ", to_string(shapes.front()), "; got ", to_string(entry->shape));
    }
    add(member, {entry->name, false, std::move(rows)});
  }

  // `measure` has checked the shapes of weights.
  void add_weight(const Projection& projection) {
    if (!projection.own.weight.empty()) {
      add(projection.weight, {context_.full_name(projection.own.weight), names_.transposed, {}});
    } else {
      const Index queries = names_.query.weight.empty() ? layer_.num_heads : 0;
      add(projection.weight, {context_.full_name(names_.fused.weight), names_.transposed, rows_of(projection.part, queries)});
    }
  }

  // Apart from weights: nn.MultiheadAttention has one bias even where its weights are three.
  void add_bias(const Projection& projection) {
    const Index kv_heads = layer_.num_kv_heads;
    if (!projection.own.bias.empty()) {
      const Index rows = projection.part == FusedPart::kQuery ? layer_.num_heads * layer_.head_dim
                         : projection.part == FusedPart::kKey ? kv_heads * layer_.head_dim
                                                              : kv_heads * layer_.value_dim;
      add_whole(projection.bias, projection.own.bias, {Dims{rows}});
    } else {
      const Index queries = names_.query.bias.empty() ? layer_.num_heads : 0;
      const Dims shape{(queries + 2 * kv_heads) * layer_.head_dim};
      add_whole(projection.bias, names_.fused.bias, {shape}, rows_of(projection.part, queries));
    }
  }

  // What a norm spans shows in its shape: one head, all heads in one, or each head for itself.
  void add_norm(Member weight, const Part& names, Index heads) {
    add_whole(weight, names.weight, {Dims{layer_.head_dim}, Dims{heads, layer_.head_dim}, Dims{heads * layer_.head_dim}});
  }

  std::vector<Rows> rows_of(FusedPart part, Index queries) const {
    return fused_rows(fused_, part, queries, layer_.num_kv_heads, layer_.head_dim);
  }

  const Context& context_;
  const Naming& names_;
  const Fused& fused_;
  const LayerConfig& layer_;
  Recipe recipe_;
};

// The rows that a source names, one after another.
Tensor gathered(const ConstTensorView& view, const std::vector<Rows>& rows) {
  if (rows.empty()) return Tensor::copy_of(view);
  Dims shape = view.shape;
  shape[0] = 0;
  for (const Rows& stretch : rows) shape[0] += stretch.end - stretch.begin;
  Tensor result = Tensor::uninitialized(view.dtype, shape);
  auto* out = result.data<unsigned char>();
  for (const Rows& stretch : rows) {
    const Tensor part = Tensor::copy_of(view.slice(0, stretch.begin, stretch.end));
    const std::size_t bytes = static_cast<std::size_t>(part.size()) * size_of(view.dtype);
    std::memcpy(out, part.data<unsigned char>(), bytes);
    out += bytes;
  }
  return result;
}

}  // namespace

bool Recipe::has_bias() const {
  return std::any_of(sources.begin(), sources.end(), [](const auto& source) {
    const Member member = source.first;
    return member == &LayerWeights::query_bias || member == &LayerWeights::key_bias || member == &LayerWeights::value_bias ||
           member == &LayerWeights::output_bias;
  });
}

Recipe make_recipe(const Context& context, const BlockPlan& plan) {
  Recipe recipe = RecipeMaker(context, plan).make(plan.relative_bias);
  recipe.alibi_slopes = plan.alibi_slopes;
  return recipe;
}

LayerWeights read_weights(const Safetensors& tensors, const Recipe& recipe) {
  LayerWeights weights;
  std::string held_name;
  Tensor held;  // parts of a fused tensor follow one another: it is read once
  for (const auto& [member, source] : recipe.sources) {
    if (source.tensor != held_name || held.empty()) {
      held = tensors.read(source.tensor);
      held_name = source.tensor;
    }
    if (source.rows.empty() && !source.transposed) {
      weights.*member = std::move(held);
      held_name.clear();
    } else {
      const ConstTensorView view = held;
      weights.*member = gathered(source.transposed ? view.transposed(0, 1) : view, source.rows);
    }
  }
  if (!recipe.alibi_slopes.empty()) {
    const Dims shape{static_cast<Index>(recipe.alibi_slopes.size())};
    weights.alibi_slopes = Tensor::copy_of(ConstTensorView(recipe.alibi_slopes.data(), shape));
  }
  return weights;
}

}  // namespace multihead::checkpoint
