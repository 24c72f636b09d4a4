// From a tile to what is drawn: numbers on a scale, and the words around them.
#pragma once

#include <string>
#include <vector>

#include "map_options.h"
#include "multihead/attention_map.h"
#include "picture/figure.h"

namespace multihead::cli {

/// The tile's cells in units of the scale.
picture::Cells cells_of(const AttentionMap& map, Index head, const Tile& tile, picture::ScaleKind scale,
                        const Progress& progress);

/// The tile with title, axes and domain.
picture::Figure figure_of(const AttentionMap& map, const MapOptions& options, const Tile& tile, picture::Cells cells);

/// [height, width] f32 in units of the scale. NaN where the query may not see any key of the cell, +inf where a coefficient is
/// not finite: neither can be confused with a number of the scale.
Tensor values_of(const picture::Cells& cells);

/// A pair of a map that stands out.
struct TopPair {
  Index query = 0, key = 0;
  double probability = 0;
};

/// The largest coefficients of up to `count` different cells, largest first, equal ones by place. Rows that see one key only,
/// whose coefficient is 1 whatever the head does, are left out.
std::vector<TopPair> top_pairs(const AttentionMap& map, Index head, const Tile& tile, std::size_t count);

}  // namespace multihead::cli
