#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "decoder/files.h"
#include "io/text.h"

namespace multihead::decoder {
namespace {

// Their blocks are Llama's; what their attention layers differ in, the layers say. Others share the tensor names and compute
// something else (Gemma scales the embedding, Granite the residuals), so a name that is not here is refused.
constexpr std::array<std::string_view, 4> kArchitectures{"llama", "mistral", "qwen2", "qwen3"};

void require_llama(const checkpoint::Config& config) {
  const std::string type = config.text({"model_type"}).value_or("");
  if (std::find(kArchitectures.begin(), kArchitectures.end(), type) == kArchitectures.end()) {
    throw FormatError(
        concat("config.json: model_type: expected llama, mistral, qwen2 or qwen3, whose blocks this decoder has; got ",
               type.empty() ? "none" : quote(type)));
  }
  const std::string activation = config.text({"hidden_act"}).value_or("silu");
  if (activation != "silu" && activation != "swish")
    throw FormatError(concat("config.json: hidden_act: expected silu; got ", quote(activation)));
}

std::vector<Index> ids_of(const checkpoint::Config& config, const char* key) {
  if (config.is_list(key)) return config.counts(key);
  const std::optional<Index> id = config.count({key}, 0);
  return id ? std::vector<Index>{*id} : std::vector<Index>{};
}

// A layer as config.json can say it: zeros where there is nothing to choose.
bool is_plain(const LayerConfig& layer) {
  const bool rotary = layer.rotary && layer.rotary->pairing == RotaryPairing::kHalfSplit &&
                      (layer.rotary->rotary_dim == 0 || layer.rotary->rotary_dim == layer.head_dim) &&
                      std::holds_alternative<std::monostate>(layer.rotary->scaling);
  return rotary && layer.causal && layer.value_dim == layer.head_dim && !layer.window && !layer.scale && !layer.softcap &&
         !layer.alibi && !layer.relative_bias && !layer.clip && !layer.query_key_norm;
}

}  // namespace

DecoderConfig config_from(const checkpoint::Config& config) {
  require_llama(config);
  DecoderConfig result;
  result.vocab_size = config.need_count({"vocab_size"});
  result.model_dim = config.need_count({"hidden_size"});
  result.hidden_dim = config.need_count({"intermediate_size"});
  result.norm_epsilon = config.number({"rms_norm_eps"}).value_or(1e-6);
  result.tied_output = config.flag({"tie_word_embeddings"}).value_or(false);
  result.max_positions = config.count({"max_position_embeddings"}).value_or(0);
  result.begin_id = config.count({"bos_token_id"}, 0);
  result.end_ids = ids_of(config, "eos_token_id");
  return result;
}

std::string config_text(const DecoderConfig& config, DType dtype) {
  const LayerConfig& first = config.layers.front();
  for (const LayerConfig& layer : config.layers) {
    require(is_plain(layer) && layer.num_heads == first.num_heads && layer.num_kv_heads == first.num_kv_heads &&
                layer.head_dim == first.head_dim && layer.rotary->theta == first.rotary->theta,
            "write_decoder: expected causal layers of equal shape with unscaled rotary positions of half-split pairs over the "
            "whole head, and nothing else; got something that Llama's config.json cannot say");
  }
  nlohmann::ordered_json json{{"architectures", {"LlamaForCausalLM"}},
                              {"model_type", "llama"},
                              {"hidden_size", config.model_dim},
                              {"intermediate_size", config.hidden_dim},
                              {"num_hidden_layers", config.layers.size()},
                              {"num_attention_heads", first.num_heads},
                              {"num_key_value_heads", first.num_kv_heads},
                              {"head_dim", first.head_dim},
                              {"vocab_size", config.vocab_size},
                              {"rope_theta", first.rotary->theta},
                              {"rms_norm_eps", config.norm_epsilon},
                              {"hidden_act", "silu"},
                              {"tie_word_embeddings", config.tied_output},
                              {"torch_dtype", dtype == DType::kF32   ? "float32"
                                              : dtype == DType::kF16 ? "float16"
                                                                     : "bfloat16"}};
  if (config.max_positions > 0) json["max_position_embeddings"] = config.max_positions;
  if (config.begin_id) json["bos_token_id"] = *config.begin_id;
  if (config.end_ids.size() == 1) json["eos_token_id"] = config.end_ids.front();
  if (config.end_ids.size() > 1) json["eos_token_id"] = config.end_ids;
  return json.dump(1) + "\n";
}

}  // namespace multihead::decoder
