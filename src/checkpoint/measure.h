// Sizes of a block, from its tensors' shapes and the number of heads.
#pragma once

#include "checkpoint/family.h"

namespace multihead::checkpoint {

/// Where the number of heads comes from, besides the tensors that always tell it (sinks, query norms of one head).
struct HeadCount {
  std::optional<Index> told = {};  ///< by another tensor
  Keys keys = {};                  ///< of config.json, before the usual ones
};

/// The part of a plan that all families share: model_dim, heads, kv heads, head sizes and input sizes, checked against each
/// other and against what config.json says of them. Throws FormatError.
BlockPlan measure(const Context& context, const HeadCount& head_count = {});

/// [out, in] of a linear map's weight under the block's path, however it is stored. Throws FormatError when it is no matrix.
Dims linear_shape(const Context& context, const std::string& weight);

}  // namespace multihead::checkpoint
