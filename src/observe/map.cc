// AttentionMap: coefficients, rows and tiles.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/message.h"
#include "base/scratch.h"
#include "kernels/observe.h"
#include "multihead/attention_map.h"
#include "observe/capture_view.h"
#include "observe/pool.h"
#include "observe/tiles.h"

namespace multihead {
namespace {

using kernels::KeyRange;

// One entry's part of labels that are given for all entries at once or for one after another. Labels are people's to change
// while a map is in use, so their number is looked at here, too.
std::span<const std::string> tokens_of_entry(const AttentionMap& map, const std::vector<std::string>& tokens, Index length) {
  const std::span<const std::string> all = tokens;
  const Index count = static_cast<Index>(all.size()), batch = map.capture().batch();
  if (count == 0 || count == length) return all;
  require(count == batch * length, "AttentionMap: expected no labels, ", length, " or ", batch, " times ", length, "; got ",
          count);
  return all.subspan(static_cast<std::size_t>(map.batch_entry() * length), static_cast<std::size_t>(length));
}

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// log2 p (and p) of one local row over local keys, into dense rows that hold -inf (and 0) elsewhere.
void coefficients(const HeadSequence& one, Index row, KeyRange keys, float* log2, float* probability) {
  const double lse = one.lse[row * one.lse_step];
  float* const workspace = thread_scratch(kernels::workspace_floats(one.problem, 1));
  kernels::coefficient_rows(one.problem, one.block(row, row + 1),
                            {&lse, &log2, probability != nullptr ? &probability : nullptr, keys}, workspace);
}

CellState state_of(const HeadSequence& one, Index row, Index key, float log2) {
  if (std::isnan(log2) || log2 == -kMinusInfinity) return CellState::kNonFinite;
  if (log2 > kMinusInfinity) return CellState::kValue;
  const KeyRange range = one.range(row);  // -inf: not visible, or visible with a score of -inf
  return key >= range.begin && key < range.end && one.unmasked(row, key) ? CellState::kValue : CellState::kMasked;
}

// Keys of one row in descending order of log2 p; NaN first; equal ones by key.
bool before(const TopKey& a, const TopKey& b) {
  const bool a_nan = std::isnan(a.log2), b_nan = std::isnan(b.log2);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.log2 != b.log2) return a.log2 > b.log2;
  return a.key < b.key;
}

int zoom_count(Index side) {
  int z = 0;
  while ((kTileCells << z) < side) ++z;
  return z;
}

}  // namespace

struct AttentionMap::State {
  State(std::shared_ptr<const Capture> capture, Index batch) : view(std::move(capture), batch) {}

  CaptureView view;

  // A row's sequence as a problem, and the row's number in it.
  std::pair<std::unique_ptr<HeadSequence>, Index> row(const char* function, Index head, Index i) const {
    view.require_head(function, head);
    require(i >= 0 && i < view.query_len(), function, ": expected a row of 0 … ", view.query_len() - 1, "; got ", i);
    std::unique_ptr<HeadSequence> one = view.head(head, view.sequence_of(i));
    const Index local = i - one->row_origin;
    return {std::move(one), local};
  }
  void require_key(const char* function, Index j) const {
    require(j >= 0 && j < view.key_len(), function, ": expected a key of 0 … ", view.key_len() - 1, "; got ", j);
  }
};

AttentionMap::AttentionMap(std::shared_ptr<const Capture> capture, Index batch)
    : state_(std::make_shared<const State>(std::move(capture), batch)) {}

const Capture& AttentionMap::capture() const { return state_->view.capture(); }
const std::shared_ptr<const Capture>& AttentionMap::shared_capture() const { return state_->view.shared(); }
Index AttentionMap::batch_entry() const { return state_->view.batch(); }
Index AttentionMap::num_heads() const { return state_->view.heads(); }
Index AttentionMap::query_len() const { return state_->view.query_len(); }
Index AttentionMap::key_len() const { return state_->view.key_len(); }
std::span<const std::string> AttentionMap::query_tokens() const {
  return tokens_of_entry(*this, capture().labels.query_tokens, query_len());
}
std::span<const std::string> AttentionMap::key_tokens() const {
  return tokens_of_entry(*this, capture().labels.key_tokens, key_len());
}
int AttentionMap::max_zoom() const { return zoom_count(std::max(query_len(), key_len())); }

Index AttentionMap::cell_size(int z) const {
  require(z >= 0 && z <= max_zoom(), "AttentionMap::cell_size: expected a zoom of 0 … ", max_zoom(), "; got ", z);
  return Index{1} << (max_zoom() - z);
}

TileRequest AttentionMap::tile_request(const TileAddress& address, Pooling pooling) const {
  const Index side = kTileCells * cell_size(address.z), tiles = Index{1} << address.z;
  require(address.x >= 0 && address.x < tiles && address.y >= 0 && address.y < tiles,
          "AttentionMap::tile_request: expected x and y of 0 … ", tiles - 1, " at zoom ", address.z, "; got ", address.x,
          " and ", address.y);
  return {
      {address.y * side, (address.y + 1) * side}, {address.x * side, (address.x + 1) * side}, kTileCells, kTileCells, pooling};
}

bool AttentionMap::visible(Index head, Index i, Index j) const {
  const auto [one, row] = state_->row("AttentionMap::visible", head, i);
  state_->require_key("AttentionMap::visible", j);
  const Index key = j - one->key_origin;
  const KeyRange range = one->range(row);
  return key >= range.begin && key < range.end && one->unmasked(row, key);
}

Index AttentionMap::visible_keys(Index head, Index i) const {
  const auto [one, row] = state_->row("AttentionMap::visible_keys", head, i);
  const KeyRange range = one->range(row);
  if (!one->has_mask()) return range.end - range.begin;
  Index count = 0;
  for (Index key = range.begin; key < range.end; ++key) count += one->unmasked(row, key) ? 1 : 0;
  return count;
}

Index AttentionMap::position(Index i) const {
  require(i >= 0 && i < query_len(), "AttentionMap::position: expected a row of 0 … ", query_len() - 1, "; got ", i);
  const kernels::Sequence& sequence = state_->view.sequence_of(i);
  return sequence.query_offset + i - sequence.query_begin;
}

bool AttentionMap::may_see(IndexRange rows, IndexRange keys) const {
  for (const kernels::Sequence& s : state_->view.sequences()) {
    const Index first = std::max(rows.begin, s.query_begin), last = std::min(rows.end, s.query_begin + s.query_len) - 1;
    if (first > last) continue;
    const KeyRange low = key_range(state_->view.problem(), s, s.query_offset + first - s.query_begin);
    const KeyRange high = key_range(state_->view.problem(), s, s.query_offset + last - s.query_begin);
    // Ranges ascend with the row and overlap or touch from one row to the next, unless they are empty.
    if (std::max(low.begin, keys.begin - s.key_begin) < std::min(high.end, keys.end - s.key_begin)) return true;
  }
  return false;
}

Coefficient AttentionMap::at(Index head, Index i, Index j) const {
  const auto [one, row] = state_->row("AttentionMap::at", head, i);
  state_->require_key("AttentionMap::at", j);
  const Index key = j - one->key_origin;
  if (key < 0 || key >= one->keys()) return {0, kMinusInfinity, CellState::kMasked};
  Coefficient result;
  coefficients(*one, row, {key, key + 1}, &result.log2, &result.probability);
  result.state = state_of(*one, row, key, result.log2);
  return result;
}

float AttentionMap::probability(Index head, Index i, Index j) const { return at(head, i, j).probability; }

MapRow AttentionMap::row(Index head, Index i) const {
  const auto [one, row] = state_->row("AttentionMap::row", head, i);
  const auto length = static_cast<std::size_t>(key_len());
  MapRow result{std::vector<float>(length, 0.0f), std::vector<float>(length, kMinusInfinity),
                std::vector<CellState>(length, CellState::kMasked)};
  coefficients(*one, row, {0, one->keys()}, result.log2.data() + one->key_origin, result.probability.data() + one->key_origin);
  for (Index key = 0; key < one->keys(); ++key) {
    const auto at = static_cast<std::size_t>(one->key_origin + key);
    result.state[at] = state_of(*one, row, key, result.log2[at]);
  }
  return result;
}

std::vector<TopKey> AttentionMap::top(Index head, Index i, Index k) const {
  require(k >= 0, "AttentionMap::top: expected a number of keys of 0 or more; got ", k);
  const auto [one, row] = state_->row("AttentionMap::top", head, i);
  constexpr Index kPiece = 4096;
  std::vector<float> log2(static_cast<std::size_t>(kPiece)), probability(log2.size());
  std::vector<TopKey> best;  // a heap whose front is the last of the best
  const KeyRange range = one->range(row);
  for (Index begin = range.begin; k > 0 && begin < range.end; begin += kPiece) {
    const KeyRange keys{begin, std::min(begin + kPiece, range.end)};
    coefficients(*one, row, keys, log2.data(), probability.data());
    for (Index key = keys.begin; key < keys.end; ++key) {
      const auto at = static_cast<std::size_t>(key - keys.begin);
      const TopKey candidate{one->key_origin + key, probability[at], log2[at]};
      const bool full = static_cast<Index>(best.size()) == k;
      if (full && !before(candidate, best.front())) continue;
      if (state_of(*one, row, key, log2[at]) == CellState::kMasked) continue;
      if (full) {
        std::pop_heap(best.begin(), best.end(), before);
        best.pop_back();
      }
      best.push_back(candidate);
      std::push_heap(best.begin(), best.end(), before);
    }
  }
  std::sort_heap(best.begin(), best.end(), before);
  return best;
}

Tile AttentionMap::tile(Index head, const TileRequest& request, const Progress& progress) const {
  state_->view.require_head("AttentionMap::tile", head);
  const CellGrid grid = grid_of("AttentionMap::tile", request);
  HeadSequences all;
  for (const kernels::Sequence& s : state_->view.sequences()) all.push_back(state_->view.head(head, s));
  Meter meter(progress, static_cast<double>(request.rows.size()));
  return tile_of(request, grid, pool(all, grid, meter), query_len(), key_len());
}

Tile AttentionMap::tile(Index head, const TileAddress& address, Pooling pooling) const {
  return tile(head, tile_request(address, pooling));
}

Tile AttentionMap::sampled_tile(Index head, const TileRequest& request, Index step) const {
  constexpr const char* kFunction = "AttentionMap::sampled_tile";
  state_->view.require_head(kFunction, head);
  require(step >= 1, kFunction, ": expected a step of 1 or more; got ", step);
  const CellGrid grid = grid_of(kFunction, request);
  HeadSequences all, sample;
  for (const kernels::Sequence& s : state_->view.sequences()) {
    all.push_back(state_->view.head(head, s));
    sample.push_back(state_->view.sampled(head, s, step));
  }
  const Progress none;
  Meter meter(none, 1);
  std::vector<PooledCell> cells = pool(sample, grid, meter);
  if (!state_->view.has_mask()) {
    // The sample gives the mean, ranges the number of pairs that it stands for.
    const std::vector<Index> visible = count_visible(all, grid);
    for (std::size_t n = 0; n < cells.size(); ++n) scale_to(visible[n], cells[n]);
  } else {
    for (PooledCell& cell : cells) scale_to(cell.visible * step * step, cell);
  }
  Tile tile = tile_of(request, grid, cells, query_len(), key_len());
  tile.sampled = step > 1;
  tile.sample_step = step;
  return tile;
}

}  // namespace multihead
