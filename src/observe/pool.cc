#include "observe/pool.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/observe.h"

namespace multihead {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Where the largest coefficient is above this, what underflows in f32 beside it does not matter.
constexpr float kDeep = -96;

// Consecutive rows of cells that one thread works on: as many as fill the lanes of a block.
struct Band {
  Index begin, end;  // rows of cells
};

std::vector<Band> bands_of(const CellGrid& grid) {
  std::vector<Band> bands;
  for (Index begin = 0; begin < grid.height();) {
    Index end = begin + 1;
    while (end < grid.height() && grid.rows(end).end - grid.rows(begin).begin <= kernels::kBlockLanes) ++end;
    bands.push_back({begin, end});
    begin = end;
  }
  return bands;
}

// The way of one sequence's blocks into the cells of a band.
class BandPool {
 public:
  BandPool(const CellGrid& grid, Band band, std::vector<PooledCell>& cells) : grid_(grid), band_(band), cells_(cells) {}

  void add(const HeadSequence& one) const {
    const Index begin = one.local_row(grid_.rows(band_.begin).begin), end = one.local_row(grid_.rows(band_.end - 1).end);
    std::vector<Index> edges;
    for (const Index edge : grid_.key_edges) edges.push_back(one.local_key(edge));
    for (Index from = begin; from < end; from += kernels::kBlockLanes) {
      add_block(one, from, std::min(end, from + kernels::kBlockLanes), edges);
    }
  }

 private:
  // Lanes [begin, end) of a block that lie in one row of cells.
  struct Run {
    Index begin, end, cell_row;
  };

  std::vector<Run> runs_of(const HeadSequence& one, Index begin, Index end) const {
    std::vector<Run> runs;
    Index cell_row = band_.begin;
    for (Index r = begin; r < end; ++r) {
      while (one.row_origin + r * one.row_step >= grid_.rows(cell_row).end) ++cell_row;
      if (runs.empty() || runs.back().cell_row != cell_row) runs.push_back({r - begin, r - begin, cell_row});
      ++runs.back().end;
    }
    return runs;
  }

  void add_block(const HeadSequence& one, Index begin, Index end, const std::vector<Index>& edges) const {
    double lse[kernels::kBlockLanes];
    one.load_lse(begin, end, lse);
    const std::vector<Run> runs = runs_of(one, begin, end);
    float* const workspace = thread_scratch(kernels::workspace_floats(one.problem, end - begin));
    kernels::reduce_cells(
        one.problem, one.block(begin, end), lse, edges,
        [&](const kernels::LaneCells& lanes) {
          for (const Run& run : runs) add_run(one, begin, edges[static_cast<std::size_t>(lanes.cell)], run, lanes);
        },
        workspace);
  }

  void add_run(const HeadSequence& one, Index first_row, Index first_key, const Run& run,
               const kernels::LaneCells& lanes) const {
    PooledCell& cell = cells_[static_cast<std::size_t>(run.cell_row * grid_.width() + lanes.cell)];
    // Four of each, so that operations need not wait for each other.
    float maxima[4] = {kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
    double sums[4] = {};
    for (Index l = run.begin; l < run.end; l += 4) {
      for (Index n = 0; n < std::min<Index>(4, run.end - l); ++n) {
        maxima[n] = std::max(maxima[n], lanes.largest[l + n]);
        sums[n] += static_cast<double>(lanes.mass[l + n]);
      }
    }
    const float largest = std::max(std::max(maxima[0], maxima[1]), std::max(maxima[2], maxima[3]));
    if (largest > cell.max_log2) {
      const float* const lane = std::find(lanes.largest + run.begin, lanes.largest + run.end, largest);
      const Index l = lane - lanes.largest;
      cell.max_log2 = largest;
      cell.max_row = one.row_origin + (first_row + l) * one.row_step;
      cell.max_key = one.key_origin + (first_key + static_cast<Index>(lanes.key[l])) * one.key_step;
    }
    const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (std::isfinite(sum) && largest > kDeep && cell.exponent == 0) {
      cell.sum += sum;
    } else {
      for (Index l = run.begin; l < run.end; ++l) add_lane(lanes.largest[l], lanes.relative[l], cell);
    }
    for (Index l = run.begin; lanes.visible != nullptr && l < run.end; ++l)
      cell.visible += static_cast<Index>(lanes.visible[l]);
  }

  static void add_lane(float largest, float relative, PooledCell& cell) {
    if (!std::isfinite(relative) || largest == -kMinusInfinity || std::isnan(largest)) {
      cell.finite = false;
    } else if (largest > kMinusInfinity) {
      add_deep(static_cast<double>(largest), static_cast<double>(relative), cell);
    }
  }

  // The same for coefficients far below 1.
  static void add_deep(double largest, double relative, PooledCell& cell) {
    const auto exponent = static_cast<Index>(std::floor(largest));
    if (cell.sum == 0) {
      cell.exponent = std::min<Index>(exponent, 0);
    } else if (exponent - cell.exponent > 500) {
      cell.sum = std::ldexp(cell.sum, static_cast<int>(std::max<Index>(cell.exponent - exponent, -4000)));
      cell.exponent = std::min<Index>(exponent, 0);
    }
    cell.sum += relative * std::exp2(largest - static_cast<double>(cell.exponent));
  }

  const CellGrid& grid_;
  const Band band_;
  std::vector<PooledCell>& cells_;
};

// Keys of a range that a local row sees.
Index seen(const HeadSequence& one, Index row, Index begin, Index end) {
  const kernels::KeyRange range = one.range(row);
  return std::max<Index>(0, std::min(range.end, end) - std::max(range.begin, begin));
}

}  // namespace

PooledCell::PooledCell() : max_log2(kMinusInfinity) {}

double PooledCell::log2_sum() const {
  return sum > 0 ? std::log2(sum) + static_cast<double>(exponent) : -std::numeric_limits<double>::infinity();
}

std::vector<PooledCell> pool(const HeadSequences& head, const CellGrid& grid, Meter& meter) {
  std::vector<PooledCell> cells(grid.cells());
  const std::vector<Band> bands = bands_of(grid);
  const auto count = static_cast<Index>(bands.size());
  // From below: under a causal mask those are the longest.
  parallel_for(count, threads_for(count), [&](Index n, int) {
    const Band band = bands[static_cast<std::size_t>(count - 1 - n)];
    const BandPool add(grid, band, cells);
    for (const auto& one : head) add.add(*one);
    meter.add(static_cast<double>(grid.rows(band.end - 1).end - grid.rows(band.begin).begin));
  });
  if (!head.empty() && !head.front()->has_mask()) {
    const std::vector<Index> visible = count_visible(head, grid);
    for (std::size_t n = 0; n < cells.size(); ++n) cells[n].visible = visible[n];
  }
  return cells;
}

std::vector<Index> count_visible(const HeadSequences& head, const CellGrid& grid) {
  std::vector<Index> counts(grid.cells(), 0);
  for (const auto& one : head) {
    for (Index r = 0; r < grid.height(); ++r) {
      const Index first = one->local_row(grid.rows(r).begin), last = one->local_row(grid.rows(r).end) - 1;
      if (first > last) continue;
      // Both ends of the range ascend with the row.
      const kernels::KeyRange low = one->range(first), high = one->range(last);
      for (Index c = 0; c < grid.width(); ++c) {
        const Index begin = one->local_key(grid.keys(c).begin), end = one->local_key(grid.keys(c).end);
        if (begin >= end || low.begin >= end || high.end <= begin) continue;
        Index& count = counts[static_cast<std::size_t>(r * grid.width() + c)];
        if (high.begin <= begin && low.end >= end) {
          count += (last - first + 1) * (end - begin);
        } else {
          for (Index row = first; row <= last; ++row) count += seen(*one, row, begin, end);
        }
      }
    }
  }
  return counts;
}

}  // namespace multihead
