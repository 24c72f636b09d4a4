// Entry points of the kernels that look at coefficients. Scores go through the code of the forward kernel (panel_scores), so
// they have its bits. But for the last, they work on problems of one head: num_heads = group = 1, so that lane r is query row r
// of the block's sequence. Blocks have at most kBlockLanes lanes. Workspaces: workspace_floats(problem, lanes) of kernels.h.
#pragma once

#include <array>
#include <functional>
#include <span>

#include "kernels/kernels.h"

namespace multihead::kernels {

/// Where the coefficients of a block go: rows[r] receives those of lane lane_begin + r for keys [keys.begin, keys.end).
/// log2 is -inf and the probability 0 where a pair is not visible (a visible pair may have them too).
struct CoefficientTarget {
  const double* lse = nullptr;          ///< [lanes], natural log
  float* const* log2 = nullptr;         ///< (score - lse) * log2(e)
  float* const* probability = nullptr;  ///< null: not wanted
  KeyRange keys;
};
void coefficient_rows(const AttentionProblem& problem, const Block& block, const CoefficientTarget& target, float* workspace);

/// One cell of keys as each lane of a block sees it, [lanes] each.
struct LaneCells {
  Index cell = 0;
  const float* largest = nullptr;   ///< largest log2 p; -inf when no visible score is above that
  const float* key = nullptr;       ///< the first key that has it, counted from the cell's first; a whole number
  const float* mass = nullptr;      ///< sum of p; 0 where that underflows
  const float* relative = nullptr;  ///< sum of p / 2^largest, never underflows; NaN when some p is NaN or infinite
  const float* visible = nullptr;   ///< number of visible keys; null when it follows from key_range alone
};
using CellSink = std::function<void(const LaneCells&)>;

/// Reduces a block over cells of keys, [edges[c], edges[c + 1]) of the sequence, in ascending order; cells that no lane's
/// key_range meets are not reported. lse: [lanes], natural log.
void reduce_cells(const AttentionProblem& problem, const Block& block, const double* lse, std::span<const Index> edges,
                  const CellSink& sink, float* workspace);

/// Keys at the front that confidence and sink masses look at one by one.
inline constexpr int kFrontKeys = 4;
inline constexpr int kLogBins = 64;  ///< of -log2 p, half a bit each

/// Sums over the coefficients of a block. Per lane, [lanes]; they are set, not added to. d = position - key.
struct LaneSums {
  double* mass = nullptr;                  ///< sum p
  double* log2_mass = nullptr;             ///< -sum p log2 p
  double* squares = nullptr;               ///< sum p^2
  double* distance = nullptr;              ///< sum p |d|
  float* largest = nullptr;                ///< largest score * log2(e)
  float* largest_rest = nullptr;           ///< the same without the first kFrontKeys keys
  std::array<float*, kFrontKeys> front{};  ///< p of those keys
  std::span<float* const> at_offset;       ///< p at d = offsets[n], 0 when there is no such key
  double* duplicate = nullptr;             ///< sum p over keys with d > 0 and the lane's token; null: not wanted
  double* induction = nullptr;             ///< sum p over keys with d >= 0 behind which the lane's token stands
};

/// Sums that blocks share; they are added to. Null: not wanted.
struct SharedSums {
  double* received = nullptr;     ///< [key_len]: sum over lanes of p
  double* at_distance = nullptr;  ///< element d: sum of p at distance d; d may be negative
  double* bin_mass = nullptr;     ///< [kLogBins]
  Index* bin_pairs = nullptr;     ///< [kLogBins]
};

struct StatisticsInput {
  const double* lse = nullptr;  ///< [lanes], natural log
  std::span<const Index> offsets;
  const float* query_token = nullptr;  ///< [lanes], whole numbers below 2^24
  const float* key_token = nullptr;    ///< [key_len]
};

void sum_coefficients(const AttentionProblem& problem, const Block& block, const StatisticsInput& input, const LaneSums& lanes,
                      const SharedSums& shared, float* workspace);

/// gram[a * heads + b], a >= b: added the sum over the block and all keys of p^a p^b. All heads see through the same ranges,
/// and the block has at most panel_lanes lanes. lse[h]: [lanes]. workspaces: [heads], one each.
void add_products(std::span<const AttentionProblem> heads, const Block& block, std::span<const double* const> lse, double* gram,
                  std::span<float* const> workspaces);

/// What attend_block_observed tells about rows, [batch, num_heads, query_len] each; a row that sees no key gets 0.
struct RowResults {
  Index num_heads = 0, query_len = 0;
  float* entropy = nullptr;  ///< of p / sum p, nats
  float* max_probability = nullptr;
  float* effective_keys = nullptr;
  float* mean_distance = nullptr;  ///< sum p |d|
};
/// attend_block with the same bits in output and lse, for any number of heads, and statistics of its rows.
void attend_block_observed(const AttentionProblem& problem, const Block& block, const RowResults& results, float* workspace);

}  // namespace multihead::kernels
