// Finds the attention blocks of a file and the family of each.
#pragma once

#include <vector>

#include "checkpoint/family.h"

namespace multihead::checkpoint {

struct FoundBlock {
  const Family* family = nullptr;
  const Naming* naming = nullptr;
  Block block;
  Config config;  ///< the part of config.json that is about this block
};

/// In order of depth. Throws FormatError when no block of a known family is there, when one is incomplete, has tensors that no
/// family knows, or could be of several families and config.json does not tell.
std::vector<FoundBlock> find_blocks(const Safetensors& tensors, const Config& config);

}  // namespace multihead::checkpoint
