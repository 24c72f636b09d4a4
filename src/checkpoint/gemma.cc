// Gemma 1, 2 and 3: Llama's names, with a scale, caps, windows and norms of their own.
#include <cmath>

#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

BlockPlan configure_gemma(const Context& context) {
  BlockPlan plan = measure(context);
  plan.config.rotary = rotary_from(context, plan.config.head_dim);
  return plan;
}

// 1 / sqrt(query_pre_attn_scalar), whatever head_dim is; a cap whose absence from config.json means the class default and whose
// null means none.
void add_scale_and_cap(const Config& config, std::optional<float> default_cap, LayerConfig& layer) {
  layer.scale = static_cast<float>(1 / std::sqrt(config.number({"query_pre_attn_scalar"}).value_or(256)));
  if (!config.has("attn_logit_softcapping")) layer.softcap = default_cap;
  if (const auto cap = config.number({"attn_logit_softcapping"})) layer.softcap = static_cast<float>(*cap);
}

BlockPlan configure_gemma2(const Context& context) {
  BlockPlan plan = configure_gemma(context);
  add_scale_and_cap(context.config, 50.0F, plan.config);
  if (slides(context, context.block.depth % 2 == 0)) plan.config.window = sliding_window(context, 4096);
  return plan;
}

// Layers that slide rotate by an unscaled base of their own. Query and key norms are 1 + weight.
BlockPlan configure_gemma3(const Context& context) {
  const Config& config = context.config;
  if (config.flag({"use_bidirectional_attention"}).value_or(false)) {
    fail("config.json: use_bidirectional_attention: expected false; got true");
  }
  BlockPlan plan = measure(context);
  LayerConfig& layer = plan.config;
  add_scale_and_cap(config, std::nullopt, layer);
  const Index pattern = config.count({"sliding_window_pattern"}).value_or(6);
  if (slides(context, (context.block.depth + 1) % pattern != 0)) {
    layer.window = sliding_window(context, 4096);
    layer.rotary = rotary_from(context, layer.head_dim, {.local = true});
  } else {
    layer.rotary = rotary_from(context, layer.head_dim, {.theta = 1e6});
  }
  layer.query_key_norm = QueryKeyNorm{.epsilon = config.number({"rms_norm_eps"}).value_or(1e-6), .weight_plus_one = true};
  return plan;
}

}  // namespace

std::vector<Family> gemma_families() {
  const Naming plain = llama_naming();
  return {
      {"gemma", {"gemma"}, {plain}, configure_gemma},
      {"gemma2", {"gemma2"}, {plain}, configure_gemma2},
      {"gemma3", {"gemma3", "gemma3_text"}, {with_norms(plain)}, configure_gemma3},
  };
}

}  // namespace multihead::checkpoint
