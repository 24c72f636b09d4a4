// Tensor names as paths of components between dots.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::checkpoint {

/// "a.b.c" -> a, b, c.
std::vector<std::string_view> components(std::string_view name);

/// The number that a component is, if it is one (at most nine digits).
std::optional<Index> number_of(std::string_view component);

/// Where an attention block lies, and what the pattern's first # stood for (0 without one).
struct BlockMatch {
  std::string path;
  Index depth = 0;
};

/// Matches `[prefix.]pattern.tensor`, where # in the pattern is any number: "h.#.attn" and "c_attn.weight" find the block
/// "transformer.h.3.attn" of "transformer.h.3.attn.c_attn.weight". An empty pattern takes any path, the empty one too.
std::optional<BlockMatch> match_block(std::string_view name, std::string_view pattern, std::string_view tensor);

/// Sorts paths by depth in the model: numbers as numbers, encoder before decoder, down before mid before up, self before cross.
using DepthKey = std::vector<std::pair<Index, std::string>>;
DepthKey depth_key(std::string_view path, bool cross);

}  // namespace multihead::checkpoint
