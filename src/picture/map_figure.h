// From a map to what is drawn: the numbers of a tile on a scale, and the words around them. The command line and the Python
// package draw the same, because both come here.
#pragma once

#include <optional>
#include <string>

#include "multihead/attention_map.h"
#include "picture/figure.h"

namespace multihead::picture {

/// What of a map is shown, and how.
struct MapView {
  Index head = 0;
  IndexRange rows, keys;  ///< parts of the map with something in them
  Pooling pooling = Pooling::kMax;
  ScaleKind scale = ScaleKind::kLog;
  std::optional<Domain> domain;  ///< absent: domain_for the values
  Index size = 768;              ///< Figure::plot_size
  Index text_size = 0;           ///< Figure::text_size
  Index most_cells = 768;        ///< on the longer side
  Index sample_step = 1;         ///< more: an estimate from every sample_step-th row and key, and the figure says so
};

/// Coefficients on either side of a view's cells: as few as most_cells allows.
Index cell_side(const MapView& view);

/// A tile with what is drawn of it.
struct MapFigure {
  Tile tile;
  Figure figure;
};

/// Throws InvalidArgument for a head, rows or keys that are not there, Cancelled. Cost: AttentionMap::tile, twice for a lift of
/// means or masses; memory for the cells alone.
MapFigure draw(const AttentionMap& map, const MapView& view, const Progress& progress = {});

/// The tile alone, and its cells in units of the scale: the two steps before the words.
Tile tile_of(const AttentionMap& map, const MapView& view, const Progress& progress);
Cells cells_of(const AttentionMap& map, Index head, const Tile& tile, ScaleKind scale, const Progress& progress);
/// The cells with title, axes and domain.
Figure figure_of(const AttentionMap& map, const MapView& view, const Tile& tile, Cells cells);

/// "Layer 3, " and ", batch entry 2" around what stands for the heads; either only where there is more than one.
std::string title_around(const AttentionMap& map, const std::string& heads);

/// A Progress for one part of some work: 0 … 1 there is begin … end here. Refers to `whole`.
Progress part_of(const Progress& whole, double begin, double end);

}  // namespace multihead::picture
