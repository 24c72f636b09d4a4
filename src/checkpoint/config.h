// config.json, read with suspicion: absent and null are the same nothing, a list where one number is expected is refused by
// name, and whatever is missing is named in the error.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::checkpoint {

/// The same thing under the names that different architectures give it; the first that is present and not null counts.
using Keys = std::vector<const char*>;

/// A JSON object of a checkpoint's configuration, or nothing (every look-up then finds nothing). Cheap to copy.
/// Look-ups throw FormatError when the value is there but is not what is asked for.
class Config {
 public:
  Config() = default;
  /// config.json of this folder, else params.json (Meta's name for it), else nothing. Throws IoError, FormatError.
  static Config read(const std::filesystem::path& folder);

  /// Present, null included: some classes take an absent key for their default and null for "off".
  bool has(const char* key) const;
  std::optional<Index> count(const Keys& keys, Index minimum = 1) const;
  std::optional<double> number(const Keys& keys) const;
  std::optional<bool> flag(const Keys& keys) const;
  std::optional<std::string> text(const Keys& keys) const;
  /// Element `index` of a list of texts, counts. Throws FormatError when the list is too short.
  std::optional<std::string> text_at(const char* key, Index index) const;
  bool is_list(const char* key) const;
  std::vector<Index> counts(const char* key) const;
  /// An object inside this one; nothing when it is absent or null.
  Config object(const Keys& keys) const;
  bool is_object(const char* key) const;

  /// As above, but the value must be there.
  Index need_count(const Keys& keys) const;
  double need_number(const Keys& keys) const;

 private:
  struct Value {
    const nlohmann::json* json = nullptr;
    const char* key = "";
  };
  Value find(const Keys& keys) const;
  [[noreturn]] void mismatch(const Value& value, const char* expected) const;
  [[noreturn]] void miss(const Keys& keys) const;

  std::shared_ptr<const nlohmann::json> object_;
  std::string source_ = "there is no config.json";
};

}  // namespace multihead::checkpoint
