// Pyramid: one sweep over a head, tile by tile of the finest level, then every level from the one below it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/message.h"
#include "multihead/attention_map.h"
#include "observe/pool.h"
#include "observe/tiles.h"

namespace multihead {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr auto kTileSize = static_cast<std::size_t>(kTileCells * kTileCells);
constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// A tile as it is kept: all that its poolings need, 12 bytes a cell.
struct Stored {
  std::vector<float> max_log2;  // NaN: some coefficient is not finite
  std::vector<float> log2_sum;
  std::vector<std::uint32_t> place;    // of the largest: row in the cell * 2^16 + key in the cell; kNone: no visible pair
  std::vector<std::uint32_t> visible;  // only where a mask or bias decides: saturates at 2^32 - 1

  explicit Stored(bool counts)
      : max_log2(kTileSize, kMinusInfinity), log2_sum(kTileSize, kMinusInfinity), place(kTileSize, kNone) {
    if (counts) visible.assign(kTileSize, 0);
  }
  std::size_t bytes() const { return kTileSize * (visible.empty() ? 12 : 16); }
};

std::uint32_t place_of(Index row, Index key) { return static_cast<std::uint32_t>(row << 16 | key); }

}  // namespace

struct Pyramid::State {
  State(const AttentionMap& whole, Index which)
      : map(whole),
        head(which),
        view(whole.shared_capture(), whole.batch_entry()),
        levels(std::min(kMaxZoom, whole.max_zoom())) {
    for (const kernels::Sequence& s : view.sequences()) sequences.push_back(view.head(head, s));
    for (int z = 0; z <= levels; ++z) tiles.emplace_back(std::size_t{1} << (2 * z));
  }

  AttentionMap map;
  Index head;
  CaptureView view;
  HeadSequences sequences;
  int levels;
  std::vector<std::vector<std::unique_ptr<Stored>>> tiles;  // [zoom][y * 2^zoom + x]; null: nothing visible

  std::unique_ptr<Stored>& at(int z, Index x, Index y) {
    return tiles[static_cast<std::size_t>(z)][static_cast<std::size_t>((y << z) + x)];
  }
  const Stored* find(const TileAddress& a) const {
    return tiles[static_cast<std::size_t>(a.z)][static_cast<std::size_t>((a.y << a.z) + a.x)].get();
  }

  void sweep(const Progress& progress);
  void sweep_tile(const TileAddress& address, Meter& meter);
  void reduce(int z, Index x, Index y);
  void reduce_cell(const Stored& child, Index half, std::size_t from, Index r, Index c, Stored& parent, std::size_t to) const;
};

void Pyramid::State::sweep(const Progress& progress) {
  std::vector<TileAddress> wanted;
  double rows = 0;
  for (Index y = 0; y < Index{1} << levels; ++y) {
    for (Index x = 0; x < Index{1} << levels; ++x) {
      const TileRequest request = map.tile_request({levels, x, y});
      if (!map.may_see(request.rows, request.keys)) continue;
      wanted.push_back({levels, x, y});
      rows += static_cast<double>(request.rows.size());
    }
  }
  Meter meter(progress, rows);
  for (const TileAddress& address : wanted) sweep_tile(address, meter);
  for (int z = levels - 1; z >= 0; --z) {
    for (Index y = 0; y < Index{1} << z; ++y) {
      for (Index x = 0; x < Index{1} << z; ++x) reduce(z, x, y);
    }
  }
}

void Pyramid::State::sweep_tile(const TileAddress& address, Meter& meter) {
  const CellGrid grid = grid_of("Pyramid", map.tile_request(address));
  const std::vector<PooledCell> cells = pool(sequences, grid, meter);
  auto stored = std::make_unique<Stored>(view.has_mask());
  for (Index r = 0; r < kTileCells; ++r) {
    for (Index c = 0; c < kTileCells; ++c) {
      const auto n = static_cast<std::size_t>(r * kTileCells + c);
      const PooledCell& cell = cells[n];
      if (view.has_mask()) stored->visible[n] = static_cast<std::uint32_t>(std::min<Index>(cell.visible, kNone));
      if (!cell.finite) {
        stored->max_log2[n] = std::numeric_limits<float>::quiet_NaN();
      } else if (cell.visible > 0) {
        stored->max_log2[n] = cell.max_log2;
        stored->log2_sum[n] = static_cast<float>(cell.log2_sum());
        stored->place[n] =
            cell.max_row < 0 ? 0 : place_of(cell.max_row - grid.rows(r).begin, cell.max_key - grid.keys(c).begin);
      }
    }
  }
  at(address.z, address.x, address.y) = std::move(stored);
}

// One child's cell into its parent. `half`: rows of a child's cell; (r, c): which of the four it is.
void Pyramid::State::reduce_cell(const Stored& child, Index half, std::size_t from, Index r, Index c, Stored& parent,
                                 std::size_t to) const {
  if (!parent.visible.empty()) parent.visible[to] += std::min(child.visible[from], kNone - parent.visible[to]);
  const float max = child.max_log2[from];
  if (std::isnan(max) || std::isnan(parent.max_log2[to])) {
    parent.max_log2[to] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  if (child.place[from] == kNone) return;
  const std::uint32_t place =
      child.place[from] + place_of(r * half, c * half);  // no carry: a cell has fewer than 2^16 rows and keys
  if (parent.place[to] == kNone || max > parent.max_log2[to] || (max == parent.max_log2[to] && place < parent.place[to])) {
    parent.place[to] = place;
  }
  parent.max_log2[to] = std::max(parent.max_log2[to], max);
  const auto a = static_cast<double>(parent.log2_sum[to]), b = static_cast<double>(child.log2_sum[from]);
  const double high = std::max(a, b);
  if (high > static_cast<double>(kMinusInfinity)) {
    parent.log2_sum[to] = static_cast<float>(high + std::log2(1 + std::exp2(std::min(a, b) - high)));
  }
}

void Pyramid::State::reduce(int z, Index x, Index y) {
  const Index half = map.cell_size(z + 1);
  std::unique_ptr<Stored>& parent = at(z, x, y);
  constexpr Index kQuarter = kTileCells / 2;
  for (Index child = 0; child < 4; ++child) {
    const Index down = child / 2, right = child % 2;
    const Stored* below = at(z + 1, 2 * x + right, 2 * y + down).get();
    if (below == nullptr) continue;
    if (parent == nullptr) parent = std::make_unique<Stored>(view.has_mask());
    for (Index r = 0; r < kTileCells; ++r) {
      for (Index c = 0; c < kTileCells; ++c) {
        const auto to = static_cast<std::size_t>((down * kQuarter + r / 2) * kTileCells + right * kQuarter + c / 2);
        reduce_cell(*below, half, static_cast<std::size_t>(r * kTileCells + c), r % 2, c % 2, *parent, to);
      }
    }
  }
}

Pyramid::Pyramid(const AttentionMap& map, Index head, const Progress& progress) {
  require(head >= 0 && head < map.num_heads(), "Pyramid: expected a head of 0 … ", map.num_heads() - 1, "; got ", head);
  require(map.cell_size(0) <= Index{1} << 16, "Pyramid: expected a map of at most 2^24 rows and keys; got ", map.query_len(),
          " x ", map.key_len());
  state_ = std::make_unique<State>(map, head);
  state_->sweep(progress);
}
Pyramid::~Pyramid() = default;
Pyramid::Pyramid(Pyramid&&) noexcept = default;
Pyramid& Pyramid::operator=(Pyramid&&) noexcept = default;

const AttentionMap& Pyramid::map() const { return state_->map; }
Index Pyramid::head() const { return state_->head; }
int Pyramid::max_zoom() const { return state_->levels; }

Index Pyramid::bytes() const {
  std::size_t sum = 0;
  for (const auto& level : state_->tiles) {
    for (const auto& tile : level) sum += tile != nullptr ? tile->bytes() : 0;
  }
  return static_cast<Index>(sum);
}

Tile Pyramid::tile(const TileAddress& address, Pooling pooling) const {
  require(address.z <= max_zoom(), "Pyramid::tile: expected a zoom of 0 … ", max_zoom(), "; got ", address.z,
          "; AttentionMap::tile computes finer ones");
  const TileRequest request = state_->map.tile_request(address, pooling);
  const CellGrid grid = grid_of("Pyramid::tile", request);
  Tile tile = empty_tile(request);
  const Stored* const stored = state_->find(address);
  std::vector<Index> visible;
  if (stored != nullptr && stored->visible.empty()) visible = count_visible(state_->sequences, grid);
  for (Index r = 0; r < tile.height; ++r) {
    const Index rows = std::min(grid.rows(r).end, state_->map.query_len()) - grid.rows(r).begin;
    for (Index c = 0; c < tile.width; ++c) {
      if (rows <= 0 || grid.keys(c).begin >= state_->map.key_len()) continue;
      const std::size_t n = tile.at(r, c);
      tile.state[n] = CellState::kMasked;
      if (stored == nullptr) continue;
      const float max = stored->max_log2[n];
      if (std::isnan(max)) {
        tile.state[n] = CellState::kNonFinite;
        tile.log2[n] = tile.max_log2[n] = max;
      } else if (stored->place[n] != kNone) {
        tile.state[n] = CellState::kValue;
        const Index count = visible.empty() ? static_cast<Index>(stored->visible[n]) : visible[n];
        tile.log2[n] = pooled_log2(pooling, max, static_cast<double>(stored->log2_sum[n]), count, rows);
        tile.max_log2[n] = max;
        if (max > kMinusInfinity) {
          tile.max_row[n] = grid.rows(r).begin + static_cast<Index>(stored->place[n] >> 16);
          tile.max_key[n] = grid.keys(c).begin + static_cast<Index>(stored->place[n] & 0xFFFFu);
        }
      }
    }
  }
  return tile;
}

}  // namespace multihead
