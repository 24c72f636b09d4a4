// A layer and its input, as `run` and `capture` take them: from a checkpoint and files, or from a preset and a seed.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "arrays.h"
#include "multihead/checkpoint.h"
#include "multihead/layer.h"
#include "outputs.h"
#include "report.h"

namespace multihead::cli {

/// X [batch, query_len, model_dim] and X' [batch, key_len, key_input_dim]; without memory X' = X.
struct LayerInputs {
  Array input;
  std::optional<Array> memory;
  bool batched = false;

  const Tensor& keys_from() const { return memory ? memory->tensor : input.tensor; }
};

struct LayerSource {
  std::optional<std::filesystem::path> checkpoint, input, memory;
  std::optional<Index> layer, length, seed;
  std::string preset;

  /// Throws usage_error unless a layer, and for a checkpoint its number and input, were given.
  void require_sense(const std::string& command) const;
  void add_inputs(OutputFiles& files) const;
  std::uint64_t seed_or_default() const { return static_cast<std::uint64_t>(seed.value_or(0)); }
  /// Absent with a checkpoint.
  std::optional<Preset> find() const;
  /// Reads or makes the layer; `found` receives what the checkpoint says about it.
  MultiHeadAttention load(Report& report, std::optional<FoundLayer>* found = nullptr) const;
  /// Reads or makes the input, in `dtype` or its own type.
  LayerInputs read(const std::optional<DType>& dtype, Report& report) const;
};

/// --checkpoint --layer --preset --seed; --input --memory --length.
void add_layer_source(CLI::App& app, LayerSource& source);

/// "32 over 8 key/value heads of 128, causal".
std::string heads_text(const LayerConfig& config);

}  // namespace multihead::cli
