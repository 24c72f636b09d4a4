// Weights against their configuration, and what of both is passed on to the attention op.
#pragma once

#include "multihead/layer.h"

namespace multihead {

/// Throws InvalidArgument unless every weight is present, absent and shaped as `config` (resolved) wants it.
void check_weights(const LayerConfig& config, const LayerWeights& weights);

/// The part of the op's options that a layer fixes: scale, softcap, causality, window, slopes, sinks.
AttentionOptions attention_options(const LayerConfig& config, const LayerWeights& weights);

}  // namespace multihead
