// Encoder-decoder models with separate projections and positions outside the layer, and OPT, which is such a decoder alone.
// Whisper's key has no bias: what is not there is zero. (That Whisper scales query and key by head_dim^-1/4 each, and the
// others the query by head_dim^-1/2, is the same in exact arithmetic.)
#include "checkpoint/measure.h"

namespace multihead::checkpoint {
namespace {

Naming projections(const std::string& block, bool causal, bool cross = false) {
  return {.block = block,
          .cross = cross,
          .causal = causal,
          .query = module("q_proj"),
          .key = module("k_proj"),
          .value = module("v_proj"),
          .output = module("out_proj")};
}

Naming openai_whisper(const std::string& block, bool causal, bool cross = false) {
  return {.block = block,
          .cross = cross,
          .causal = causal,
          .query = module("query"),
          .key = module("key"),
          .value = module("value"),
          .output = module("out")};
}

BlockPlan configure(const Context& context) {
  const bool decoder = context.path_has("decoder");
  return measure(context, {.keys = decoder ? Keys{"decoder_attention_heads", "n_text_head"}
                                           : Keys{"encoder_attention_heads", "n_audio_head"}});
}

}  // namespace

std::vector<Family> seq2seq_families() {
  const std::vector<Naming> namings = {projections("encoder.layers.#.self_attn", false),
                                       projections("decoder.layers.#.self_attn", true),
                                       projections("decoder.layers.#.encoder_attn", false, true)};
  const std::vector<Naming> openai = {openai_whisper("encoder.blocks.#.attn", false),
                                      openai_whisper("decoder.blocks.#.attn", true),
                                      openai_whisper("decoder.blocks.#.cross_attn", false, true)};
  return {
      {"bart",
       {"bart", "mbart", "marian", "pegasus", "m2m_100", "blenderbot", "blenderbot-small", "plbart", "trocr"},
       namings,
       configure},
      {"whisper", {"whisper"}, namings, configure},
      {"whisper_openai", {}, openai, configure},
      {"opt", {"opt"}, {projections("decoder.layers.#.self_attn", true)}, configure},
  };
}

}  // namespace multihead::checkpoint
