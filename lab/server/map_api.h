// The Map room's and the captures' addresses.
#pragma once

#include <memory>

#include "lab/server/captures.h"
#include "lab/server/router.h"

namespace multihead::lab {

/// GET /{capture}/{head}/{z}/{x}/{y}?pool=max|mean|mass&bits=16|8&values=0|1    a tile: 65,536 codes (tile_code.h), rows of
///         queries; X-Tile-Source, X-Tile-Milliseconds and X-Tile-Sample-Step tell how it came about
/// GET /api/captures                                       what is open
/// GET /api/captures/{capture}/heads                       every head's statistics, as far as they are computed
/// GET /api/captures/{capture}/{head}/sweep                starts the sweep of the coarse zooms; how far it is
/// GET /api/captures/{capture}/{head}/thumbnail            64 x 64 codes of 16 bits, sampled
/// GET /api/captures/{capture}/{head}/at?i=&j=             one coefficient
/// GET /api/captures/{capture}/{head}/cell?row=&rows=&key=&keys=   the largest coefficient of a rectangle
/// GET /api/captures/{capture}/{head}/row?i=&top=&from=&to=&bins=  a row: its largest, and its profile
/// GET /api/captures/{capture}/{head}/column?j=&from=&to=&bins=    a column's profile
/// GET /api/captures/{capture}/{head}/visible?from=&to=&bins=      keys that rows see, for lift
/// GET /api/captures/{capture}/{head}/figure?row=&key=     Q, K, V, A and O of a window small enough to draw
void add_map_routes(Router& router, const std::shared_ptr<Captures>& captures);

}  // namespace multihead::lab
