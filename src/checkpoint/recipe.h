// From a plan to weights: which rows of which tensor become which of LayerWeights' members.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/family.h"

namespace multihead::checkpoint {

/// Rows [begin, end) of a tensor, or elements of a vector.
struct Rows {
  Index begin = 0;
  Index end = 0;
};

/// Where one member comes from.
struct Source {
  std::string tensor;
  bool transposed = false;
  std::vector<Rows> rows;  ///< after transposition; empty: all of them
};

struct Recipe {
  std::vector<std::pair<Tensor LayerWeights::*, Source>> sources;
  std::vector<float> alibi_slopes;
  bool has_bias() const;
};

/// Checks the shape and element type of every tensor that will be read. Throws FormatError.
Recipe make_recipe(const Context& context, const BlockPlan& plan);

LayerWeights read_weights(const Safetensors& tensors, const Recipe& recipe);

}  // namespace multihead::checkpoint
