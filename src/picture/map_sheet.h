// All heads of a map as one sheet.
#pragma once

#include "picture/map_figure.h"
#include "picture/sheet.h"

namespace multihead::picture {

/// Every head as `view` says (its own head aside; size and most_cells are those of one panel), all on one domain. Throws as
/// draw(). Cost: that of draw() for each head; memory for the cells of all.
Sheet draw_heads(const AttentionMap& map, const MapView& view, const Progress& progress = {});

/// Pixels of one panel's longer side when nobody says: the sheet is about as wide as a screen has room beside other things.
Index panel_size_for(Index heads);

/// The step of an estimate that answers while somebody waits, however long the map: sample_step for `heads` heads that together
/// take about 2^37 operations (a second or so), 1 where that is exact. At most a cell's side, so that no cell goes unseen.
Index quick_step(const AttentionMap& map, const MapView& view, Index heads);

}  // namespace multihead::picture
