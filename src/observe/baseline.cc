#include "observe/baseline.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace multihead {
namespace {

// Adds to whole stretches of an array in O(1), and sums up at the end.
template <typename Number>
class Stretches {
 public:
  explicit Stretches(Index size) : steps_(static_cast<std::size_t>(size) + 1, 0) {}
  void add(Index begin, Index end, Number amount) {
    steps_[static_cast<std::size_t>(begin)] += amount;
    steps_[static_cast<std::size_t>(end)] -= amount;
  }
  std::vector<Number> sums() && {
    for (std::size_t n = 1; n < steps_.size(); ++n) steps_[n] += steps_[n - 1];
    steps_.pop_back();
    return std::move(steps_);
  }

 private:
  std::vector<Number> steps_;
};

// Where each token stands among the keys of a sequence, ascending.
class Occurrences {
 public:
  Occurrences(const HeadSequence& one, const std::vector<float>& tokens) {
    for (Index key = 0; !tokens.empty() && key < one.keys(); ++key) {
      places_[tokens[static_cast<std::size_t>(one.key_origin + key)]].push_back(key);
    }
  }
  /// How many of the keys [begin, end) carry the token.
  Index count(float token, Index begin, Index end) const {
    const auto found = places_.find(token);
    if (found == places_.end() || begin >= end) return 0;
    const auto& places = found->second;
    return std::lower_bound(places.begin(), places.end(), end) - std::lower_bound(places.begin(), places.end(), begin);
  }

 private:
  std::map<float, std::vector<Index>> places_;
};

// sum |position - key| over [begin, end).
double distances(Index position, Index begin, Index end) {
  const auto triangle = [](double n) { return n * (n + 1) / 2; };  // 1 + … + n
  const auto p = static_cast<double>(position), a = static_cast<double>(begin), b = static_cast<double>(end - 1);
  if (p >= b) return triangle(p - a) - triangle(p - b - 1);
  if (p <= a) return triangle(b - p) - triangle(a - p - 1);
  return triangle(p - a) + triangle(b - p);
}

Index overlap(Index begin, Index end, Index low, Index high) {
  return std::max<Index>(0, std::min(end, high) - std::max(begin, low));
}

class Summing {
 public:
  Summing(const BaselineRequest& wanted, Baseline& sums)
      : wanted_(wanted),
        sums_(sums),
        received_(wanted.key_len),
        seen_by_(wanted.key_len),
        at_distance_(wanted.distances),
        pairs_(wanted.distances) {
    sums_.visible.assign(static_cast<std::size_t>(wanted.query_len), 0);
    sums_.offsets.assign(wanted.request.offsets.size(), 0);
  }

  void add(const HeadSequence& one) {
    const bool tokens = wanted_.uniform && !wanted_.tokens.key.empty();
    const Occurrences places(one, tokens ? wanted_.tokens.key : std::vector<float>());
    for (Index row = 0; row < one.rows(); ++row) {
      Index visible = 0;
      for_each_run(one, row, [&](Index begin, Index end) { visible += end - begin; });
      sums_.visible[static_cast<std::size_t>(one.row_origin + row)] = visible;
      if (visible == 0) continue;
      if (wanted_.uniform) {
        const auto v = static_cast<double>(visible);
        sums_.entropy += std::log(v);
        sums_.max_probability += 1 / v;
        sums_.effective_keys += v;
        add_front(one, row, visible);
      }
      for_each_run(one, row, [&](Index begin, Index end) {
        add_run(one, row, begin, end, 1 / static_cast<double>(visible));
        if (tokens) add_tokens(one, row, begin, end, 1 / static_cast<double>(visible), places);
      });
    }
  }

  void finish() && {
    sums_.seen_by = std::move(seen_by_).sums();
    sums_.pairs_at_distance = std::move(pairs_).sums();
    if (!wanted_.uniform) return;
    sums_.received = std::move(received_).sums();
    sums_.at_distance = std::move(at_distance_).sums();
  }

 private:
  void add_front(const HeadSequence& one, Index row, Index visible) {
    std::array<Index, kSinkKeys> front{};  // visible ones among the first 1 … 4 keys
    for_each_run(one, row, [&](Index begin, Index end) {
      for (int k = 0; k < kSinkKeys; ++k) front[static_cast<std::size_t>(k)] += overlap(begin, end, 0, k + 1);
    });
    for (std::size_t k = 0; k < front.size(); ++k) {
      const auto v = static_cast<double>(visible);
      sums_.sink[k] += static_cast<double>(front[k]) / v;
      if (front[k] < visible) sums_.confidence_without_first[k] += 1 / v;
    }
  }

  void add_run(const HeadSequence& one, Index row, Index begin, Index end, double each) {
    const Index position = one.position(row);
    seen_by_.add(one.key_origin + begin, one.key_origin + end, 1);
    const Index low = position - end + 1 - wanted_.first_distance, high = position - begin + 1 - wanted_.first_distance;
    if (wanted_.distances > 0) pairs_.add(low, high, 1);
    if (!wanted_.uniform) return;
    received_.add(one.key_origin + begin, one.key_origin + end, each);
    if (wanted_.distances > 0) at_distance_.add(low, high, each);
    sums_.distance += each * distances(position, begin, end);
    for (std::size_t n = 0; n < sums_.offsets.size(); ++n) {
      const Index key = position - wanted_.request.offsets[n];
      if (key >= begin && key < end) sums_.offsets[n] += each;
    }
  }

  void add_tokens(const HeadSequence& one, Index row, Index begin, Index end, double each, const Occurrences& places) {
    const float token = wanted_.tokens.query[static_cast<std::size_t>(one.row_origin + row)];
    const Index position = one.position(row);
    sums_.duplicate += each * static_cast<double>(places.count(token, begin, std::min(end, position)));
    // Keys j <= position behind a key j - 1 >= 0 with the token.
    const Index low = std::max<Index>(begin - 1, 0), high = std::min(end, position + 1) - 1;
    sums_.induction += each * static_cast<double>(places.count(token, low, high));
  }

  const BaselineRequest& wanted_;
  Baseline& sums_;
  Stretches<double> received_;
  Stretches<Index> seen_by_;
  Stretches<double> at_distance_;
  Stretches<Index> pairs_;
};

}  // namespace

Baseline baseline_of(const std::vector<std::unique_ptr<HeadSequence>>& head, const BaselineRequest& wanted) {
  Baseline sums;
  Summing summing(wanted, sums);
  for (const auto& one : head) summing.add(*one);
  std::move(summing).finish();
  return sums;
}

}  // namespace multihead
