#include "observe/tiles.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"

namespace multihead {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Index kMaxCells = Index{1} << 28;  // of one tile: 10 GiB

std::vector<Index> edges_of(IndexRange range, Index cells) {
  std::vector<Index> edges;
  // floor(c * size / cells) without overflow: both are below 2^48.
  const Index whole = range.size() / cells, rest = range.size() % cells;
  for (Index c = 0; c <= cells; ++c) edges.push_back(range.begin + c * whole + c * rest / cells);
  return edges;
}

}  // namespace

CellGrid grid_of(const char* function, const TileRequest& request) {
  const auto check = [&](const char* name, IndexRange range, const char* size_name, Index cells) {
    require(range.begin >= 0 && range.size() > 0 && range.end <= Index{1} << 48, function, ": expected ", name,
            " [begin, end) with 0 <= begin < end; got [", range.begin, ", ", range.end, ")");
    require(cells > 0 && cells <= range.size(), function, ": expected a ", size_name, " of 1 … ", range.size(),
            " cells, the number of ", name, "; got ", cells);
  };
  check("rows", request.rows, "height", request.height);
  check("keys", request.keys, "width", request.width);
  require(request.height <= kMaxCells / request.width, function, ": expected at most ", kMaxCells, " cells; got ",
          request.height, " x ", request.width);
  return {edges_of(request.rows, request.height), edges_of(request.keys, request.width)};
}

float pooled_log2(Pooling pooling, float max_log2, double log2_sum, Index visible, Index rows) {
  switch (pooling) {
    case Pooling::kMax:
      return max_log2;
    case Pooling::kMean:
      return static_cast<float>(log2_sum - std::log2(static_cast<double>(std::max<Index>(visible, 1))));
    case Pooling::kMass:
      return static_cast<float>(log2_sum - std::log2(static_cast<double>(std::max<Index>(rows, 1))));
  }
  return kNaN;
}

Tile empty_tile(const TileRequest& request) {
  Tile tile;
  tile.rows = request.rows;
  tile.keys = request.keys;
  tile.height = request.height;
  tile.width = request.width;
  tile.pooling = request.pooling;
  const auto cells = static_cast<std::size_t>(request.height * request.width);
  tile.log2.assign(cells, kMinusInfinity);
  tile.max_log2 = tile.log2;
  tile.state.assign(cells, CellState::kOutside);
  tile.max_row.assign(cells, -1);
  tile.max_key.assign(cells, -1);
  return tile;
}

Tile tile_of(const TileRequest& request, const CellGrid& grid, const std::vector<PooledCell>& cells, Index query_len,
             Index key_len) {
  Tile tile = empty_tile(request);
  for (Index r = 0; r < grid.height(); ++r) {
    const Index rows = std::min(grid.rows(r).end, query_len) - grid.rows(r).begin;
    for (Index c = 0; c < grid.width(); ++c) {
      if (rows <= 0 || grid.keys(c).begin >= key_len) continue;
      const std::size_t n = tile.at(r, c);
      const PooledCell& cell = cells[n];
      if (!cell.finite) {
        tile.state[n] = CellState::kNonFinite;
        tile.log2[n] = tile.max_log2[n] = kNaN;
      } else if (cell.visible == 0) {
        tile.state[n] = CellState::kMasked;
      } else {
        tile.state[n] = CellState::kValue;
        tile.log2[n] = pooled_log2(request.pooling, cell.max_log2, cell.log2_sum(), cell.visible, rows);
        tile.max_log2[n] = cell.max_log2;
        tile.max_row[n] = cell.max_row;
        tile.max_key[n] = cell.max_key;
      }
    }
  }
  return tile;
}

void scale_to(Index visible, PooledCell& cell) {
  if (cell.visible == 0) return;
  cell.sum *= static_cast<double>(visible) / static_cast<double>(cell.visible);
  cell.visible = visible;
}

}  // namespace multihead
