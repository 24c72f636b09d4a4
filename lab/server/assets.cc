#include "lab/server/assets.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace multihead::lab {

std::string_view asset(std::string_view path) {
  for (const Asset& candidate : assets()) {
    if (candidate.path == path) return candidate.content;
  }
  throw std::out_of_range("no page file " + std::string(path));
}

std::string_view type_of(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{".js", "text/javascript; charset=utf-8"},
                                                                             {".css", "text/css; charset=utf-8"},
                                                                             {".json", "application/json; charset=utf-8"},
                                                                             {".svg", "image/svg+xml"},
                                                                             {".html", "text/html; charset=utf-8"}};
  for (const auto& [ending, type] : kTypes) {
    if (path.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

}  // namespace multihead::lab
