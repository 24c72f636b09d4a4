#include "multihead/mask.h"

#include <bit>
#include <cmath>

#include "base/message.h"

namespace multihead {

std::vector<float> alibi_slopes(Index num_heads) {
  require(num_heads >= 0, "alibi_slopes: expected 0 or more heads; got ", num_heads);
  if (num_heads == 0) return {};
  const auto lower = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(num_heads)));
  std::vector<float> slopes;
  for (Index i = 1; i <= lower; ++i)
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(lower))));
  // The rest: every other slope of the series for twice as many heads, from its first.
  for (Index i = 1; static_cast<Index>(slopes.size()) < num_heads; i += 2) {
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(2 * lower))));
  }
  return slopes;
}

}  // namespace multihead
