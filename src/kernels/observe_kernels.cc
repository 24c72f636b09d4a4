// The observation kernels' entry points, compiled once for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/observe_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <cassert>

#include "hwy/highway.h"
#include "kernels/observe-inl.h"
#include "kernels/observed_forward-inl.h"
#include "kernels/statistics-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

void CoefficientRows(const AttentionProblem& problem, const Block& block, const CoefficientTarget& target, float* workspace) {
  const BlockContext c = make_context(problem, block, workspace);
  pack_queries(c);
  const LaneLse lse(c, target.lse);
  HWY_ALIGN float maxima[kPanelLanes];
  for (Index l = 0; l < c.lanes; ++l) {
    std::fill_n(target.log2[l], target.keys.end - target.keys.begin, kMinusInfinity);
    if (target.probability != nullptr) std::fill_n(target.probability[l], target.keys.end - target.keys.begin, 0.0f);
  }
  const KeyRange visible = block_keys(problem, block);
  for_each_piece(std::max(visible.begin, target.keys.begin), std::min(visible.end, target.keys.end),
                 [&](Index from, Index end) HWY_ATTR {
                   for_each_panel_scores(c, from, end, key_rows(c, from, end), maxima,
                                         [&](auto vectors, Index first, const TileKeys& tile) HWY_ATTR {
                                           constexpr Index kWidth = vectors() * kN;
                                           for (Index key = tile.begin; key < tile.end; ++key) {
                                             float* HWY_RESTRICT at = c.scores + (key - tile.begin) * kWidth;
                                             HWY_ALIGN float p[kWidth];
                                             for (Index v = 0; v < kWidth; v += kN) {
                                               const Vec log2 = lse.log2_of(hn::Load(kTag, at + v), first + v);
                                               hn::Store(log2, kTag, at + v);
                                               hn::Store(exp2(log2), kTag, p + v);
                                             }
                                             for (Index l = 0; l < std::min(kWidth, c.lanes - first); ++l) {
                                               target.log2[first + l][key - target.keys.begin] = at[l];
                                               if (target.probability != nullptr)
                                                 target.probability[first + l][key - target.keys.begin] = p[l];
                                             }
                                           }
                                         });
                 });
}

// Scores come a key block at a time, whatever the cells, because short calls would read the packed queries over and over; all
// cells that begin or end in a key block are therefore open at once.
void ReduceCells(const AttentionProblem& problem, const Block& block, const double* lse_of_lanes, std::span<const Index> edges,
                 const CellSink& sink, float* workspace) {
  const BlockContext c = make_context(problem, block, workspace);
  pack_queries(c);
  const LaneLse lse(c, lse_of_lanes);
  HWY_ALIGN float maxima[kPanelLanes];
  const bool counts = problem.mask.data != nullptr || problem.bias.data != nullptr;
  const KeyRange visible = block_keys(problem, block);
  const Index begin = std::max(edges.front(), visible.begin), end = std::min(edges.back(), visible.end);
  if (begin >= end) return;
  auto at = static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), begin) - edges.begin()) - 1;
  std::vector<CellLanes> cells(1);  // the first may have begun in an earlier key block
  cells.front().reset(c.padded);
  for_each_piece(begin, end, [&](Index from, Index to) HWY_ATTR {
    std::size_t last = at;  // the cell that holds key to - 1
    while (edges[last + 1] < to) ++last;
    const std::size_t open = last - at + 1;
    if (cells.size() < open) cells.resize(open);
    for (std::size_t n = 1; n < open; ++n) cells[n].reset(c.padded);
    for_each_panel_scores(
        c, from, to, key_rows(c, from, to), maxima, [&](auto vectors, Index first, const TileKeys& tile) HWY_ATTR {
          constexpr Index kWidth = vectors() * kN;
          for (std::size_t n = at; n <= last; ++n) {
            const Index low = std::max(edges[n], tile.begin), high = std::min(edges[n + 1], tile.end);
            if (low >= high) continue;
            CellLanes& cell = cells[n - at];
            add_to_cell<vectors()>(c.scores + (low - tile.begin) * kWidth, high - low, low - edges[n], first, lse, cell);
            if (counts) count_visible(c, first, kWidth, tile, {low, high}, cell);
          }
        });
    for (; at <= last && (edges[at + 1] <= to || to == end); ++at) {
      CellLanes& cell = cells[at + open - 1 - last];
      if (edges[at] == edges[at + 1]) continue;
      finish_cell(c, cell);
      sink({static_cast<Index>(at), cell.largest, cell.key, cell.mass, cell.relative, counts ? cell.visible : nullptr});
    }
    // What is still open moves to the front; when all are done the next one starts there.
    if (at <= last) {
      if (open > 1) std::swap(cells.front(), cells[open - 1]);
    } else {
      cells.front().reset(c.padded);
      while (at + 2 < edges.size() && edges[at + 1] <= to) ++at;  // empty cells
    }
  });
}

void SumCoefficients(const AttentionProblem& problem, const Block& block, const StatisticsInput& input, const LaneSums& lanes,
                     const SharedSums& shared, float* workspace) {
  const BlockContext c = make_context(problem, block, workspace);
  pack_queries(c);
  const LaneLse lse(c, input.lse);
  HWY_ALIGN float maxima[kPanelLanes];
  for (double* const sums : {lanes.mass, lanes.log2_mass, lanes.squares, lanes.distance, lanes.duplicate, lanes.induction}) {
    if (sums != nullptr) std::fill_n(sums, c.lanes, 0.0);
  }
  for (float* const largest : {lanes.largest, lanes.largest_rest}) std::fill_n(largest, c.lanes, kMinusInfinity);
  for (float* const p : lanes.front) std::fill_n(p, c.lanes, 0.0f);
  for (float* const p : lanes.at_offset) std::fill_n(p, c.lanes, 0.0f);
  const KeyRange visible = block_keys(problem, block);
  SharedStrips sums;
  for_each_piece(visible.begin, visible.end, [&](Index from, Index end) HWY_ATTR {
    if (shared.received != nullptr) std::fill(std::begin(sums.received), std::end(sums.received), 0.0f);
    if (shared.at_distance != nullptr) std::fill(std::begin(sums.diagonal), std::end(sums.diagonal), 0.0f);
    if (shared.bin_mass != nullptr) std::fill(std::begin(sums.bins), std::end(sums.bins), std::uint64_t{0});
    for_each_panel_scores(c, from, end, key_rows(c, from, end), maxima,
                          [&](auto vectors, Index first, const TileKeys& tile) HWY_ATTR {
                            const Strip strip{first, vectors() * kN, tile, lse};
                            update_maxima(c, strip, maxima, lanes);
                            if (shared.bin_mass != nullptr) {
                              weigh_strip<true>(c, strip, lanes);
                              add_bins(c, strip, sums);
                            } else {
                              weigh_strip<false>(c, strip, lanes);
                            }
                            pick(c, strip, input, lanes);
                            if (lanes.duplicate != nullptr) match_tokens(c, strip, input, lanes);
                            if (shared.received != nullptr) add_received(c, strip, sums.received);
                            if (shared.at_distance != nullptr) add_diagonals(c, strip, sums.diagonal);
                          });
    flush(c, from, end, sums, shared);
  });
}

void AttendBlockObserved(const AttentionProblem& problem, const Block& block, const RowResults& results, float* workspace) {
  assert(block.lane_end - block.lane_begin <= kBlockLanes);
  BlockContext c = make_context(problem, block, workspace);
  const KeyRange visible = block_keys(problem, block);
  CoefficientSums sums, total;
  sums.reset();
  if (visible.begin >= visible.end) {
    reset(c, c.state);
    finish_observed(c, c.state, sums, results);
    return;
  }
  pack_queries(c);
  const Index first = visible.begin / kKeyChunk, last = (visible.end - 1) / kKeyChunk;
  walk_panels_observed(c, visible, first, sums);
  std::swap(c.state, c.total);
  total = sums;
  for (Index chunk = first + 1; chunk <= last; ++chunk) {
    walk_panels_observed(c, visible, chunk, sums);
    join_sums(c, total, sums);
    join(c, c.total, c.state);
  }
  finish_observed(c, c.total, total, results);
}

void AddProducts(std::span<const AttentionProblem> heads, const Block& block, std::span<const double* const> lse, double* gram,
                 std::span<float* const> workspaces) {
  const std::size_t count = heads.size();
  std::vector<BlockContext> contexts;
  for (std::size_t h = 0; h < count; ++h) {
    contexts.push_back(make_context(heads[h], block, workspaces[h]));
    pack_queries(contexts.back());
  }
  const KeyRange visible = block_keys(heads[0], block);
  HWY_ALIGN float maxima[kPanelLanes];
  for_each_piece(visible.begin, visible.end, [&](Index from, Index end) HWY_ATTR {
    Index size = 0;  // of a strip; the same for all heads
    for (std::size_t h = 0; h < count; ++h) {
      const BlockContext& c = contexts[h];
      const LaneLse lanes(c, lse[h]);
      for_each_panel_scores(c, from, end, key_rows(c, from, end), maxima,
                            [&](auto vectors, Index, const TileKeys& tile) HWY_ATTR {
                              constexpr Index kWidth = vectors() * kN;
                              size = (tile.end - tile.begin) * kWidth;
                              for (Index at = 0; at < size; at += kWidth) {
                                for (Index v = 0; v < kWidth; v += kN) {
                                  const Vec s = hn::Load(kTag, c.scores + at + v);
                                  hn::Store(exp2(lanes.log2_of(s, v)), kTag, c.scores + at + v);
                                }
                              }
                            });
    }
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        const float *HWY_RESTRICT x = contexts[a].scores, *HWY_RESTRICT y = contexts[b].scores;
        Vec sum[2] = {hn::Zero(kTag), hn::Zero(kTag)};
        Index at = 0;
        for (; at + 2 * kN <= size; at += 2 * kN) {
          sum[0] = hn::MulAdd(hn::Load(kTag, x + at), hn::Load(kTag, y + at), sum[0]);
          sum[1] = hn::MulAdd(hn::Load(kTag, x + at + kN), hn::Load(kTag, y + at + kN), sum[1]);
        }
        if (at < size) sum[0] = hn::MulAdd(hn::Load(kTag, x + at), hn::Load(kTag, y + at), sum[0]);
        HWY_ALIGN float each[kLanes];
        hn::Store(hn::Add(sum[0], sum[1]), kTag, each);
        for (const float part : each) gram[a * count + b] += static_cast<double>(part);
      }
    }
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(CoefficientRows);
HWY_EXPORT(ReduceCells);
HWY_EXPORT(SumCoefficients);
HWY_EXPORT(AttendBlockObserved);
HWY_EXPORT(AddProducts);

void coefficient_rows(const AttentionProblem& problem, const Block& block, const CoefficientTarget& target, float* workspace) {
  HWY_DYNAMIC_DISPATCH(CoefficientRows)(problem, block, target, workspace);
}

void reduce_cells(const AttentionProblem& problem, const Block& block, const double* lse, std::span<const Index> edges,
                  const CellSink& sink, float* workspace) {
  HWY_DYNAMIC_DISPATCH(ReduceCells)(problem, block, lse, edges, sink, workspace);
}

void sum_coefficients(const AttentionProblem& problem, const Block& block, const StatisticsInput& input, const LaneSums& lanes,
                      const SharedSums& shared, float* workspace) {
  HWY_DYNAMIC_DISPATCH(SumCoefficients)(problem, block, input, lanes, shared, workspace);
}

void attend_block_observed(const AttentionProblem& problem, const Block& block, const RowResults& results, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendBlockObserved)(problem, block, results, workspace);
}

void add_products(std::span<const AttentionProblem> heads, const Block& block, std::span<const double* const> lse, double* gram,
                  std::span<float* const> workspaces) {
  HWY_DYNAMIC_DISPATCH(AddProducts)(heads, block, lse, gram, workspaces);
}

}  // namespace multihead::kernels
#endif  // HWY_ONCE
