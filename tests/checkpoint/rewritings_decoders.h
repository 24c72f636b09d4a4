// The decoder rows of the table of rewrite_test: names, layout, config.json, and what a family adds.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/rewriter.h"

namespace multihead::testing {

inline constexpr auto kHalfSplit = RotaryPairing::kHalfSplit;
inline constexpr auto kInterleaved = RotaryPairing::kInterleaved;

inline const std::vector<std::string> kLlamaNames = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"};
inline const char* const kLlamaBlock = "model.layers.{}.self_attn";

inline std::string llama_config(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type + R"(", "num_attention_heads": $H, "num_key_value_heads": $G, "head_dim": $D)" + more +
         "}";
}

inline Rewriting llama_like(const std::string& family, const std::string& more_config = "") {
  return {.label = family,
          .family = family,
          .config = llama_config(family, more_config),
          .block = kLlamaBlock,
          .names = kLlamaNames,
          .rotary = kHalfSplit};
}

/// Norms of query and key with weights of this kind of shape: 'd' shared by heads, 'h' each head its own, 'w' the whole width.
inline void add_norms(const Draft& draft, char span, QueryKeyNorm norm) {
  const auto shape = [&](Index heads) {
    const Index size = draft.config.head_dim;
    return span == 'd' ? Dims{size} : span == 'h' ? Dims{heads, size} : Dims{heads * size};
  };
  const auto seed = static_cast<unsigned>(50 + draft.layer);
  draft.weights.query_norm = random_tensor(shape(draft.config.num_heads), seed);
  draft.weights.key_norm = random_tensor(shape(draft.config.num_kv_heads), seed + 100);
  draft.config.query_key_norm = norm;
  draft.add("q_norm.weight", draft.weights.query_norm);
  draft.add("k_norm.weight", draft.weights.key_norm);
}

inline void add_sinks_and_yarn(const Draft& draft) {
  draft.weights.sinks = random_tensor({draft.config.num_heads}, static_cast<unsigned>(70 + draft.layer));
  draft.add("sinks", draft.weights.sinks);
  draft.config.rotary->theta = 150000;
  draft.config.rotary->scaling =
      YarnRotaryScaling{.factor = 32, .original_max_positions = 4096, .truncate = false, .attention_factor = {}};
  if (draft.layer % 2 == 0) draft.config.window = last_keys(9);
}

/// Falcon's slopes are rounded to bf16 and scaled with the dot products.
inline void add_falcon_slopes(const Draft& draft) {
  draft.config.alibi = true;
  draft.weights.alibi_slopes = Tensor(DType::kF32, {draft.config.num_heads});
  const std::vector<float> slopes = alibi_slopes(draft.config.num_heads);
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    draft.weights.alibi_slopes.data<float>()[h] =
        static_cast<float>(BFloat16(slopes[h])) / std::sqrt(static_cast<float>(draft.config.head_dim));
  }
}

inline void add_llama_names(std::vector<Rewriting>& table) {
  table.push_back(llama_like("llama"));
  table.push_back(llama_like("llama"));
  table.back().label = "llama_in_multimodal";
  table.back().block = "language_model.model.layers.{}.self_attn";
  table.back().config = R"({"model_type": "llava", "text_config": )" + llama_config("llama") + "}";
  table.push_back(llama_like("llama"));
  table.back().label = "llama_without_prefix";
  table.back().block = "layers.{}.self_attn";
  table.back().biases = "qkvo";
}

inline void add_window_decoders(std::vector<Rewriting>& table) {
  table.push_back(llama_like("mistral", R"(, "sliding_window": null)"));
  table.push_back(llama_like("mistral", R"(, "sliding_window": 5)"));
  table.back().label = "mistral_window";
  table.back().extra = [](const Draft& draft) { draft.config.window = last_keys(5); };
  table.push_back(llama_like("mixtral"));
  table.push_back(llama_like("starcoder2", R"(, "sliding_window": 7)"));
  table.back().biases = "qkvo";
  table.back().extra = [](const Draft& draft) { draft.config.window = last_keys(7); };
  table.push_back(llama_like("qwen2", R"(, "use_sliding_window": false, "sliding_window": 3)"));
  table.back().biases = "qkv";
  table.push_back(llama_like("qwen3", R"(, "rms_norm_eps": 1e-5)"));
  table.back().extra = [](const Draft& draft) { add_norms(draft, 'd', {.epsilon = 1e-5}); };
  table.push_back(llama_like("olmo2", R"(, "rms_norm_eps": 1e-4)"));
  table.back().extra = [](const Draft& draft) { add_norms(draft, 'w', {.epsilon = 1e-4}); };
}

inline void add_interleaved_and_renamed_decoders(std::vector<Rewriting>& table) {
  table.push_back(llama_like("cohere"));
  table.back().rotary = kInterleaved;
  table.push_back(llama_like("cohere", R"(, "layer_norm_eps": 1e-3)"));
  table.back().label = "cohere_norm";  // weights of the file are not turned: half-split would differ under the norm
  table.back().extra = [](const Draft& draft) {
    add_norms(draft, 'h', {.kind = QueryKeyNorm::Kind::kLayer, .epsilon = 1e-3});
    draft.config.rotary->pairing = kInterleaved;
  };
  table.push_back(llama_like("glm", R"(, "partial_rotary_factor": 1)"));
  table.back().rotary = kInterleaved;
  table.back().biases = "qkv";
  table.push_back(llama_like("granite", R"(, "attention_multiplier": 0.125)"));
  table.back().extra = [](const Draft& draft) { draft.config.scale = 0.125F; };
  table.push_back(llama_like("stablelm", R"(, "partial_rotary_factor": 1.0)"));
  table.push_back(llama_like("phi", R"(, "partial_rotary_factor": 1.0)"));
  table.back().names[3] = "dense.weight";
  table.back().biases = "qkvo";
  table.push_back(llama_like("phi3", R"(, "sliding_window": 131072)"));
  table.back().names = {"qkv_proj.weight", "o_proj.weight"};
  table.back().layout = Layout::kQueriesKeysValues;
  table.back().extra = [](const Draft& draft) { draft.config.window = last_keys(131072); };
  table.push_back(table.back());
  table.back().label = "phi3_no_window";
  table.back().config = llama_config("phi3", R"(, "sliding_window": null)");
  table.back().extra = {};
  table.push_back({.label = "internlm2",
                   .family = "internlm2",
                   .config = llama_config("internlm2"),
                   .block = "model.layers.{}.attention",
                   .names = {"wqkv.weight", "wo.weight"},
                   .layout = Layout::kGroups,
                   .rotary = kHalfSplit});
  table.push_back({.label = "llama_meta",
                   .family = "llama_meta",
                   .config = R"({"dim": $E, "n_heads": $H, "n_kv_heads": $G})",
                   .block = "layers.{}.attention",
                   .names = {"wq.weight", "wk.weight", "wv.weight", "wo.weight"},
                   .rotary = kInterleaved});
}

inline void add_gemma_and_gpt_oss(std::vector<Rewriting>& table) {
  table.push_back(llama_like("gemma"));
  table.push_back(llama_like("gemma2", R"(, "query_pre_attn_scalar": 25, "attn_logit_softcapping": 2.5, "sliding_window": 6)"));
  table.back().extra = [](const Draft& draft) {
    draft.config.scale = 0.2F;
    draft.config.softcap = 2.5F;
    if (draft.layer % 2 == 0) draft.config.window = last_keys(6);
  };
  table.push_back(llama_like("gemma3", R"(, "query_pre_attn_scalar": 16, "sliding_window": 6, "sliding_window_pattern": 2,
      "rope_theta": 30000, "rope_local_base_freq": 500, "rope_scaling": {"rope_type": "linear", "factor": 8})"));
  table.back().extra = [](const Draft& draft) {
    draft.config.scale = 0.25F;
    add_norms(draft, 'd', {.epsilon = 1e-6, .weight_plus_one = true});
    if (draft.layer % 2 == 0) {
      draft.config.window = last_keys(6);
      draft.config.rotary->theta = 500;
    } else {
      draft.config.rotary->theta = 30000;
      draft.config.rotary->scaling = LinearRotaryScaling{8};
    }
  };
  table.push_back(llama_like("gpt_oss", R"(, "sliding_window": 9, "rope_scaling": {"rope_type": "yarn", "factor": 32.0,
      "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false})"));
  table.back().biases = "qkvo";
  table.back().extra = add_sinks_and_yarn;
}

inline void add_gpts(std::vector<Rewriting>& table) {
  const Rewriting gpt2{.label = "gpt2",
                       .family = "gpt2",
                       .config = R"({"model_type": "gpt2", "n_head": $H, "n_embd": $E})",
                       .block = "h.{}.attn",
                       .names = {"c_attn.weight", "c_proj.weight"},
                       .layout = Layout::kThirds,
                       .transposed = true,
                       .heads = Heads::kExpanded,
                       .biases = "qkvo"};
  table.push_back(gpt2);
  table.push_back(gpt2);
  table.back().label = "gpt2_with_prefix_and_mask_buffers";
  table.back().block = "transformer.h.{}.attn";
  table.back().extra = [](const Draft& draft) {
    draft.add("bias", random_tensor({1, 1, 16, 16}, 1));
    draft.add("masked_bias", random_tensor({}, 1));
  };
  table.push_back({.label = "bigcode_multi_query",
                   .family = "gpt_bigcode",
                   .config = R"({"model_type": "gpt_bigcode", "n_head": $H, "multi_query": true})",
                   .block = "transformer.h.{}.attn",
                   .names = {"c_attn.weight", "c_proj.weight"},
                   .layout = Layout::kQueriesKeysValues,
                   .heads = Heads::kSingle,
                   .biases = "qkvo"});
  table.push_back(table.back());
  table.back().label = "bigcode_multi_head";
  table.back().layout = Layout::kTriplePerHead;
  table.back().heads = Heads::kExpanded;
  table.push_back(
      {.label = "gpt_neox",
       .family = "gpt_neox",
       .config = R"({"model_type": "gpt_neox", "num_attention_heads": $H, "rotary_pct": 1.0, "rotary_emb_base": 10000})",
       .block = "gpt_neox.layers.{}.attention",
       .names = {"query_key_value.weight", "dense.weight"},
       .layout = Layout::kTriplePerHead,
       .heads = Heads::kExpanded,
       .rotary = kHalfSplit,
       .biases = "qkvo"});
  table.push_back({.label = "gptj",
                   .family = "gptj",
                   .config = R"({"model_type": "gptj", "n_head": $H, "rotary_dim": $D})",
                   .block = "transformer.h.{}.attn",
                   .names = kOutProjNames,
                   .heads = Heads::kExpanded,
                   .rotary = kInterleaved});
  table.push_back({.label = "codegen",
                   .family = "codegen",
                   .config = R"({"model_type": "codegen", "n_head": $H, "rotary_dim": null})",
                   .block = "transformer.h.{}.attn",
                   .names = {"qkv_proj.weight", "out_proj.weight"},
                   .layout = Layout::kFourShards,
                   .heads = Heads::kExpanded,
                   .rotary = kInterleaved});
}

inline void add_alibi_decoders(std::vector<Rewriting>& table) {
  table.push_back({.label = "bloom",
                   .family = "bloom",
                   .config = R"({"model_type": "bloom", "n_head": $H})",
                   .block = "h.{}.self_attention",
                   .names = {"query_key_value.weight", "dense.weight"},
                   .layout = Layout::kTriplePerHead,
                   .heads = Heads::kExpanded,
                   .biases = "qkvo",
                   .extra = [](const Draft& draft) { draft.config.alibi = true; }});
  const Rewriting falcon{.label = "falcon_new_decoder",
                         .family = "falcon",
                         .config = R"({"model_type": "falcon", "num_attention_heads": $H, "num_kv_heads": $G,
                                       "new_decoder_architecture": true})",
                         .block = "transformer.h.{}.self_attention",
                         .names = {"query_key_value.weight", "dense.weight"},
                         .layout = Layout::kGroups,
                         .rotary = kHalfSplit,
                         .biases = "qkvo"};
  table.push_back(falcon);
  table.push_back(falcon);
  table.back().label = "falcon_multi_query";
  table.back().config = R"({"model_type": "falcon", "num_attention_heads": $H, "multi_query": true})";
  table.back().layout = Layout::kQueriesKeysValues;
  table.back().heads = Heads::kSingle;
  table.push_back(falcon);
  table.back().label = "falcon_per_head";
  table.back().config = R"({"model_type": "falcon", "num_attention_heads": $H, "multi_query": false})";
  table.back().layout = Layout::kTriplePerHead;
  table.back().heads = Heads::kExpanded;
  table.push_back(table.back());
  table.back().label = "falcon_alibi";
  table.back().config = R"({"model_type": "falcon", "n_head": $H, "multi_query": false, "alibi": true})";
  table.back().rotary = {};
  table.back().extra = add_falcon_slopes;
  table.push_back({.label = "mpt",
                   .family = "mpt",
                   .config = R"({"model_type": "mpt", "n_heads": $H,
                                 "attn_config": {"alibi": true, "clip_qkv": 0.75, "softmax_scale": 0.3}})",
                   .block = "transformer.blocks.{}.attn",
                   .names = {"Wqkv.weight", "out_proj.weight"},
                   .layout = Layout::kThirds,
                   .heads = Heads::kExpanded,
                   .extra = [](const Draft& draft) {
                     draft.config.alibi = true;
                     draft.config.clip = 0.75F;
                     draft.config.scale = 0.3F;
                   }});
  table.push_back({.label = "dbrx",
                   .family = "dbrx",
                   .config = R"({"model_type": "dbrx", "n_heads": $H, "attn_config": {"kv_n_heads": $G, "rope_theta": 10000}})",
                   .block = "transformer.blocks.{}.norm_attn_norm.attn",
                   .names = {"Wqkv.weight", "out_proj.weight"},
                   .layout = Layout::kQueriesKeysValues,
                   .rotary = kHalfSplit});
  table.push_back({.label = "opt",
                   .family = "opt",
                   .config = R"({"model_type": "opt", "num_attention_heads": $H})",
                   .block = "model.decoder.layers.{}.self_attn",
                   .names = kOutProjNames,
                   .heads = Heads::kExpanded,
                   .biases = "qkvo"});
}

inline void add_decoders(std::vector<Rewriting>& table) {
  add_llama_names(table);
  add_window_decoders(table);
  add_interleaved_and_renamed_decoders(table);
  add_gemma_and_gpt_oss(table);
  add_gpts(table);
  add_alibi_decoders(table);
}

}  // namespace multihead::testing
