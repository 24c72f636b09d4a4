#include "checkpoint/names.h"

#include <algorithm>
#include <utility>

namespace multihead::checkpoint {

std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= name.size() && !name.empty();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<Index> number_of(std::string_view component) {
  constexpr std::size_t kMaxDigits = 9;
  if (component.empty() || component.size() > kMaxDigits) return std::nullopt;
  Index number = 0;
  for (const char digit : component) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

std::optional<BlockMatch> match_block(std::string_view name, std::string_view pattern, std::string_view tensor) {
  if (!name.ends_with(tensor)) return std::nullopt;
  name.remove_suffix(tensor.size());
  if (name.empty()) return pattern.empty() ? std::optional<BlockMatch>(BlockMatch{}) : std::nullopt;
  if (name.back() != '.') return std::nullopt;
  name.remove_suffix(1);

  const auto wanted = components(pattern);
  const auto parts = components(name);
  if (parts.size() < wanted.size()) return std::nullopt;
  BlockMatch match{std::string(name)};
  bool numbered = false;
  const std::size_t skipped = parts.size() - wanted.size();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string_view part = parts[skipped + i];
    const std::optional<Index> number = wanted[i] == "#" ? number_of(part) : std::nullopt;
    if (number) {
      if (!std::exchange(numbered, true)) match.depth = *number;
    } else if (part != wanted[i]) {
      return std::nullopt;
    }
  }
  return match;
}

DepthKey depth_key(std::string_view path, bool cross) {
  static constexpr std::pair<std::string_view, Index> kOrder[] = {
      {"encoder", 0}, {"decoder", 1}, {"down_blocks", 0}, {"mid_block", 1}, {"up_blocks", 2}};
  DepthKey key;
  std::size_t after_last_number = 0;
  for (const std::string_view part : components(path)) {
    const auto* ordered =
        std::find_if(std::begin(kOrder), std::end(kOrder), [&](const auto& entry) { return entry.first == part; });
    if (const auto number = number_of(part)) {
      key.emplace_back(*number, "");
      after_last_number = key.size();
    } else if (ordered != std::end(kOrder)) {
      key.emplace_back(ordered->second, "");
    } else {
      key.emplace_back(0, part);
    }
  }
  key.emplace(key.begin() + static_cast<std::ptrdiff_t>(after_last_number), cross ? 1 : 0, "");
  return key;
}

}  // namespace multihead::checkpoint
