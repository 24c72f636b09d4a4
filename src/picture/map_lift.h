// The attention that a call would have had without preferences: what lift is measured against.
#pragma once

#include <memory>
#include <vector>

#include "multihead/attention_map.h"

namespace multihead::picture {

/// log2 of each cell's pooled coefficient over what it would be if every query of the map spread its attention evenly over the
/// V(i) keys that it sees, row-major as the tile:
///     max   log2(p V(i)) of the cell's largest coefficient
///     mean  log2(mean of p / mean of 1 / V(i)), both over the cell's visible pairs
///     mass  log2(mass of p / mass of 1 / V(i))
/// Meaningful where the tile's state is kValue. For mean and mass one more sweep, over heads of width 1.
std::vector<float> lift_of(const AttentionMap& map, Index head, const Tile& tile, const Progress& progress);

}  // namespace multihead::picture
