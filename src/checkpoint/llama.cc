// Decoders with the tensor names of Llama (config.json's model_type tells them apart), and those that differ from it by names
// or by a fused projection only: rotary positions, grouped heads, causal.
#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

BlockPlan rotary_plan(const Context& context, const RotaryDefaults& defaults = {}) {
  BlockPlan plan = measure(context);
  plan.config.rotary = rotary_from(context, plan.config.head_dim, defaults);
  return plan;
}

BlockPlan configure_llama(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  if (const auto clip = context.config.number({"clip_qkv"})) plan.config.clip = static_cast<float>(*clip);
  return plan;
}

BlockPlan configure_mistral(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  if (slides(context, true)) plan.config.window = sliding_window(context, 4096);
  return plan;
}

// As Mistral, in classes that do not slide unless they are told to.
BlockPlan configure_optional_window(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  if (slides(context, true)) plan.config.window = sliding_window(context);
  return plan;
}

// The lowest max_window_layers layers never slide.
BlockPlan configure_qwen2(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  const Index full_layers = context.config.count({"max_window_layers"}, 0).value_or(28);
  const bool used = context.config.flag({"use_sliding_window"}).value_or(false);
  if (used && slides(context, context.block.depth >= full_layers)) plan.config.window = sliding_window(context, 4096);
  return plan;
}

void add_norm(const Context& context, BlockPlan& plan, QueryKeyNorm::Kind kind, const char* key, double default_epsilon) {
  plan.config.query_key_norm = QueryKeyNorm{.kind = kind, .epsilon = context.config.number({key}).value_or(default_epsilon)};
}

BlockPlan configure_qwen3(const Context& context) {
  BlockPlan plan = configure_qwen2(context);
  add_norm(context, plan, QueryKeyNorm::Kind::kRms, "rms_norm_eps", 1e-6);
  return plan;
}

BlockPlan configure_olmo2(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  add_norm(context, plan, QueryKeyNorm::Kind::kRms, "rms_norm_eps", 1e-5);
  return plan;
}

BlockPlan configure_cohere(const Context& context) {
  BlockPlan plan = rotary_plan(context, {.pairing = RotaryPairing::kInterleaved});
  const bool normed = !context.naming.query_norm.weight.empty();
  if (normed) add_norm(context, plan, QueryKeyNorm::Kind::kLayer, "layer_norm_eps", 1e-5);
  return plan;
}

BlockPlan configure_glm(const Context& context) {
  return rotary_plan(context, {.pairing = RotaryPairing::kInterleaved, .partial = 0.5});
}

BlockPlan configure_granite(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  plan.config.scale = static_cast<float>(context.config.number({"attention_multiplier"}).value_or(1));
  return plan;
}

BlockPlan configure_stablelm(const Context& context) { return rotary_plan(context, {.partial = 0.25}); }

BlockPlan configure_phi(const Context& context) { return rotary_plan(context, {.partial = 0.5}); }

BlockPlan configure_internlm2(const Context& context) {
  BlockPlan plan = rotary_plan(context);
  plan.fused.blocks = plan.config.num_kv_heads;
  return plan;
}

// params.json says that frequencies are scaled, but not how.
BlockPlan configure_meta(const Context& context) {
  if (context.config.flag({"use_scaled_rope"}).value_or(false)) fail("params.json: use_scaled_rope: expected false; got true");
  BlockPlan plan = rotary_plan(context, {.pairing = RotaryPairing::kInterleaved});
  plan.config.window = sliding_window(context);
  return plan;
}

}  // namespace

Naming llama_naming() {
  return {.block = "layers.#.self_attn",
          .causal = true,
          .query = module("q_proj"),
          .key = module("k_proj"),
          .value = module("v_proj"),
          .output = module("o_proj"),
          .others = {"rotary_emb.inv_freq"}};
}

Naming with_norms(Naming naming) {
  naming.query_norm = {"q_norm.weight"};
  naming.key_norm = {"k_norm.weight"};
  return naming;
}

std::vector<Family> llama_families() {
  const Naming plain = llama_naming();
  const Naming normed = with_norms(plain);
  Naming dense = plain;
  dense.output = module("dense");
  const Naming phi3{.block = "layers.#.self_attn", .causal = true, .fused = module("qkv_proj"), .output = module("o_proj")};
  const Naming internlm2{.block = "layers.#.attention", .causal = true, .fused = module("wqkv"), .output = module("wo")};
  const Naming meta{.block = "layers.#.attention",
                    .causal = true,
                    .query = {"wq.weight"},
                    .key = {"wk.weight"},
                    .value = {"wv.weight"},
                    .output = {"wo.weight"}};
  return {
      {"llama", {"llama", "olmo"}, {plain}, configure_llama},
      {"mistral", {"mistral"}, {plain}, configure_mistral},
      {"mixtral", {"mixtral"}, {plain}, configure_optional_window},
      {"starcoder2", {"starcoder2"}, {plain}, configure_optional_window},
      {"qwen2", {"qwen2", "qwen2_moe"}, {plain}, configure_qwen2},
      {"qwen3", {"qwen3", "qwen3_moe"}, {normed}, configure_qwen3},
      {"olmo2", {"olmo2"}, {normed}, configure_olmo2},
      {"cohere", {"cohere"}, {plain, normed}, configure_cohere},
      {"glm", {"glm", "glm4"}, {plain}, configure_glm},
      {"granite", {"granite", "granitemoe"}, {plain}, configure_granite},
      {"stablelm", {"stablelm"}, {plain}, configure_stablelm},
      {"phi", {"phi"}, {dense}, configure_phi},
      {"phi3", {"phi3"}, {phi3}, configure_optional_window},
      {"internlm2", {"internlm2"}, {internlm2}, configure_internlm2},
      {"llama_meta", {}, {meta}, configure_meta},
  };
}

}  // namespace multihead::checkpoint
