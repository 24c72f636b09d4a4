// Positions and windows of decoder models: what config.json says about rotation, and which layers slide.
#pragma once

#include "checkpoint/family.h"

namespace multihead::checkpoint {

/// What a family's class assumes when config.json is silent.
struct RotaryDefaults {
  RotaryPairing pairing = RotaryPairing::kHalfSplit;  ///< never in config.json
  double theta = 10000;
  double partial = 1;  ///< share of head_dim that turns
  bool local = false;  ///< of sliding layers with a base of their own (rope_local_base_freq), which is never scaled (Gemma 3)
};

/// Precedence: rope_parameters (transformers 5; of this layer type if it is nested) or rope_scaling, the top level, the
/// default. Throws FormatError for a scaling that the layer does not have.
Rotary rotary_from(const Context& context, Index head_dim, const RotaryDefaults& defaults = {});

/// Whether this layer's attention slides: from layer_types, else what the family's rule says.
bool slides(const Context& context, bool by_rule);

/// The window of a sliding layer: sliding_window keys, itself included. Null is no window, absent is the class default.
std::optional<Window> sliding_window(const Context& context, std::optional<Index> class_default = {});

}  // namespace multihead::checkpoint
