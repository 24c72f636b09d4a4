// Decoders of the GPT lineage without ALiBi: GPT-2 (weights [in, out]), GPTBigCode, GPT-NeoX, GPT-J and CodeGen.
#include <cmath>

#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

// Old files hold the causal mask as a buffer called `bias`, of rank 4.
const std::vector<std::string> kMaskBuffers = {"bias", "masked_bias", "causal_mask"};

BlockPlan configure_gpt2(const Context& context) {
  BlockPlan plan = measure(context);
  double scale = 1;
  if (context.config.flag({"scale_attn_weights"}).value_or(true)) scale /= std::sqrt(static_cast<double>(plan.config.head_dim));
  if (context.config.flag({"scale_attn_by_inverse_layer_idx"}).value_or(false)) {
    scale /= static_cast<double>(context.block.depth + 1);
  }
  plan.config.scale = static_cast<float>(scale);
  return plan;
}

// With one kv head (multi_query) q | k | v, without a triple a head: groups either way.
BlockPlan configure_bigcode(const Context& context) {
  BlockPlan plan = configure_gpt2(context);
  plan.fused.blocks = plan.config.num_kv_heads;
  return plan;
}

BlockPlan configure_neox(const Context& context) {
  BlockPlan plan = measure(context);
  plan.fused.blocks = plan.config.num_kv_heads;
  plan.config.rotary = rotary_from(context, plan.config.head_dim, {.partial = 0.25});
  return plan;
}

BlockPlan configure_gptj(const Context& context) {
  BlockPlan plan = measure(context);
  if (!context.config.has("rotary_dim")) fail("config.json: expected the key rotary_dim, a number or null");
  plan.config.rotary = rotary_from(context, plan.config.head_dim, {.pairing = RotaryPairing::kInterleaved});
  return plan;
}

// Its training ran on 4 devices, each with its own q | v | k.
BlockPlan configure_codegen(const Context& context) {
  BlockPlan plan = configure_gptj(context);
  plan.fused = {.blocks = 4, .values_first = true};
  return plan;
}

}  // namespace

std::vector<Family> gpt_families() {
  const Naming gpt2{.block = "h.#.attn",
                    .causal = true,
                    .transposed = true,
                    .fused = module("c_attn"),
                    .output = module("c_proj"),
                    .others = kMaskBuffers};
  Naming gpt2_cross = gpt2;
  gpt2_cross.block = "h.#.crossattention";
  gpt2_cross.cross = true;
  gpt2_cross.causal = false;
  gpt2_cross.query = module("q_attn");
  Naming bigcode = gpt2;
  bigcode.transposed = false;
  const Naming neox{.block = "layers.#.attention",
                    .causal = true,
                    .fused = module("query_key_value"),
                    .output = module("dense"),
                    .others = {"bias", "masked_bias", "rotary_emb.inv_freq"}};
  const Naming gptj{.block = "h.#.attn",
                    .causal = true,
                    .query = module("q_proj"),
                    .key = module("k_proj"),
                    .value = module("v_proj"),
                    .output = module("out_proj"),
                    .others = kMaskBuffers};
  const Naming codegen{
      .block = "h.#.attn", .causal = true, .fused = module("qkv_proj"), .output = module("out_proj"), .others = kMaskBuffers};
  return {
      {"gpt2", {"gpt2", "openai-gpt"}, {gpt2, gpt2_cross}, configure_gpt2},
      {"gpt_bigcode", {"gpt_bigcode"}, {bigcode}, configure_bigcode},
      {"gpt_neox", {"gpt_neox"}, {neox}, configure_neox},
      {"gptj", {"gptj"}, {gptj}, configure_gptj},
      {"codegen", {"codegen"}, {codegen}, configure_codegen},
  };
}

}  // namespace multihead::checkpoint
