// What people and machines are told about a layer's configuration.
#pragma once

#include <string>

#include "multihead/checkpoint.h"
#include "multihead/layer.h"
#include "report.h"

namespace multihead::cli {

/// "causal, window 255,", or "all keys".
std::string visibility_text(const LayerConfig& config);
/// "vaswani-base, llama-7b, lab"
std::string preset_names();
Json json_of(const LayerConfig& config);
Json json_of(const FoundLayer& layer, std::size_t index);

}  // namespace multihead::cli
