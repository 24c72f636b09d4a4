// Image encoders, and the text encoders trained with them.
#include "checkpoint/measure.h"

namespace multihead::checkpoint {
namespace {

Naming clip_naming(const std::string& block, bool causal) {
  return {.block = block,
          .causal = causal,
          .query = module("q_proj"),
          .key = module("k_proj"),
          .value = module("v_proj"),
          .output = module("out_proj")};
}

BlockPlan configure_plain(const Context& context) { return measure(context); }

// SigLIP has CLIP's names, but reads its texts in both directions.
BlockPlan configure_siglip(const Context& context) {
  BlockPlan plan = measure(context);
  plan.config.causal = false;
  return plan;
}

}  // namespace

std::vector<Family> vision_families() {
  const Naming vit{.block = "layer.#.attention",
                   .query = module("attention.query"),
                   .key = module("attention.key"),
                   .value = module("attention.value"),
                   .output = module("output.dense")};
  const Naming timm{.block = "blocks.#.attn", .fused = module("qkv"), .output = module("proj")};
  const std::vector<Naming> clip = {clip_naming("text_model.encoder.layers.#.self_attn", true),
                                    clip_naming("vision_model.encoder.layers.#.self_attn", false)};
  return {
      {"vit", {"vit", "deit", "vit_mae", "vit_msn", "dinov2", "dinov2_with_registers"}, {vit}, configure_plain},
      {"timm_vit", {}, {timm}, configure_plain},
      {"clip", {"clip", "clip_text_model", "clip_vision_model"}, clip, configure_plain},
      {"siglip", {"siglip", "siglip_text_model", "siglip_vision_model"}, clip, configure_siglip},
  };
}

}  // namespace multihead::checkpoint
