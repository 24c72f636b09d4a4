// The transformer blocks of diffusers' UNets: attn1 looks at the image itself, attn2 at the text.
#include "checkpoint/measure.h"
#include "checkpoint/names.h"

namespace multihead::checkpoint {
namespace {

Naming diffusers_naming(const std::string& block, bool cross) {
  return {.block = block,
          .cross = cross,
          .query = module("to_q"),
          .key = module("to_k"),
          .value = module("to_v"),
          .output = module("to_out.0")};
}

// One value a level of the UNet, outermost first: which one a block has is in its path.
Index at_level(const Context& context, const char* key) {
  const std::vector<Index> values = context.config.counts(key);
  const auto levels = static_cast<Index>(values.size());
  const auto path = components(context.block.path);
  Index level = levels - 1;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (path[i] == "down_blocks") level = number_of(path[i + 1]).value_or(0);
    if (path[i] == "up_blocks") level = levels - 1 - number_of(path[i + 1]).value_or(0);
  }
  if (level < 0 || level >= levels) fail("config.json: ", key, ": expected a value for each level; got ", levels, " values");
  return values[static_cast<std::size_t>(level)];
}

// attention_head_dim is, against its name, the number of heads: one for all (Stable Diffusion 1) or one a level (2, XL).
Index unet_heads(const Context& context) {
  const Config& config = context.config;
  if (const auto heads = config.count({"num_attention_heads"})) return *heads;
  if (config.is_list("attention_head_dim")) return at_level(context, "attention_head_dim");
  return config.need_count({"num_attention_heads", "attention_head_dim"});
}

BlockPlan configure_unet(const Context& context) {
  BlockPlan plan = measure(context, {.told = unet_heads(context)});
  plan.positions = "none";
  return plan;
}

}  // namespace

std::vector<Family> diffusion_families() {
  return {{"diffusers_unet",
           {"UNet2DConditionModel"},
           {diffusers_naming("transformer_blocks.#.attn1", false), diffusers_naming("transformer_blocks.#.attn2", true)},
           configure_unet}};
}

}  // namespace multihead::checkpoint
