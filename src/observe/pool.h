// Coefficients reduced over a grid of cells: what tiles and pyramids are made of.
#pragma once

#include <memory>
#include <vector>

#include "multihead/attention_map.h"
#include "observe/capture_view.h"
#include "observe/progress.h"

namespace multihead {

/// Cell (r, c) covers rows [row_edges[r], row_edges[r + 1]) and keys [key_edges[c], key_edges[c + 1]) of a map; edges never
/// decrease and may lie beyond the map.
struct CellGrid {
  std::vector<Index> row_edges, key_edges;

  Index height() const { return static_cast<Index>(row_edges.size()) - 1; }
  Index width() const { return static_cast<Index>(key_edges.size()) - 1; }
  std::size_t cells() const { return static_cast<std::size_t>(height() * width()); }
  IndexRange rows(Index r) const {
    return {row_edges[static_cast<std::size_t>(r)], row_edges[static_cast<std::size_t>(r) + 1]};
  }
  IndexRange keys(Index c) const {
    return {key_edges[static_cast<std::size_t>(c)], key_edges[static_cast<std::size_t>(c) + 1]};
  }
};

/// One cell's coefficients. sum p = sum * 2^exponent, in two numbers so that it does not underflow before its logarithm.
struct PooledCell {
  double sum = 0;
  Index exponent = 0;
  Index visible = 0;
  Index max_row = -1, max_key = -1;  ///< of the map
  float max_log2;                    ///< -inf when there is none
  bool finite = true;

  PooledCell();
  double log2_sum() const;
};

/// One head as a list of sequences.
using HeadSequences = std::vector<std::unique_ptr<HeadSequence>>;

/// All cells of the grid, row-major. Work is cut by the grid alone. The meter is told of rows that are done.
std::vector<PooledCell> pool(const HeadSequences& head, const CellGrid& grid, Meter& meter);

/// Visible pairs of every cell, from ranges alone: for heads without mask and bias. O(rows) for cells on an edge of visibility,
/// O(1) for others.
std::vector<Index> count_visible(const HeadSequences& head, const CellGrid& grid);

}  // namespace multihead
