// config.json of a decoder.
#pragma once

#include <filesystem>

#include "checkpoint/config.h"
#include "multihead/checkpoint.h"
#include "multihead/decoder.h"

namespace multihead::decoder {

/// What config.json says besides the layers. Throws FormatError for an architecture that is not Llama's.
DecoderConfig config_from(const checkpoint::Config& config);

/// The text of a config.json that says it. Throws InvalidArgument when Llama's layout cannot.
std::string config_text(const DecoderConfig& config, DType dtype);

}  // namespace multihead::decoder
