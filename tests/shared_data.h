// Test data that may be missing: tests that use it skip with a word about where it was looked for.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace multihead::testing {

/// Where test data of this name would be: in $MULTIHEAD_SHARED_DATA, or in ../shared/data beside the sources.
inline std::filesystem::path shared_data_path(const std::string& name) {
  const char* folder = std::getenv("MULTIHEAD_SHARED_DATA");
  return (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "../shared/data") /
         name;
}

inline std::optional<std::filesystem::path> shared_data(const std::string& name) {
  const std::filesystem::path path = shared_data_path(name);
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

}  // namespace multihead::testing
