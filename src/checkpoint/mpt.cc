// MPT and DBRX: thirds or q | k | v, settings in a nested attn_config, values clamped after projection.
#include <cmath>

#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

BlockPlan configure_mpt(const Context& context) {
  const Config attention = context.config.object({"attn_config"});
  if (attention.flag({"rope"}).value_or(false)) fail("config.json: attn_config: rope: expected false");
  BlockPlan plan = measure(context);
  LayerConfig& layer = plan.config;
  if (const auto clip = attention.number({"clip_qkv"})) layer.clip = static_cast<float>(*clip);
  if (const auto scale = attention.number({"softmax_scale"})) layer.scale = static_cast<float>(*scale);
  // Its slopes are the standard ones, to a power when alibi_bias_max is not 8.
  if (attention.flag({"alibi"}).value_or(true)) {
    layer.alibi = true;
    const double power = attention.number({"alibi_bias_max"}).value_or(8) / 8;
    for (const float slope : alibi_slopes(layer.num_heads)) {
      plan.alibi_slopes.push_back(static_cast<float>(std::pow(static_cast<double>(slope), power)));
    }
  }
  return plan;
}

BlockPlan configure_dbrx(const Context& context) {
  const Config attention = context.config.object({"attn_config"});
  BlockPlan plan = measure(context);
  if (const auto clip = attention.number({"clip_qkv"})) plan.config.clip = static_cast<float>(*clip);
  plan.config.rotary = Rotary{};
  plan.config.rotary->theta = attention.number({"rope_theta"}).value_or(10000);
  return plan;
}

}  // namespace

std::vector<Family> mpt_families() {
  const Naming mpt{.block = "blocks.#.attn", .causal = true, .fused = module("Wqkv"), .output = module("out_proj")};
  const Naming dbrx{
      .block = "blocks.#.norm_attn_norm.attn", .causal = true, .fused = module("Wqkv"), .output = module("out_proj")};
  return {{"mpt", {"mpt"}, {mpt}, configure_mpt}, {"dbrx", {"dbrx"}, {dbrx}, configure_dbrx}};
}

}  // namespace multihead::checkpoint
