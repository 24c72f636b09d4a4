// torch.nn.MultiheadAttention, alone or inside Transformer layers: in_proj holds thirds, unless keys or values have a width of
// their own; masks are the caller's, so nothing here is causal. OpenAI's CLIP is built of it, with heads of 64.
#include "checkpoint/measure.h"

namespace multihead::checkpoint {
namespace {

const Part kInProj{"in_proj_weight", "in_proj_bias"};

Naming same_widths(const std::string& block, bool cross, bool causal = false) {
  return {.block = block, .cross = cross, .causal = causal, .fused = kInProj, .output = module("out_proj")};
}

// The bias stays one, in thirds, when the weights are three.
Naming own_widths(const std::string& block) {
  return {.block = block,
          .cross = true,
          .query = {"q_proj_weight"},
          .key = {"k_proj_weight"},
          .value = {"v_proj_weight"},
          .fused = {"", "in_proj_bias"},
          .output = module("out_proj")};
}

BlockPlan configure_torch(const Context& context) {
  BlockPlan plan = measure(context);
  plan.positions = "none (masks are the caller's)";
  return plan;
}

BlockPlan configure_openai_clip(const Context& context) {
  constexpr Index kHeadDim = 64;
  return measure(context, {.told = linear_shape(context, kInProj.weight)[1] / kHeadDim});
}

}  // namespace

std::vector<Family> torch_families() {
  return {
      {"torch", {}, {same_widths("", false), own_widths(""), same_widths("multihead_attn", true)}, configure_torch},
      {"siglip_pooling", {}, {same_widths("vision_model.head.attention", true)}, configure_torch},
      {"clip_openai",
       {},
       {same_widths("transformer.resblocks.#.attn", false, true), same_widths("visual.transformer.resblocks.#.attn", false)},
       configure_openai_clip},
  };
}

}  // namespace multihead::checkpoint
