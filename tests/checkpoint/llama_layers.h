// Layers under Llama's names whose config.json is the test.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.h"

namespace multihead::testing {

// Configurations of the layers that Llama's names and this config.json give; `more` follows model_type and num_attention_heads.
inline std::vector<LayerConfig> llama_layers(const std::string& type, const std::string& more = "", int layers = 1) {
  const std::string config =
      R"({"model_type": ")" + type + R"(", "num_attention_heads": 4)" + (more.empty() ? "" : ", ") + more + "}";
  NamedTensors tensors = llama_tensors(layers);
  for (int i = 0; i < layers; ++i) {
    const std::string path = "model.layers." + std::to_string(i) + ".self_attn.";
    if (type.starts_with("gemma3")) tensors.emplace_back(path + "q_norm.weight", Tensor(DType::kF32, {8}));
    if (type.starts_with("gemma3")) tensors.emplace_back(path + "k_norm.weight", Tensor(DType::kF32, {8}));
    if (type == "gpt_oss") tensors.emplace_back(path + "sinks", Tensor(DType::kF32, {4}));
  }
  std::vector<LayerConfig> configs;
  const CheckpointFolder folder(tensors, config);
  const Checkpoint checkpoint = folder.open();
  for (const FoundLayer& layer : checkpoint.layers()) configs.push_back(layer.config);
  return configs;
}

inline void expect_llama_refused(const std::string& type, const std::string& more,
                                 std::initializer_list<std::string_view> parts) {
  expect_error<FormatError>([&] { llama_layers(type, more); }, parts);
}

}  // namespace multihead::testing
