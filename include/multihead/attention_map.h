// Looking at coefficients that nobody stored: each is recomputed from a capture when somebody asks,
//
//     p[h, i, j] = exp(s[h, i, j] - lse[h, i])          s: the score, after scale, softcap, bias, ALiBi
//
// with the score's bits of the kernel that ran. Logarithms are (s - lse) * log2(e) and stay exact where p itself underflows.
//
// Words: row i = query, column j = key, of one batch entry; a map is [query_len, key_len], one for each query head (heads of a
// group share keys, not maps). With packed sequences the map is the whole of both lengths, and other sequences are masked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "multihead/capture.h"
#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// Called from time to time by everything that takes long, by one thread at a time, with the share done, 0 … 1, never falling.
/// false ends the work: the function throws Cancelled. An empty function: no reports.
using Progress = std::function<bool(double done)>;

/// A Progress callback said false. Nothing was lost but the work.
class MULTIHEAD_API Cancelled : public Error {
 public:
  using Error::Error;
};

/// What a cell is, before its number. Masked is not zero: the query may not see the key. "Visible" is decided from the
/// constraints, never from scores.
enum class CellState : std::uint8_t {
  kValue,      ///< the number counts; log2 may be -inf for a visible pair whose score is -inf
  kMasked,     ///< no visible pair in the cell; log2 is -inf
  kOutside,    ///< beyond the map's last row or column; log2 is -inf
  kNonFinite,  ///< some visible coefficient in the cell is NaN or infinite; log2 is NaN
};

/// One coefficient. Not visible: probability 0, log2 -inf, state kMasked.
struct Coefficient {
  float probability = 0;
  float log2 = 0;
  CellState state = CellState::kMasked;
};

/// One key of a row's largest.
struct TopKey {
  Index key = 0;
  float probability = 0;
  float log2 = 0;
};

/// One row of a map: [key_len] each.
struct MapRow {
  std::vector<float> probability;  ///< 0 where not visible; the bits of attention_probabilities
  std::vector<float> log2;
  std::vector<CellState> state;
};

/// [begin, end).
struct IndexRange {
  Index begin = 0;
  Index end = 0;

  Index size() const { return end - begin; }
};

/// What one number stands for when a cell covers many coefficients.
enum class Pooling : std::uint8_t {
  kMax,   ///< the largest: finds single bright cells, says nothing about amounts
  kMean,  ///< over the cell's visible pairs: keeps amounts, hides peaks
  kMass,  ///< summed over keys, averaged over the cell's rows: a pooled row still sums to what its rows do (1)
};

/// A rectangle of a map, in cells. Cell (r, c) of `height` x `width` covers rows rows.begin + floor(r * rows.size() / height) …
/// and likewise keys, so that any range fits any size (cells then differ by one). Ranges may reach beyond the map.
struct TileRequest {
  IndexRange rows, keys;
  Index height = 256, width = 256;  ///< at most rows.size() and keys.size()
  Pooling pooling = Pooling::kMax;
};

/// A rectangle of cells, row-major [height, width] each.
struct Tile {
  IndexRange rows, keys;
  Index height = 0, width = 0;
  Pooling pooling = Pooling::kMax;
  bool sampled = false;  ///< estimated from every `sample_step`-th row and key: say so wherever it is shown
  Index sample_step = 1;
  std::vector<float> log2;  ///< log2 of the pooled number
  std::vector<CellState> state;
  std::vector<float> max_log2;          ///< the cell's largest coefficient, whatever the pooling
  std::vector<Index> max_row, max_key;  ///< where it is: the first in row-major order; -1 when the state is not kValue

  std::size_t at(Index row, Index column) const { return static_cast<std::size_t>(row * width + column); }
};

/// Addresses of tiles: /{head}/{z}/{x}/{y}. x counts tiles of keys, y of queries; a tile is 256 x 256 cells; z = 0 is the whole
/// map in one tile; each z halves the cells. One zoom count for both sides, from the larger, so that cells are square:
/// a cell of zoom z covers 2^(max_zoom - z) rows and as many keys, and at max_zoom one coefficient.
inline constexpr Index kTileCells = 256;
struct TileAddress {
  int z = 0;
  Index x = 0;
  Index y = 0;
};

/// The maps of one batch entry of a capture. Shares ownership of the capture, copies nothing of it, and is cheap to copy; const
/// calls may run concurrently. Results have the same bits for any number of threads and however they were asked for: a row, a
/// tile and a single coefficient agree.
///
/// Errors: InvalidArgument for a head, row, key, range or tile that is not there.
class MULTIHEAD_API AttentionMap {
 public:
  /// Throws InvalidArgument for a null or inconsistent capture (check()) or a batch entry that is not there. O(sequences).
  explicit AttentionMap(std::shared_ptr<const Capture> capture, Index batch = 0);

  const Capture& capture() const;
  const std::shared_ptr<const Capture>& shared_capture() const;
  Index batch_entry() const;
  Index num_heads() const;
  Index query_len() const;
  Index key_len() const;
  /// Labels of this entry's rows and keys, one each, or empty. They live as long as the capture's. Throws
  /// InvalidArgument when somebody has given the capture another number of labels since.
  std::span<const std::string> query_tokens() const;
  std::span<const std::string> key_tokens() const;

  /// The smallest z at which a cell is one coefficient: ceil(log2(max(query_len, key_len) / 256)), at least 0.
  int max_zoom() const;
  /// Rows (and keys) of a cell of zoom z, 0 … max_zoom.
  Index cell_size(int z) const;
  /// The request that a tile stands for; throws InvalidArgument for one outside 0 … 2^z - 1.
  TileRequest tile_request(const TileAddress& address, Pooling pooling = Pooling::kMax) const;
  /// Whether a row may see a key, by all constraints. O(log sequences).
  bool visible(Index head, Index i, Index j) const;
  /// Number of keys that row i sees: V(i). O(1), or O(key_len) under a mask or bias.
  Index visible_keys(Index head, Index i) const;
  /// Absolute position of row i, counted from the first key of its sequence: causality, windows and distances are about
  /// position(i) - (j - first key of the sequence).
  Index position(Index i) const;
  /// Whether some row of a range sees some key of another by causality, windows, lengths and packing (masks and biases are not
  /// asked). False: every cell there is masked or outside. O(sequences).
  bool may_see(IndexRange rows, IndexRange keys) const;

  /// One coefficient. 2 * head_dim operations and some microseconds.
  Coefficient at(Index head, Index i, Index j) const;
  /// at(…).probability.
  float probability(Index head, Index i, Index j) const;
  /// A whole row. 2 * key_len * head_dim operations.
  MapRow row(Index head, Index i) const;
  /// The k largest of a row (fewer when fewer are visible), largest first, equal ones by key. A NaN counts as largest.
  /// As `row`, without its memory.
  std::vector<TopKey> top(Index head, Index i, Index k) const;
  /// Any rectangle at any size. 2 * visible pairs * head_dim operations on all threads; memory for the cells alone.
  Tile tile(Index head, const TileRequest& request, const Progress& progress = {}) const;
  Tile tile(Index head, const TileAddress& address, Pooling pooling = Pooling::kMax) const;
  /// The same rectangle estimated from every step-th row and key (in the grid of absolute positions, so that diagonals stay
  /// where they are): 1 / step^2 of the work. Tile::sampled is set; maxima are those of the sample; a cell that has visible
  /// pairs but none in the sample is kMasked. step >= 1.
  Tile sampled_tile(Index head, const TileRequest& request, Index step) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// All tiles of one head up to zoom min(4, max_zoom), from one sweep over its coefficients: 2 * visible pairs * head_dim
/// operations once, then every coarse tile is a copy. 12 bytes a cell (16 under a mask or bias), tiles without a visible pair
/// left out: for 131,072 tokens 140 MiB causal, 256 MiB full. Const calls may run concurrently.
class MULTIHEAD_API Pyramid {
 public:
  static constexpr int kMaxZoom = 4;

  /// Sweeps. Throws InvalidArgument for a head that is not there or a map of more than 2^24 rows or keys, Cancelled.
  Pyramid(const AttentionMap& map, Index head, const Progress& progress = {});
  ~Pyramid();
  Pyramid(Pyramid&&) noexcept;
  Pyramid& operator=(Pyramid&&) noexcept;

  const AttentionMap& map() const;
  Index head() const;
  int max_zoom() const;  ///< min(kMaxZoom, map().max_zoom())
  /// A tile of z <= max_zoom(). Values agree with AttentionMap::tile to f32 rounding of sums; maxima and their places exactly.
  Tile tile(const TileAddress& address, Pooling pooling = Pooling::kMax) const;
  Index bytes() const;  ///< memory held

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace multihead
