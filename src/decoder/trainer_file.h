// training.safetensors: all that a training needs to go on, in one file, so that no crash can leave halves that do not belong
// together.
#pragma once

#include <filesystem>
#include <string_view>

#include "multihead/training.h"

namespace multihead::decoder {

inline constexpr const char* kTrainerFile = "training.safetensors";

struct TrainerFile {
  DecoderWeights weights;
  OptimizerState state;
};

/// Throws InvalidArgument for a configuration that makes no sense.
void check_training(const TrainingConfig& config);

/// Throws IoError; FormatError when the file is broken, is something else, or is of another configuration or text.
TrainerFile read_trainer(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text);
void write_trainer(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text,
                   const DecoderWeights& weights, const OptimizerState& state);

}  // namespace multihead::decoder
