#include "checkpoint/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/text.h"

namespace multihead::checkpoint {
namespace {

using nlohmann::json;

// The largest real ones (with a class label per ImageNet-22k category) have about a megabyte.
constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;

// Counts are of heads, layers and positions; the bound keeps products with a tensor's extents far from overflow.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

std::string read_text(const std::filesystem::path& path) {
  const File file(path);
  if (file.size() > kMaxBytes) refuse(file.name(), "expected at most ", kMaxBytes, " bytes; got ", file.size());
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

// Containers are named, not printed: printing them recurses, and a file may nest them without end.
std::string shown(const json& value) {
  if (value.is_array()) return concat("a list of ", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump();
}

std::string joined(const Keys& keys) {
  std::string text;
  for (const char* key : keys) text += concat(text.empty() ? "" : " or ", key);
  return text;
}

}  // namespace

Config Config::read(const std::filesystem::path& folder) {
  for (const char* name : {"config.json", "params.json"}) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    json parsed = json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) refuse(path.string(), "expected a JSON object");
    Config config;
    config.object_ = std::make_shared<const json>(std::move(parsed));
    config.source_ = name;
    return config;
  }
  return {};
}

Config::Value Config::find(const Keys& keys) const {
  if (object_ == nullptr) return {};
  for (const char* key : keys) {
    const auto found = object_->find(key);
    if (found != object_->end() && !found->is_null()) return {&*found, key};
  }
  return {};
}

void Config::mismatch(const Value& value, const char* expected) const {
  throw FormatError(concat(source_, ": ", value.key, ": expected ", expected, "; got ", shown(*value.json)));
}

void Config::miss(const Keys& keys) const {
  throw FormatError(concat(source_, object_ == nullptr ? ", and its key " : ": expected the key ", joined(keys),
                           object_ == nullptr ? " is needed here" : "; it is missing or null"));
}

bool Config::has(const char* key) const { return object_ != nullptr && object_->contains(key); }

bool Config::is_list(const char* key) const { return has(key) && (*object_)[key].is_array(); }

bool Config::is_object(const char* key) const { return has(key) && (*object_)[key].is_object(); }

std::optional<Index> Config::count(const Keys& keys, Index minimum) const {
  const Value value = find(keys);
  if (value.json == nullptr) return std::nullopt;
  const Index number = value.json->is_number_integer() ? value.json->get<Index>() : -1;
  if (number < minimum || number > kMaxCount) mismatch(value, minimum > 0 ? "one positive integer" : "one integer from 0");
  return number;
}

std::optional<double> Config::number(const Keys& keys) const {
  const Value value = find(keys);
  if (value.json == nullptr) return std::nullopt;
  if (!value.json->is_number() || !std::isfinite(value.json->get<double>())) mismatch(value, "one finite number");
  return value.json->get<double>();
}

std::optional<bool> Config::flag(const Keys& keys) const {
  const Value value = find(keys);
  if (value.json == nullptr) return std::nullopt;
  if (!value.json->is_boolean()) mismatch(value, "true or false");
  return value.json->get<bool>();
}

std::optional<std::string> Config::text(const Keys& keys) const {
  const Value value = find(keys);
  if (value.json == nullptr) return std::nullopt;
  if (!value.json->is_string()) mismatch(value, "a string");
  return value.json->get<std::string>();
}

std::optional<std::string> Config::text_at(const char* key, Index index) const {
  const Value value = find({key});
  if (value.json == nullptr) return std::nullopt;
  const auto at = static_cast<std::size_t>(index);
  if (!value.json->is_array() || value.json->size() <= at || !(*value.json)[at].is_string()) {
    mismatch(value, concat("a list of strings with an element ", index).c_str());
  }
  return (*value.json)[at].get<std::string>();
}

std::vector<Index> Config::counts(const char* key) const {
  const Value value = find({key});
  if (value.json == nullptr) miss({key});
  std::vector<Index> counts;
  for (const json& element : *value.json) {
    const Index number = element.is_number_integer() ? element.get<Index>() : 0;
    if (number < 1 || number > kMaxCount) mismatch(value, "a list of positive integers");
    counts.push_back(number);
  }
  return counts;
}

Config Config::object(const Keys& keys) const {
  const Value value = find(keys);
  Config inner;
  inner.source_ = source_;
  if (value.json == nullptr) return inner;
  if (!value.json->is_object()) mismatch(value, "an object");
  inner.object_ = std::shared_ptr<const json>(object_, value.json);
  inner.source_ = concat(source_, ": ", value.key);
  return inner;
}

Index Config::need_count(const Keys& keys) const {
  const std::optional<Index> value = count(keys);
  if (!value) miss(keys);
  return *value;
}

double Config::need_number(const Keys& keys) const {
  const std::optional<double> value = number(keys);
  if (!value) miss(keys);
  return *value;
}

}  // namespace multihead::checkpoint
