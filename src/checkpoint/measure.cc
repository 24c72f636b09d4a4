#include "checkpoint/measure.h"

#include <algorithm>

#include "checkpoint/names.h"

namespace multihead::checkpoint {
namespace {

// The tensors that have one row, or one stretch, per query head. `width` is num_heads * head_dim.
std::optional<Index> heads_told_by_tensors(const Context& context, Index width) {
  if (const SafetensorsEntry* sinks = context.find(context.naming.sinks)) {
    if (sinks->shape.rank() == 1) return sinks->shape[0];
  }
  if (const SafetensorsEntry* norm = context.find(context.naming.query_norm.weight)) {
    if (norm->shape.rank() == 2) return norm->shape[0];
    // A norm as wide as all heads together does not tell where one ends.
    const Index span = norm->shape.rank() == 1 ? norm->shape[0] : 0;
    if (span > 0 && span < width && width % span == 0) return width / span;
  }
  return std::nullopt;
}

Index count_heads(const Context& context, Index width, const HeadCount& head_count) {
  Keys keys = head_count.keys;
  for (const char* key : {"num_attention_heads", "n_head", "n_heads", "num_heads", "nhead"}) keys.push_back(key);
  const std::optional<Index> told = head_count.told ? head_count.told : heads_told_by_tensors(context, width);
  const std::optional<Index> configured = context.config.count(keys);
  if (told && configured && *told != *configured) {
    fail("expected ", *told, " heads, as the tensors' shapes tell; got ", *configured, " in config.json");
  }
  const Index heads = told ? *told : configured ? *configured : context.config.need_count(keys);
  if (heads < 1 || width % heads != 0) fail("expected a number of heads that divides ", width, "; got ", heads);
  return heads;
}

// Where config.json says a size that the tensors have told, the two must agree.
void check_against(const Context& context, const Keys& keys, const char* what, Index measured) {
  const std::optional<Index> configured = context.config.count(keys);
  if (configured && *configured != measured) {
    fail("expected ", what, " ", measured, ", as the tensors' shapes tell; got ", *configured, " in config.json");
  }
}

Index divided(Index rows, Index by, const char* what) {
  if (rows % by != 0 || rows == 0) fail("expected ", what, " to be a positive multiple of ", by, "; got ", rows);
  return rows / by;
}

}  // namespace

Dims linear_shape(const Context& context, const std::string& weight) {
  const SafetensorsEntry* entry = context.find(weight);
  if (entry == nullptr) fail("expected a tensor ", weight);
  const Dims& shape = entry->shape;
  if (shape.rank() != 2 || shape[0] == 0 || shape[1] == 0) fail(weight, ": expected a matrix; got ", to_string(shape));
  return context.naming.transposed ? Dims{shape[1], shape[0]} : shape;
}

bool Context::path_has(std::string_view word) const {
  const auto parts = components(block.path);
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

BlockPlan measure(const Context& context, const HeadCount& head_count) {
  const Naming& naming = context.naming;
  const Dims output = linear_shape(context, naming.output.weight);
  const bool query_apart = !naming.query.weight.empty();
  const Dims query = linear_shape(context, query_apart ? naming.query.weight : naming.fused.weight);

  BlockPlan plan;
  plan.cross = naming.cross;
  LayerConfig& config = plan.config;
  config.causal = naming.causal;
  config.model_dim = query[1];
  config.output_dim = output[0];
  // In a fused tensor only the output weight's columns tell how wide all heads are.
  const Index width = query_apart ? query[0] : output[1];
  config.num_heads = count_heads(context, width, head_count);
  config.head_dim = width / config.num_heads;

  if (naming.fused.weight.empty()) {
    const Dims key = linear_shape(context, naming.key.weight);
    const Dims value = linear_shape(context, naming.value.weight);
    config.num_kv_heads = divided(key[0], config.head_dim, "the rows of the key weight");
    config.value_dim = divided(value[0], config.num_kv_heads, "the rows of the value weight");
    config.key_input_dim = key[1];
    config.value_input_dim = value[1];
  } else {
    const Dims fused = linear_shape(context, naming.fused.weight);
    const Index heads = divided(fused[0], config.head_dim, "the rows of the fused weight");
    const Index key_and_value_heads = heads - (query_apart ? 0 : config.num_heads);
    config.num_kv_heads = divided(key_and_value_heads, 2, "the number of key and value heads");
    config.value_dim = config.head_dim;
    config.key_input_dim = config.value_input_dim = fused[1];
  }

  if (config.num_kv_heads < 1 || config.num_heads % config.num_kv_heads != 0) {
    fail("expected a number of key/value heads that divides ", config.num_heads, "; got ", config.num_kv_heads);
  }
  if (output[1] != config.num_heads * config.value_dim) {
    fail(naming.output.weight, ": expected ", config.num_heads * config.value_dim, " inputs; got ", output[1]);
  }
  if (!plan.cross && (config.key_input_dim != config.model_dim || config.value_input_dim != config.model_dim)) {
    fail("expected query, key and value weights of a self attention to have as many inputs; got ", config.model_dim, ", ",
         config.key_input_dim, ", ", config.value_input_dim);
  }
  check_against(context, {"head_dim", "d_kv"}, "head_dim", config.head_dim);
  check_against(context, {"num_key_value_heads", "n_kv_heads"}, "num_key_value_heads", config.num_kv_heads);
  return plan;
}

}  // namespace multihead::checkpoint
