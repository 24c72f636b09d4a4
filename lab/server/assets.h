// The page's files, compiled in (cmake/embed.cmake): the installed program needs none.
#pragma once

#include <span>
#include <string_view>

namespace multihead::lab {

struct Asset {
  std::string_view path;  ///< below lab/web, e.g. "text/en.json"
  std::string_view content;
};

/// All of lab/web, in alphabetical order.
std::span<const Asset> assets();
/// Throws std::out_of_range for a path that is not there: a mistake of ours.
std::string_view asset(std::string_view path);
/// "text/javascript; charset=utf-8" for .js, and so on.
std::string_view type_of(std::string_view path);

}  // namespace multihead::lab
