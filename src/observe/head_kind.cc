// look_of: thresholds on excess over even attention.
#include "multihead/head_kind.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"

namespace multihead {
namespace {

constexpr double kPlaceExcess = 0.5, kSinkExcess = 0.3, kTokenExcess = 0.3, kSeparatorExcess = 0.5, kBroadEntropy = 0.85;

double excess_of(const Measured& mass) { return mass.uniform < 1 ? (mass.value - mass.uniform) / (1 - mass.uniform) : 0; }

// Mean mass at distances first … last.
Measured mass_at(const HeadStatistics& head, Index first, Index last) {
  Measured sum;
  const auto count = static_cast<Index>(head.distance_mass.size());
  for (Index d = std::max(first, head.first_distance); d <= last && d - head.first_distance < count; ++d) {
    const auto at = static_cast<std::size_t>(d - head.first_distance);
    sum.value += head.distance_mass[at];
    sum.uniform += head.distance_uniform[at];
  }
  const auto rows = static_cast<double>(std::max<Index>(head.live_rows, 1));
  return {sum.value / rows, sum.uniform / rows};
}

// The distance with the largest excess but those that have a kind of their own.
Index offset_of(const HeadStatistics& head) {
  Index best = 0;
  double most = 0;
  for (Index n = 0; n < static_cast<Index>(head.distance_mass.size()); ++n) {
    const Index d = head.first_distance + n;
    if (std::abs(d) <= 1) continue;
    if (const double excess = excess_of(mass_at(head, d, d)); excess > most) {
      most = excess;
      best = d;
    }
  }
  return best;
}

// Neither letters nor digits; everything beyond ASCII counts as letters.
bool is_separator(const std::string& token) {
  const auto is_word = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
  };
  return !token.empty() && std::none_of(token.begin(), token.end(), is_word);
}

Measured separator_mass_of(const HeadStatistics& head, const std::vector<std::string>& tokens) {
  Measured sum;
  if (tokens.empty() || head.received.empty()) return sum;
  require(tokens.size() == head.received.size(), "look_of: expected a token for each of ", head.received.size(), " keys; got ",
          tokens.size());
  for (std::size_t j = 0; j < tokens.size(); ++j) {
    if (!is_separator(tokens[j])) continue;
    sum.value += head.received[j];
    if (!head.received_uniform.empty()) sum.uniform += head.received_uniform[j];
  }
  const auto rows = static_cast<double>(std::max<Index>(head.live_rows, 1));
  return {sum.value / rows, sum.uniform / rows};
}

struct Candidate {
  HeadKind kind;
  Measured mass;
  double least;
};

double preference_of(HeadKind kind) {
  switch (kind) {
    case HeadKind::kInduction:
      return 3;
    case HeadKind::kDuplicate:
    case HeadKind::kSeparator:
    case HeadKind::kMixed:
      return 2;
    case HeadKind::kPrevious:
    case HeadKind::kSelf:
    case HeadKind::kNext:
    case HeadKind::kOffset:
    case HeadKind::kSink:
    case HeadKind::kLocal:
      return 1;
    case HeadKind::kBroad:
    case HeadKind::kNone:
      break;
  }
  return 0;
}

std::vector<Candidate> candidates_of(const HeadStatistics& head, const HeadLook& look) {
  std::vector<Candidate> candidates{{HeadKind::kPrevious, mass_at(head, 1, 1), kPlaceExcess},
                                    {HeadKind::kSelf, mass_at(head, 0, 0), kPlaceExcess},
                                    {HeadKind::kNext, mass_at(head, -1, -1), kPlaceExcess},
                                    {HeadKind::kSink, head.sink_mass[0], kSinkExcess},
                                    {HeadKind::kSeparator, look.separator_mass, kSeparatorExcess}};
  if (look.distance != 0) candidates.push_back({HeadKind::kOffset, mass_at(head, look.distance, look.distance), kPlaceExcess});
  if (head.has_tokens) {
    candidates.push_back({HeadKind::kInduction, head.induction_mass, kTokenExcess});
    candidates.push_back({HeadKind::kDuplicate, head.duplicate_mass, kTokenExcess});
  }
  return candidates;
}

}  // namespace

std::string_view name_of(HeadKind kind) {
  switch (kind) {
    case HeadKind::kPrevious:
      return "previous token";
    case HeadKind::kSelf:
      return "self";
    case HeadKind::kNext:
      return "next token";
    case HeadKind::kOffset:
      return "fixed distance";
    case HeadKind::kSink:
      return "first-key sink";
    case HeadKind::kInduction:
      return "induction";
    case HeadKind::kDuplicate:
      return "same token";
    case HeadKind::kSeparator:
      return "separators";
    case HeadKind::kLocal:
      return "local";
    case HeadKind::kBroad:
      return "broad";
    case HeadKind::kMixed:
      return "mixed";
    case HeadKind::kNone:
      break;
  }
  return "-";
}

std::string name_of(const HeadLook& look) {
  if (look.kind != HeadKind::kOffset) return std::string(name_of(look.kind));
  return concat(std::abs(look.distance), look.distance > 0 ? " tokens back" : " tokens ahead");
}

HeadLook look_of(const HeadStatistics& head, const std::vector<std::string>& key_tokens) {
  HeadLook look;
  const double entropy = head.normalized_entropy.value;
  look.local_mass = mass_at(head, -kLocalDistance, kLocalDistance);
  look.separator_mass = separator_mass_of(head, key_tokens);
  look.measured = head.normalized_entropy;
  if (head.live_rows == 0 || !std::isfinite(entropy)) return look;  // nothing to choose from, or NaN among what is visible
  look.distance = offset_of(head);
  look.kind = entropy >= kBroadEntropy ? HeadKind::kBroad : HeadKind::kMixed;
  const auto take = [&look](const Candidate& candidate) {
    look.kind = candidate.kind;
    look.measured = candidate.mass;
    look.excess = excess_of(candidate.mass);
  };
  for (const Candidate& candidate : candidates_of(head, look)) {
    const double excess = excess_of(candidate.mass);
    if (excess >= candidate.least && excess > look.excess) take(candidate);
  }
  const Candidate local{HeadKind::kLocal, look.local_mass, kPlaceExcess};
  if (look.kind == HeadKind::kMixed && excess_of(local.mass) >= local.least) take(local);
  if (look.kind != HeadKind::kOffset) look.distance = 0;
  constexpr double kBelowOne = 0.999;  // the next preference begins at 1
  look.interest =
      preference_of(look.kind) + std::clamp(look.kind == HeadKind::kInduction ? look.excess : 1 - entropy, 0.0, kBelowOne);
  return look;
}

Index most_interesting(const std::vector<HeadLook>& looks) {
  const auto less = [](const HeadLook& a, const HeadLook& b) { return a.interest < b.interest; };
  const auto best = std::max_element(looks.begin(), looks.end(), less);
  return best == looks.end() ? -1 : best - looks.begin();
}

}  // namespace multihead
