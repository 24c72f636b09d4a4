// The encoder and encoder-decoder rows of the table of rewrite_test.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/rewriter.h"

namespace multihead::testing {

/// T5 has one table a stack, in its first block.
inline void add_relative_bias(const Draft& draft, bool bidirectional) {
  draft.config.scale = 1.0F;
  draft.config.relative_bias = RelativeBias{.max_distance = 100, .bidirectional = bidirectional};
  draft.weights.relative_bias = random_tensor({32, draft.config.num_heads}, 80);
  if (draft.layer == 0) draft.add("relative_attention_bias.weight", draft.weights.relative_bias);
}

inline void add_t5_cross(const Draft& draft) {
  draft.config.scale = 1.0F;
  if (draft.layer > 0) return;
  draft.tensors.emplace_back("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                             random_tensor({32, draft.config.num_heads}, 81));
}

/// The one bias of nn.MultiheadAttention, in thirds, beside three weights.
inline void add_in_proj_bias(const Draft& draft) {
  const Index width = draft.config.num_heads * draft.config.head_dim;
  const Tensor bias = random_tensor({3 * width}, 90);
  draft.add("in_proj_bias", bias);
  const auto third = [&](Index n) { return Tensor::copy_of(bias.view().slice(0, n * width, (n + 1) * width)); };
  draft.weights.query_bias = third(0);
  draft.weights.key_bias = third(1);
  draft.weights.value_bias = third(2);
}

/// Keys and values from a memory of another width.
inline void replace_memory_width(const Draft& draft, const std::vector<std::string>& names, Index width) {
  draft.config.key_input_dim = draft.config.value_input_dim = width;
  const Index rows = draft.config.num_kv_heads * draft.config.head_dim;
  draft.weights.key_weight = random_tensor({rows, width}, 91, 0.3);
  draft.weights.value_weight = random_tensor({rows, width}, 92, 0.3);
  for (auto& [name, tensor] : draft.tensors) {
    if (name == draft.block + "." + names[1]) tensor = draft.weights.key_weight.copy();
    if (name == draft.block + "." + names[2]) tensor = draft.weights.value_weight.copy();
  }
}

/// Encoder, decoder and cross attention of one encoder-decoder family; `blocks` in this order.
inline void add_stacks(std::vector<Rewriting>& table, Rewriting base, const std::vector<std::string>& blocks) {
  const std::string label = base.label;
  base.heads = Heads::kExpanded;
  const char* const roles[] = {"_encoder", "_decoder", "_cross"};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    base.label = label + roles[i];
    base.block = blocks[i];
    base.causal = i == 1;
    base.cross = i == 2;
    table.push_back(base);
  }
}

inline void add_encoder_decoders(std::vector<Rewriting>& table) {
  const std::vector<std::string> layers = {"model.encoder.layers.{}.self_attn", "model.decoder.layers.{}.self_attn",
                                           "model.decoder.layers.{}.encoder_attn"};
  const std::string stack_heads = R"(, "encoder_attention_heads": $H, "decoder_attention_heads": $H})";
  add_stacks(table,
             {.label = "bart",
              .family = "bart",
              .config = R"({"model_type": "bart")" + stack_heads,
              .names = kOutProjNames,
              .biases = "qkvo"},
             layers);
  add_stacks(table,
             {.label = "whisper",
              .family = "whisper",
              .config = R"({"model_type": "whisper")" + stack_heads,
              .names = kOutProjNames,
              .biases = "qvo"},
             layers);
  add_stacks(table,
             {.label = "whisper_openai",
              .family = "whisper_openai",
              .config = R"({"n_audio_head": $H, "n_text_head": $H})",
              .names = {"query.weight", "key.weight", "value.weight", "out.weight"},
              .biases = "qvo"},
             {"encoder.blocks.{}.attn", "decoder.blocks.{}.attn", "decoder.blocks.{}.cross_attn"});
  const std::size_t t5 = table.size();
  add_stacks(table,
             {.label = "t5",
              .family = "t5",
              .config = R"({"model_type": "t5", "num_heads": $H, "d_kv": $D, "relative_attention_max_distance": 100})",
              .names = {"q.weight", "k.weight", "v.weight", "o.weight"}},
             {"encoder.block.{}.layer.0.SelfAttention", "decoder.block.{}.layer.0.SelfAttention",
              "decoder.block.{}.layer.1.EncDecAttention"});
  table[t5].extra = [](const Draft& draft) { add_relative_bias(draft, true); };
  table[t5 + 1].extra = [](const Draft& draft) { add_relative_bias(draft, false); };
  table[t5 + 2].extra = add_t5_cross;
}

inline Rewriting encoder(const std::string& label, const std::string& family, const std::string& block,
                         const std::vector<std::string>& names) {
  return {.label = label,
          .family = family,
          .config = R"({"num_attention_heads": $H, "num_hidden_layers": 1})",
          .block = block,
          .names = names,
          .heads = Heads::kExpanded,
          .biases = "qkvo",
          .causal = false};
}

inline void add_text_encoders(std::vector<Rewriting>& table) {
  const std::vector<std::string> bert = {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"};
  table.push_back(encoder("bert", "bert", "bert.encoder.layer.{}.attention", bert));
  table.push_back(encoder("roberta", "bert", "roberta.encoder.layer.{}.attention", bert));
  table.back().config = R"({"model_type": "roberta", "num_attention_heads": $H})";
  table.push_back(encoder("minilm_with_norms", "bert", "encoder.layer.{}.attention", bert));
  table.back().extra = [](const Draft& draft) {
    draft.add("output.LayerNorm.gamma", random_tensor({draft.config.model_dim}, 1));
    draft.add("output.LayerNorm.beta", random_tensor({draft.config.model_dim}, 2));
  };
  table.push_back(encoder("bert_cross", "bert", "bert.encoder.layer.{}.crossattention", bert));
  table.back().cross = true;
  table.push_back(encoder("distilbert", "distilbert", "distilbert.transformer.layer.{}.attention",
                          {"q_lin.weight", "k_lin.weight", "v_lin.weight", "out_lin.weight"}));
  table.back().config = R"({"model_type": "distilbert", "n_heads": $H, "dim": $E})";
  table.push_back(encoder("albert", "albert", "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention",
                          {"query.weight", "key.weight", "value.weight", "dense.weight"}));
  table.back().config =
      R"({"model_type": "albert", "num_attention_heads": $H, "num_hidden_layers": $L, "num_hidden_groups": $L})";
}

inline void add_vision_encoders(std::vector<Rewriting>& table) {
  table.push_back(encoder("vit", "vit", "vit.encoder.layer.{}.attention",
                          {"attention.query.weight", "attention.key.weight", "attention.value.weight", "output.dense.weight"}));
  table.push_back(encoder("timm", "timm_vit", "blocks.{}.attn", {"qkv.weight", "proj.weight"}));
  table.back().layout = Layout::kThirds;
  for (const std::string family : {"clip", "siglip"}) {
    const std::string config = R"({"model_type": ")" + family + R"(", "text_config": {"num_attention_heads": $H},
        "vision_config": {"num_attention_heads": $H}})";
    for (const std::string tower : {"text", "vision"}) {
      table.push_back(encoder(family + "_" + tower, family, tower + "_model.encoder.layers.{}.self_attn", kOutProjNames));
      table.back().config = config;
      table.back().causal = family == "clip" && tower == "text";
    }
  }
}

inline void add_torch_and_unet(std::vector<Rewriting>& table) {
  const std::vector<std::string> torch = {"in_proj_weight", "out_proj.weight"};
  table.push_back(encoder("torch_encoder", "torch", "transformer_encoder.layers.{}.self_attn", torch));
  table.back().config = R"({"nhead": $H})";
  table.back().layout = Layout::kThirds;
  table.push_back(table.back());
  table.back().label = "torch_cross";
  table.back().block = "layers.{}.multihead_attn";
  table.back().cross = true;
  const std::vector<std::string> apart = {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"};
  table.push_back(encoder("torch_own_widths", "torch", "attention.{}", apart));
  table.back().cross = true;
  table.back().biases = "";
  table.back().extra = [apart](const Draft& draft) {
    add_in_proj_bias(draft);
    replace_memory_width(draft, apart, 11);
  };
  const std::vector<std::string> diffusers = {"to_q.weight", "to_k.weight", "to_v.weight", "to_out.0.weight"};
  const std::string blocks = "down_blocks.0.attentions.{}.transformer_blocks.0.attn";
  table.push_back(encoder("unet_self", "diffusers_unet", blocks + "1", diffusers));
  table.back().config = R"({"_class_name": "UNet2DConditionModel", "attention_head_dim": $H})";
  table.back().biases = "o";
  table.push_back(table.back());
  table.back().label = "unet_text";
  table.back().block = blocks + "2";
  table.back().cross = true;
  table.back().extra = [diffusers](const Draft& draft) { replace_memory_width(draft, diffusers, 13); };
}

inline void add_encoders(std::vector<Rewriting>& table) {
  add_encoder_decoders(table);
  add_text_encoders(table);
  add_vision_encoders(table);
  add_torch_and_unet(table);
}

}  // namespace multihead::testing
