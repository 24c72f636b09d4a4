// What a head that looks at all its visible keys equally would give: 1 / V(i) for each of them, summed in every way in which
// statistics sum p. Exact and without scores; from runs of visible keys, so that ranges cost O(1) a row.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "multihead/statistics.h"
#include "observe/capture_view.h"

namespace multihead {

/// Calls run(begin, end) for every maximal stretch of keys that a local row sees.
template <typename Run>
void for_each_run(const HeadSequence& one, Index row, const Run& run) {
  const kernels::KeyRange range = one.range(row);
  if (!one.has_mask()) {
    if (range.begin < range.end) run(range.begin, range.end);
    return;
  }
  Index begin = range.begin;
  for (Index key = range.begin; key <= range.end; ++key) {
    if (key < range.end && one.unmasked(row, key)) continue;
    if (begin < key) run(begin, key);
    begin = key + 1;
  }
}

/// Sums over the rows of one head. Columns and distances are those of the map: key j, and distance d at d - first_distance.
struct Baseline {
  std::vector<Index> visible;  ///< [query_len]
  double entropy = 0;          ///< sum of ln V
  double max_probability = 0;  ///< sum of 1 / V, likewise
  double effective_keys = 0;   ///< sum of V
  double distance = 0;
  std::array<double, kSinkKeys> confidence_without_first{}, sink{};
  std::vector<double> offsets;
  std::vector<double> received, at_distance;  ///< empty unless wanted
  std::vector<Index> seen_by, pairs_at_distance;
  double duplicate = 0, induction = 0;
};

/// Tokens as numbers, equal where the strings are equal: of rows and of keys; empty when the capture lacks either.
struct TokenIds {
  std::vector<float> query, key;
};

struct BaselineRequest {
  const StatisticsRequest& request;
  const TokenIds& tokens;
  Index query_len, key_len;
  Index first_distance, distances;  ///< 0: not wanted
  bool uniform;                     ///< false: only what is counted (visible, seen_by, pairs_at_distance)
};

Baseline baseline_of(const std::vector<std::unique_ptr<HeadSequence>>& head, const BaselineRequest& wanted);

}  // namespace multihead
