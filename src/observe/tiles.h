// From pooled cells to tiles.
#pragma once

#include <vector>

#include "multihead/attention_map.h"
#include "observe/pool.h"

namespace multihead {

/// The cells of a request. Throws InvalidArgument that names `function` for ranges and sizes without meaning.
CellGrid grid_of(const char* function, const TileRequest& request);

/// log2 of the pooled number of a cell that covers `rows` rows of the map.
float pooled_log2(Pooling pooling, float max_log2, double log2_sum, Index visible, Index rows);

/// The tile of a map of query_len x key_len.
Tile tile_of(const TileRequest& request, const CellGrid& grid, const std::vector<PooledCell>& cells, Index query_len,
             Index key_len);

/// A tile of the request's size, all outside.
Tile empty_tile(const TileRequest& request);

/// Of a cell that was summed over a sample: the sum over `visible` pairs with the sample's mean.
void scale_to(Index visible, PooledCell& cell);

}  // namespace multihead
