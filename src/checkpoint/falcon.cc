// Falcon and BLOOM: one fused tensor in groups. Falcon's three layouts are this one: 40B has groups of several queries, 7B one
// group, and the "rw" models, like BLOOM, a group a head. Which it is follows from the shapes, without config.json's flags.
#include <cmath>

#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

BlockPlan configure_bloom(const Context& context) {
  BlockPlan plan = measure(context);
  plan.fused.blocks = plan.config.num_kv_heads;
  plan.config.alibi = true;
  return plan;
}

BlockPlan configure_falcon(const Context& context) {
  BlockPlan plan = measure(context);
  plan.fused.blocks = plan.config.num_kv_heads;
  if (!context.config.flag({"alibi"}).value_or(false)) {
    plan.config.rotary = rotary_from(context, plan.config.head_dim);
    return plan;
  }
  // The slopes are rounded to bf16, and the bias is scaled together with the dot product.
  plan.config.alibi = true;
  const float scale = 1.0F / std::sqrt(static_cast<float>(plan.config.head_dim));
  for (const float slope : alibi_slopes(plan.config.num_heads)) {
    plan.alibi_slopes.push_back(static_cast<float>(BFloat16(slope)) * scale);
  }
  return plan;
}

}  // namespace

std::vector<Family> falcon_families() {
  const Naming naming{.block = "h.#.self_attention",
                      .causal = true,
                      .fused = module("query_key_value"),
                      .output = module("dense"),
                      .others = {"rotary_emb.inv_freq", "maybe_rotary.inv_freq"}};
  return {
      {"bloom", {"bloom"}, {naming}, configure_bloom},
      {"falcon", {"falcon", "RefinedWeb", "RefinedWebModel"}, {naming}, configure_falcon},
  };
}

}  // namespace multihead::checkpoint
