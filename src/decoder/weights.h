// A decoder's weights against its configuration.
#pragma once

#include <string>

#include "multihead/decoder.h"

namespace multihead::decoder {

/// Name of a tensor of block `block`, e.g. ("mlp.up_proj.weight", 3).
std::string block_name(Index block, const std::string& name);

/// The configuration with resolved layers. Throws InvalidArgument for impossible numbers.
DecoderConfig checked_config(DecoderConfig config);

/// A copy of all tensors that are there.
LayerWeights copy_layer(const LayerWeights& weights);

/// Throws InvalidArgument unless every weight but those of attention, which the layer checks, is there with its shape.
void check_weights(const DecoderConfig& config, const DecoderWeights& weights);

}  // namespace multihead::decoder
