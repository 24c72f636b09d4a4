#include "io/safetensors_index.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/json.h"
#include "io/safetensors_header.h"
#include "io/text.h"

namespace multihead {
namespace {

// Keeps weight_map; everything else is for information only and skipped.
class IndexEvents final : public JsonEvents {
 public:
  explicit IndexEvents(const std::string& file) : file_(file) {}

  std::vector<std::pair<std::string, std::string>> take() {
    if (!has_map_) refuse(file_, "index: \"weight_map\" is missing");
    return std::move(pairs_);
  }

  void begin(char bracket) override {
    if ((depth_ == 0 && bracket != '{') || (depth_ == 1 && in_map_ && bracket != '{') || (depth_ > 1 && in_map_)) {
      unexpected(bracket == '{' ? "an object" : "an array");
    }
    ++depth_;
  }
  void end() override { --depth_; }
  void key(std::string& text) override {
    if (depth_ == 1) {
      in_map_ = text == "weight_map";
      if (in_map_ && std::exchange(has_map_, true)) refuse(file_, "index: duplicate \"weight_map\"");
    } else if (in_map_) {
      pairs_.emplace_back(std::move(text), "");
    }
  }
  void string(std::string& text) override {
    if (depth_ != 2 || !in_map_) return other("the string " + quote(text));
    pairs_.back().second = std::move(text);
  }
  void number(std::uint64_t value) override { other(std::to_string(value)); }
  void other(const std::string& text) override {
    if (depth_ == 0 || in_map_) unexpected(text.substr(0, 120));
  }

 private:
  [[noreturn]] void unexpected(const std::string& got) const {
    if (depth_ == 0) refuse(file_, "index: expected a JSON object; got ", got);
    if (depth_ == 1) refuse(file_, "index: \"weight_map\" must be an object; got ", got);
    refuse(file_, "index: the file of tensor ", quote(pairs_.back().first), " must be a string; got ", got);
  }

  const std::string& file_;
  int depth_ = 0;
  bool has_map_ = false;
  bool in_map_ = false;
  std::vector<std::pair<std::string, std::string>> pairs_;
};

std::string checked_shard(const std::string& file, const std::string& tensor, const std::string& shard) {
  const std::filesystem::path path(shard);
  const bool leads_out = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (shard.empty() || shard.find('\0') != std::string::npos || leads_out) {
    refuse(file, "index: tensor ", quote(tensor), ": expected a file name inside the index's folder, without \"..\"; got ",
           quote(shard));
  }
  return path.lexically_normal().string();
}

}  // namespace

ShardMap read_safetensors_index(const ByteSource& source) {
  refuse_lfs_pointer(source);
  const std::string& file = source.name();
  if (source.size() > kMaxSafetensorsHeader) {
    refuse(file, "index too large: ", source.size(), " bytes; the limit is ", kMaxSafetensorsHeader);
  }
  IndexEvents events(file);
  {
    std::string text(static_cast<std::size_t>(source.size()), '\0');
    source.read(0, text.data(), text.size());
    parse_json(text, file, events);
  }
  auto pairs = events.take();
  std::sort(pairs.begin(), pairs.end());
  ShardMap shards;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto& [tensor, shard] = pairs[i];
    if (i + 1 < pairs.size() && tensor == pairs[i + 1].first) refuse(file, "index: duplicate tensor ", quote(tensor));
    shards[checked_shard(file, tensor, shard)].push_back(std::move(tensor));
  }
  return shards;
}

}  // namespace multihead
