// What a head looks like, from its numbers: one word for a line of a table. A word tells where a head reads on this text, not
// what it is for: another text may give another word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.h"
#include "multihead/statistics.h"

namespace multihead {

/// Each kind but the last three rests on a *mass* m, the mean share of a row's attention that falls on some keys. It is judged
/// by its excess over the share u that even attention over the visible keys would put there,
///
///     excess = (m - u) / (1 - u)          1: all of it; 0: as even attention; below 0: less
///
/// (the form of Cohen's kappa, 1960: agreement beyond chance), because in short texts even attention puts a third of itself
/// near by, and gives the first key ln(n) times what others get.
enum class HeadKind {
  kPrevious,   ///< on the key one position before: excess at least 0.5, as Clark et al. 2019 (§3.2) count such heads
  kSelf,       ///< on the row's own key: the same
  kNext,       ///< on the key one position behind: the same
  kOffset,     ///< on the keys at another distance, always the same (Voita et al. 2019: positional heads): the same
  kSink,       ///< on the first key of the sequence: excess at least 0.3, the threshold of Gu et al. 2024 for alpha_0
  kInduction,  ///< on keys behind an earlier copy of the row's token (Olsson et al. 2022): excess at least 0.3, because rows
               ///< whose token is new have no such key and pull the mean down
  kDuplicate,  ///< on earlier copies of the row's token (TransformerLens): the same
  kSeparator,  ///< on tokens of spaces and punctuation alone (Clark et al. 2019, §3.3): excess at least 0.5
  kLocal,      ///< none of the above, and on keys at most kLocalDistance away: excess at least 0.5
  kBroad,      ///< none of the above, and normalised entropy at least 0.85: of 128 keys as many as 62 alike
  kMixed,      ///< none of the above: the head's keys depend on what stands there, or on several of these
  kNone,       ///< no row has a choice, or a number is not finite
};

inline constexpr Index kLocalDistance = 8;

/// "previous token", "self", "next token", "fixed distance", "first-key sink", "induction", "same token", "separators",
/// "local", "broad", "mixed", "-".
MULTIHEAD_API std::string_view name_of(HeadKind kind);

/// A kind and what it rests on.
struct HeadLook {
  HeadKind kind = HeadKind::kNone;
  /// The mass of the kind; for kBroad and kMixed the normalised entropy (uniform: 1).
  Measured measured;
  Measured local_mass;      ///< on keys at most kLocalDistance away
  Measured separator_mass;  ///< on tokens of spaces and punctuation alone; 0 without tokens
  Index distance = 0;       ///< of kOffset: how far back; negative: ahead
  double excess = 0;        ///< of `measured`; for kBroad, kMixed and kNone 0
  /// How much there is to see; larger is more. The integer part is a preference: 3 for induction, the one kind that is about
  /// the text and not about places; 2 for same-token, separator and mixed heads, whose keys the text chooses too; 1 for places;
  /// 0 for broad. Within it, how far the rows are from even attention: 1 - normalised entropy, which is the mean
  /// Kullback-Leibler divergence from it in units of ln V; for induction, the excess. -1 for kNone.
  double interest = -1;
};

/// "3 tokens back" for kOffset, else name_of(kind).
MULTIHEAD_API std::string name_of(const HeadLook& look);

/// The kind of a head. When several of those before kLocal reach their thresholds, that with the largest excess; kLocal, which
/// contains some of them, and kBroad only without them.
///
/// Needs what statistics() computes by default: distance_profile for places, columns and `key_tokens` (the map's)
/// for separators, tokens for induction and same-token heads, baselines for all. What is not there is not considered. O(key_len
/// + distances). Throws InvalidArgument when there are key tokens, but not one for each key.
MULTIHEAD_API HeadLook look_of(const HeadStatistics& head, const std::vector<std::string>& key_tokens = {});

/// Index of the head with the most interest, the first among equals; -1 of an empty list.
MULTIHEAD_API Index most_interesting(const std::vector<HeadLook>& looks);

}  // namespace multihead
