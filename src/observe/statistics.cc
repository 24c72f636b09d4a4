// statistics: one sweep a head over coefficients that nobody keeps.
#include "multihead/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "base/message.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/observe.h"
#include "observe/baseline.h"
#include "observe/capture_view.h"
#include "observe/pool.h"
#include "observe/progress.h"
#include "observe/values.h"

namespace multihead {
namespace {

static_assert(kSinkKeys == kernels::kFrontKeys && kHistogramBins == kernels::kLogBins);

// Blocks are dealt out to so many groups, each with its own sums over columns; groups are joined in ascending order. A number
// of threads would do as well, but then it would show in the bits.
constexpr std::size_t kGroups = 16;

// Entries of a distance profile; more come only from packed sequences at positions far apart.
constexpr Index kMaxDistances = Index{1} << 26;

constexpr double kLn2 = std::numbers::ln2;

// Rows of one block, lanes of the kernel.
struct Work {
  const HeadSequence* one;
  Index begin, end;
};

// Sums over columns of one group of blocks.
struct Columns {
  std::vector<double> received, at_distance, bin_mass;
  std::vector<Index> bin_pairs;
};

TokenIds intern(const AttentionMap& map) {
  if (map.query_tokens().empty() || map.key_tokens().empty()) return {};
  std::map<std::string_view, float> ids;
  const auto numbers = [&](std::span<const std::string> tokens) {
    std::vector<float> result;
    for (const std::string& token : tokens)
      result.push_back(ids.try_emplace(token, static_cast<float>(ids.size())).first->second);
    return result;
  };
  return {numbers(map.query_tokens()), numbers(map.key_tokens())};
}

// Per row, [query_len]: what the kernel sums.
struct RowSums {
  explicit RowSums(Index rows, std::size_t offsets, bool tokens) {
    const auto n = static_cast<std::size_t>(rows);
    for (auto* sums : {&mass, &log2_mass, &squares, &distance}) sums->assign(n, 0);
    for (auto* values : {&largest, &largest_rest}) values->assign(n, -std::numeric_limits<float>::infinity());
    for (auto& values : front) values.assign(n, 0);
    at_offset.assign(offsets, std::vector<float>(n, 0));
    if (tokens) duplicate.assign(n, 0), induction.assign(n, 0);
  }

  std::vector<double> mass, log2_mass, squares, distance, duplicate, induction;
  std::vector<float> largest, largest_rest;
  std::array<std::vector<float>, kSinkKeys> front;
  std::vector<std::vector<float>> at_offset;
};

// One head's sweep.
class Sweep {
 public:
  Sweep(const CaptureView& view, Index head, const StatisticsRequest& request, const TokenIds& tokens)
      : view_(view),
        head_(head),
        request_(request),
        tokens_(tokens),
        rows_(view.query_len(), request.offsets.size(), !tokens.key.empty()) {
    for (const kernels::Sequence& s : view.sequences()) sequences_.push_back(view.head(head, s));
    first_distance_ = std::numeric_limits<Index>::max();
    Index last = std::numeric_limits<Index>::min();
    for (const auto& one : sequences_) {
      if (one->rows() == 0 || one->keys() == 0) continue;
      first_distance_ = std::min(first_distance_, one->position(0) - one->keys() + 1);
      last = std::max(last, one->position(one->rows() - 1));
    }
    const Index span = last < first_distance_ ? 0 : last - first_distance_ + 1;
    distances_ = request.distance_profile && span <= kMaxDistances ? span : 0;
    if (distances_ == 0) first_distance_ = 0;
  }

  HeadStatistics run(Meter& meter) {
    std::vector<Columns> groups = sweep(meter);
    HeadStatistics result;
    result.head = head_;
    const Baseline baseline = baseline_of(
        sequences_, {request_, tokens_, view_.query_len(), view_.key_len(), first_distance_, distances_, request_.baselines});
    fill_rows(baseline, result);
    fill_means(baseline, result);
    fill_columns(baseline, groups, result);
    fill_values(baseline, result);
    return result;
  }

 private:
  std::vector<Columns> sweep(Meter& meter) {
    std::vector<Work> work;
    for (const auto& one : sequences_) {
      for (Index begin = 0; begin < one->rows(); begin += kernels::kBlockLanes) {
        work.push_back({one.get(), begin, std::min(one->rows(), begin + kernels::kBlockLanes)});
      }
    }
    const std::size_t count = std::min(kGroups, work.size());
    std::vector<Columns> groups(count);
    parallel_for(static_cast<Index>(count), threads_for(static_cast<Index>(count)), [&](Index group, int) {
      Columns& columns = groups[static_cast<std::size_t>(group)];
      const bool wants_columns = request_.columns || request_.values;
      if (wants_columns) columns.received.assign(static_cast<std::size_t>(view_.key_len()), 0);
      if (distances_ > 0) columns.at_distance.assign(static_cast<std::size_t>(distances_), 0);
      if (request_.histogram) columns.bin_mass.assign(kHistogramBins, 0), columns.bin_pairs.assign(kHistogramBins, 0);
      for (std::size_t n = static_cast<std::size_t>(group); n < work.size(); n += kGroups) {
        add_block(work[n], columns);
        meter.add(pairs(work[n]));
      }
    });
    return groups;
  }

 public:
  // What a sweep has to do, for progress.
  static double pairs(const HeadSequence& one, Index begin, Index end) {
    const kernels::KeyRange keys = kernels::block_keys(one.problem, one.block(begin, end));
    return static_cast<double>(end - begin) * static_cast<double>(keys.end - keys.begin);
  }
  double pairs() const {
    double sum = 0;
    for (const auto& one : sequences_) {
      for (Index begin = 0; begin < one->rows(); begin += kernels::kBlockLanes) {
        sum += pairs(*one, begin, std::min(one->rows(), begin + kernels::kBlockLanes));
      }
    }
    return sum;
  }

 private:
  static double pairs(const Work& work) { return pairs(*work.one, work.begin, work.end); }

  void add_block(const Work& work, Columns& columns) {
    const HeadSequence& one = *work.one;
    double lse[kernels::kBlockLanes];
    one.load_lse(work.begin, work.end, lse);
    const Index row = one.row_origin + work.begin;
    const auto at = [row](auto& values) { return values.empty() ? nullptr : values.data() + row; };
    kernels::LaneSums lanes{at(rows_.mass),
                            at(rows_.log2_mass),
                            at(rows_.squares),
                            at(rows_.distance),
                            at(rows_.largest),
                            at(rows_.largest_rest),
                            {},
                            {},
                            at(rows_.duplicate),
                            at(rows_.induction)};
    for (std::size_t k = 0; k < rows_.front.size(); ++k) lanes.front[k] = at(rows_.front[k]);
    std::vector<float*> at_offset;
    for (auto& values : rows_.at_offset) at_offset.push_back(at(values));
    lanes.at_offset = at_offset;
    kernels::SharedSums shared;
    if (!columns.received.empty()) shared.received = columns.received.data() + one.key_origin;
    if (!columns.at_distance.empty()) shared.at_distance = columns.at_distance.data() - first_distance_;
    if (!columns.bin_mass.empty()) shared.bin_mass = columns.bin_mass.data(), shared.bin_pairs = columns.bin_pairs.data();
    kernels::StatisticsInput input{lse, request_.offsets, nullptr, nullptr};
    if (!tokens_.key.empty()) {
      input.query_token = tokens_.query.data() + row;
      input.key_token = tokens_.key.data() + one.key_origin;
    }
    float* const workspace = thread_scratch(kernels::workspace_floats(one.problem, work.end - work.begin));
    kernels::sum_coefficients(one.problem, one.block(work.begin, work.end), input, lanes, shared, workspace);
  }

  // exp(score - lse) of a row's largest score among those that `largest` looked at.
  float probability(std::size_t row, float largest) const {
    if (largest == -std::numeric_limits<float>::infinity()) return 0;
    return static_cast<float>(std::exp2(static_cast<double>(largest) - view_.lse(head_, static_cast<Index>(row)) / kLn2));
  }

  void fill_rows(const Baseline& baseline, HeadStatistics& result) const {
    RowStatistics& rows = result.rows;
    rows.visible = baseline.visible;
    for (std::size_t i = 0; i < rows.visible.size(); ++i) {
      const double mass = rows_.mass[i];
      const bool live = rows.visible[i] > 0, weighs = live && mass > 0;
      // Of p / mass, which a sink logit leaves below 1.
      rows.entropy.push_back(weighs ? static_cast<float>(std::max(0.0, kLn2 * rows_.log2_mass[i] / mass + std::log(mass))) : 0);
      rows.max_probability.push_back(live ? probability(i, rows_.largest[i]) : 0);
      rows.effective_keys.push_back(weighs && rows_.squares[i] > 0 ? static_cast<float>(mass * mass / rows_.squares[i]) : 0);
      rows.mean_distance.push_back(live ? static_cast<float>(rows_.distance[i]) : 0);
      rows.max_score.push_back(live ? static_cast<float>(static_cast<double>(rows_.largest[i]) * kLn2) : 0);
      rows.mass.push_back(live ? static_cast<float>(mass) : 0);
      if (std::isnan(mass) && live) rows.entropy.back() = rows.effective_keys.back() = std::numeric_limits<float>::quiet_NaN();
    }
  }

  // The largest p of a row without its sequence's first k + 1 keys.
  double confidence_without(std::size_t row, std::size_t k) const {
    float largest = probability(row, rows_.largest_rest[row]);
    for (std::size_t front = k + 1; front < rows_.front.size(); ++front) largest = std::max(largest, rows_.front[front][row]);
    return static_cast<double>(largest);
  }

  void fill_means(const Baseline& baseline, HeadStatistics& result) const {
    const RowStatistics& rows = result.rows;
    for (const Index visible : rows.visible) result.live_rows += visible > 0 ? 1 : 0;
    const double n = static_cast<double>(std::max<Index>(result.live_rows, 1));
    const auto mean = [&](const auto& value_of, double uniform) {
      double sum = 0;
      for (std::size_t i = 0; i < rows.visible.size(); ++i) {
        if (rows.visible[i] > 0) sum += static_cast<double>(value_of(i));
      }
      return Measured{sum / n, uniform / n};
    };
    result.entropy = mean([&](std::size_t i) { return rows.entropy[i]; }, baseline.entropy);
    result.confidence = mean([&](std::size_t i) { return rows.max_probability[i]; }, baseline.max_probability);
    result.effective_keys = mean([&](std::size_t i) { return rows.effective_keys[i]; }, baseline.effective_keys);
    result.mean_distance = mean([&](std::size_t i) { return rows_.distance[i]; }, baseline.distance);
    result.row_mass =
        mean([&](std::size_t i) { return rows_.mass[i]; }, request_.baselines ? static_cast<double>(result.live_rows) : 0);
    for (std::size_t k = 0; k < kSinkKeys; ++k) {
      result.confidence_without_first[k] =
          mean([&](std::size_t i) { return confidence_without(i, k); }, baseline.confidence_without_first[k]);
      result.sink_mass[k] = mean(
          [&](std::size_t i) {
            double sum = 0;
            for (std::size_t front = 0; front <= k; ++front) sum += static_cast<double>(rows_.front[front][i]);
            return sum;
          },
          baseline.sink[k]);
    }
    for (std::size_t o = 0; o < request_.offsets.size(); ++o) {
      result.offset_mass.push_back(mean([&](std::size_t i) { return rows_.at_offset[o][i]; }, baseline.offsets[o]));
    }
    result.has_tokens = !tokens_.key.empty();
    if (result.has_tokens) {
      result.duplicate_mass = mean([&](std::size_t i) { return rows_.duplicate[i]; }, baseline.duplicate);
      result.induction_mass = mean([&](std::size_t i) { return rows_.induction[i]; }, baseline.induction);
    }
    for (const double squares : rows_.squares) result.squares += squares;
    fill_normalized_entropy(result);
    double max_score = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rows.visible.size(); ++i) {
      if (rows.visible[i] > 0) max_score = std::max(max_score, static_cast<double>(rows.max_score[i]));
    }
    result.max_score = max_score;
  }

  void fill_normalized_entropy(HeadStatistics& result) const {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < result.rows.visible.size(); ++i) {
      if (result.rows.visible[i] < 2) continue;
      sum += static_cast<double>(result.rows.entropy[i]) / std::log(static_cast<double>(result.rows.visible[i]));
      ++count;
    }
    result.normalized_entropy = {sum / count, 1};
  }

  void fill_columns(const Baseline& baseline, const std::vector<Columns>& groups, HeadStatistics& result) {
    received_.assign(groups.empty() || groups.front().received.empty() ? 0 : static_cast<std::size_t>(view_.key_len()), 0);
    if (groups.empty() && (request_.columns || request_.values)) received_.assign(static_cast<std::size_t>(view_.key_len()), 0);
    if (distances_ > 0) result.distance_mass.assign(static_cast<std::size_t>(distances_), 0);
    for (const Columns& group : groups) {
      for (std::size_t j = 0; j < group.received.size(); ++j) received_[j] += group.received[j];
      for (std::size_t d = 0; d < group.at_distance.size(); ++d) result.distance_mass[d] += group.at_distance[d];
      for (std::size_t b = 0; b < group.bin_mass.size(); ++b) {
        result.histogram_mass[b] += group.bin_mass[b];
        result.histogram_pairs[b] += group.bin_pairs[b];
      }
    }
    result.seen_by = baseline.seen_by;
    if (distances_ > 0) {
      result.first_distance = first_distance_;
      result.distance_pairs = baseline.pairs_at_distance;
      result.distance_uniform = baseline.at_distance;
    }
    if (!request_.columns) return;
    result.received = received_;
    result.received_uniform = baseline.received;
    if (!received_.empty() && result.seen_by.front() > 0) {
      const auto rows = static_cast<double>(result.seen_by.front());
      result.sink_alpha = {received_.front() / rows, request_.baselines ? baseline.received.front() / rows : 0};
    }
    result.is_sink_head = result.sink_alpha.value > 0.3;
  }

  void fill_values(const Baseline& baseline, HeadStatistics& result) const {
    if (!request_.values) return;
    result.has_values = view_.capture().value.rank() > 0;
    result.has_output = view_.capture().output.rank() > 0;
    if (result.has_output) result.output_norm = output_norm_of(view_, head_);
    if (!result.has_values) return;
    result.value_norms = value_norms_of(view_, head_);
    const auto weighted = [&](const std::vector<double>& received, std::array<double, kSinkKeys>& shares) {
      double sum = 0;
      for (std::size_t j = 0; j < received.size(); ++j) sum += received[j] * static_cast<double>(result.value_norms[j]);
      for (const auto& one : sequences_) {
        double front = 0;
        for (Index k = 0; k < kSinkKeys; ++k) {
          const auto j = static_cast<std::size_t>(one->key_origin + k);
          if (k < one->keys() && !received.empty()) front += received[j] * static_cast<double>(result.value_norms[j]);
          if (sum > 0) shares[static_cast<std::size_t>(k)] += front / sum;
        }
      }
      return sum / static_cast<double>(std::max<Index>(result.live_rows, 1));
    };
    std::array<double, kSinkKeys> shares{}, uniform_shares{};
    result.value_weighted_mass = {weighted(received_, shares), weighted(baseline.received, uniform_shares)};
    for (std::size_t k = 0; k < kSinkKeys; ++k) result.value_weighted_sink[k] = {shares[k], uniform_shares[k]};
  }

  const CaptureView& view_;
  const Index head_;
  const StatisticsRequest& request_;
  const TokenIds& tokens_;
  HeadSequences sequences_;
  RowSums rows_;
  Index first_distance_ = 0, distances_ = 0;
  std::vector<double> received_;
};

}  // namespace

std::vector<HeadStatistics> statistics(const AttentionMap& map, const StatisticsRequest& request, const Progress& progress) {
  const CaptureView view(map.shared_capture(), map.batch_entry());
  std::vector<Index> heads = request.heads;
  for (Index h = 0; request.heads.empty() && h < view.heads(); ++h) heads.push_back(h);
  for (const Index head : heads) view.require_head("statistics", head);
  const TokenIds tokens = request.tokens ? intern(map) : TokenIds{};
  std::vector<HeadStatistics> result;
  // All heads look at the same ranges, so one tells how much there is to do.
  const double pairs = heads.empty() ? 0 : Sweep(view, heads.front(), request, tokens).pairs();
  Meter meter(progress, pairs * static_cast<double>(heads.size()));
  for (const Index head : heads) result.push_back(Sweep(view, head, request, tokens).run(meter));
  return result;
}

}  // namespace multihead
