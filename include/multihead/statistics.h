// What a head does, in numbers: per row and per head, streamed over coefficients that are recomputed and never stored.
//
// p = coefficient, V(i) = keys that row i sees, n = rows that see a key ("live" rows), d = position(i) - key = distance back.
// Means over rows are over live rows. Beside each number stands what a head that looks everywhere equally would give on the
// same visibility (`uniform`): a number means something only in comparison with it.
//
// Sources: Clark et al. 2019 (1906.04341); Voita et al. 2019 (1905.09418); Vig & Belinkov 2019 (1906.04284); Zhai et al. 2023
// (2303.06296); Xiao et al. 2023 (2309.17453); Gu et al. 2024 (2410.10781); Olsson et al. 2022 (2209.11895); Kobayashi et al.
// 2020 (2004.10102). They tell where a head reads, not why a model decides.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "multihead/attention_map.h"
#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// A number and what uniform attention over the same visible keys would give.
struct Measured {
  double value = 0;
  double uniform = 0;
};

inline constexpr int kSinkKeys = 4;        ///< sink masses are told for the first 1 … 4 keys of the sequence
inline constexpr int kHistogramBins = 64;  ///< of -log2 p, half a bit each; the last holds everything from 31.5 bits on

/// What to compute. Rows and head numbers always; the others add to the sweep's cost as said.
struct StatisticsRequest {
  std::vector<Index> heads;             ///< empty: all
  std::vector<Index> offsets = {0, 1};  ///< distances d whose mass is told; 0 = self, 1 = previous, -1 = next
  bool columns = true;                  ///< attention received by each key (a few per cent)
  bool distance_profile = true;         ///< ē(d) for every d (a tenth)
  bool histogram = true;                ///< of -log2 p (more than doubles the sweep)
  bool tokens = true;     ///< duplicate-token and induction mass, when the capture has both token lists (a twentieth)
  bool values = true;     ///< value-weighted numbers, when the capture has values; output norms, when outputs
  bool baselines = true;  ///< the uniform numbers: O(query_len + key_len), with masks or biases O(pairs)
};

/// [query_len] each; a row that sees no key has 0 everywhere.
struct RowStatistics {
  std::vector<Index> visible;  ///< V(i)
  std::vector<float> entropy;  ///< H = -sum p ln p, nats, 0 … ln V
  std::vector<float> max_probability;
  std::vector<float> effective_keys;  ///< N2 = (sum p)^2 / sum p^2, 1 … V
  std::vector<float> mean_distance;   ///< sum p |d|
  std::vector<float> max_score;       ///< max s, natural units, before lse
  std::vector<float> mass;            ///< sum p: 1 up to rounding, less with a sink logit
};

/// One head over one batch entry.
struct HeadStatistics {
  Index head = 0;
  Index live_rows = 0;
  RowStatistics rows;

  Measured entropy;  ///< mean H, nats
  /// Mean H / ln V(i) over rows with V > 1 (a row with one key has no choice; it is left out); uniform: 1. NaN without such
  /// rows.
  Measured normalized_entropy;
  Measured confidence;  ///< mean of max p (Voita)
  /// The same with the first k = 1 … 4 keys of the sequence left out of the maximum: a sink makes every head "confident".
  std::array<Measured, kSinkKeys> confidence_without_first;
  Measured effective_keys;                    ///< mean N2
  Measured mean_distance;                     ///< mean of sum p |d|
  Measured row_mass;                          ///< mean of sum p: 1, or what a sink logit leaves
  double squares = 0;                         ///< sum of p^2 over all pairs
  double max_score = 0;                       ///< over all rows; grows before training diverges (QK clipping)
  std::array<Measured, kSinkKeys> sink_mass;  ///< mean mass on the first k = 1 … 4 keys of the sequence (Xiao)
  std::vector<Measured> offset_mass;  ///< mean p at distance StatisticsRequest::offsets[n], rows without that key count 0

  /// Attention received, [key_len]: c_j = sum_i p_ij; sums to the rows' masses. Empty unless `columns`.
  std::vector<double> received, received_uniform;
  std::vector<Index> seen_by;  ///< rows that see key j
  /// Gu et al.: alpha_j = c_j / rows that see j; alpha_0, and whether it exceeds their threshold 0.3.
  Measured sink_alpha;
  bool is_sink_head = false;

  /// ē(d) = sum of p at distance d / number of pairs at that distance, for d = first_distance + n. Empty unless asked for, or
  /// when packed sequences stand so far apart that it would have more than 2^26 entries.
  Index first_distance = 0;
  std::vector<double> distance_mass;     ///< sum of p at that distance
  std::vector<Index> distance_pairs;     ///< visible pairs at that distance
  std::vector<double> distance_uniform;  ///< sum of 1 / V(i) there
  double mean_at_distance(Index n) const {
    const auto at = static_cast<std::size_t>(n);
    return distance_pairs[at] > 0 ? distance_mass[at] / static_cast<double>(distance_pairs[at]) : 0;
  }

  /// Bin b: visible pairs with b/2 <= -log2 p < (b + 1)/2, and their mass. Pairs whose score is -inf are in neither.
  std::array<Index, kHistogramBins> histogram_pairs{};
  std::array<double, kHistogramBins> histogram_mass{};

  bool has_tokens = false;
  Measured duplicate_mass;  ///< mean mass on keys before the row that carry the row's own token
  Measured induction_mass;  ///< mean mass on keys behind which (one position earlier) the row's own token stands

  bool has_values = false;
  /// nu_j = ‖v_j W_O^h‖ (‖v_j‖ when W_O is not known), [key_len].
  std::vector<float> value_norms;
  Measured value_weighted_mass;  ///< mean of sum_j p nu_j: the length of what is read, directions aside
  /// Share of sum c_j nu_j that falls on the first k = 1 … 4 keys: bright sinks can carry nothing. Needs `columns`.
  std::array<Measured, kSinkKeys> value_weighted_sink;
  bool has_output = false;
  double output_norm = 0;  ///< ‖O_h W_O^h‖_F over all rows (‖O_h‖_F when W_O is not known)
};

/// Statistics of some heads. One sweep a head: 2 * visible pairs * head_dim operations and a few for each coefficient, about
/// two thirds of a forward pass at head_dim 64 (attention_with_statistics tells part of it for next to nothing), on all
/// threads; O((query_len + key_len) * head_dim) memory. Same bits for any number of threads. Throws InvalidArgument for a head
/// that is not there, Cancelled.
MULTIHEAD_API std::vector<HeadStatistics> statistics(const AttentionMap& map, const StatisticsRequest& request = {},
                                                     const Progress& progress = {});

/// What a forward pass can tell about its own rows, [batch, num_heads, query_len] f32 each; 0 for a row that sees no key.
struct ForwardStatistics {
  Tensor entropy;  ///< as RowStatistics, likewise the others
  Tensor max_probability;
  Tensor effective_keys;
  Tensor mean_distance;
};
/// attention(query, key, value, output, options, lse) with its bits and its errors, and statistics of its rows that ride along:
/// a few additions a coefficient, where a sweep of statistics() computes all scores again. Sums are f32, over chunks of keys.
MULTIHEAD_API ForwardStatistics attention_with_statistics(const ConstTensorView& query, const ConstTensorView& key,
                                                          const ConstTensorView& value, const TensorView& output,
                                                          const AttentionOptions& options = {},
                                                          const std::optional<TensorView>& lse = std::nullopt);

/// How alike the maps of heads are: G_ab = sum_ij p^a_ij p^b_ij over all pairs. Its diagonal must equal
/// HeadStatistics::squares, which is computed in another way.
struct HeadSimilarity {
  std::vector<Index> heads;
  std::vector<double> gram;  ///< [heads, heads], row-major, symmetric
  /// G_ab / sqrt(G_aa G_bb): 1 for equal maps; 0 when a map is empty.
  double cosine(std::size_t a, std::size_t b) const;
};
/// One sweep over all given heads at once (empty: all): heads * (2 * visible pairs * head_dim) + heads^2 * pairs operations.
/// Throws InvalidArgument for a head that is not there, Cancelled.
MULTIHEAD_API HeadSimilarity head_similarity(const AttentionMap& map, const std::vector<Index>& heads = {},
                                             const Progress& progress = {});

/// nu_j = ‖v_j W_O^h‖ for every key, [key_len] (‖v_j‖ when W_O is not known): multiply a column of a map by nu_j to see what is
/// really carried. Keys beyond a key length give 0. Throws InvalidArgument when the capture has no values.
MULTIHEAD_API std::vector<float> value_norms(const AttentionMap& map, Index head);

}  // namespace multihead
