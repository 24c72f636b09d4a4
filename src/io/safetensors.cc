#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "io/file.h"
#include "io/safetensors_header.h"
#include "io/safetensors_index.h"
#include "io/text.h"
#include "multihead/io.h"

namespace multihead {
namespace {

// Levenshtein's: the fewest insertions, deletions and replacements.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// For the error's text. The work is bounded: at most 20,000 names, 200 bytes of each.
std::string nearest_names(const std::vector<SafetensorsEntry>& entries, std::string_view name) {
  constexpr std::size_t kNames = 3;
  constexpr std::size_t kMaxNames = 20'000;
  constexpr std::size_t kMaxLength = 200;
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (std::size_t i = 0; i < std::min(entries.size(), kMaxNames); ++i) {
    const std::string_view candidate = entries[i].name;
    ranked.emplace_back(edit_distance(name.substr(0, kMaxLength), candidate.substr(0, kMaxLength)), candidate);
  }
  const std::size_t shown = std::min(kNames, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(shown), ranked.end());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + quote(ranked[i].second);
  return text;
}

const SafetensorsEntry* find_in(const std::vector<SafetensorsEntry>& sorted, const std::string& name) {
  const auto place =
      std::lower_bound(sorted.begin(), sorted.end(), name,
                       [](const SafetensorsEntry& entry, const std::string& wanted) { return entry.name < wanted; });
  return place != sorted.end() && place->name == name ? &*place : nullptr;
}

const std::string* find_missing(const std::vector<std::string>& wanted, const std::vector<SafetensorsEntry>& sorted) {
  const auto missing =
      std::find_if(wanted.begin(), wanted.end(), [&](const std::string& name) { return find_in(sorted, name) == nullptr; });
  return missing == wanted.end() ? nullptr : &*missing;
}

}  // namespace

struct Safetensors::State {
  struct Shard {
    std::filesystem::path path;
    FileStamp stamp;
    std::uint64_t data_begin = 0;
  };
  // No open files: a checkpoint may have more shards than a process may have files.
  std::vector<Shard> shards;
  std::vector<SafetensorsEntry> entries;
  std::vector<std::uint32_t> shard_of;  // of each entry
  std::map<std::string, std::string> metadata;

  void add_shard(const std::filesystem::path& path, const File& file, SafetensorsHeader header);
  void add_index(const std::filesystem::path& path);
  void sort_by_name(const std::string& file);
};

void Safetensors::State::add_shard(const std::filesystem::path& path, const File& file, SafetensorsHeader header) {
  if (shards.empty()) metadata = std::move(header.metadata);
  // Absolute: a later change of the working directory must not lead to another file.
  shards.push_back({std::filesystem::absolute(path), file.stamp(), header.data_begin});
  shard_of.resize(entries.size() + header.entries.size(), static_cast<std::uint32_t>(shards.size() - 1));
  std::move(header.entries.begin(), header.entries.end(), std::back_inserter(entries));
}

void Safetensors::State::add_index(const std::filesystem::path& path) {
  const File index(path);
  for (const auto& [shard, tensors] : read_safetensors_index(index)) {
    const std::filesystem::path shard_path = path.parent_path() / shard;
    try {
      const File file(shard_path);
      SafetensorsHeader header = read_safetensors_header(file);
      if (const std::string* missing = find_missing(tensors, header.entries)) {
        refuse(file.name(), "tensor ", quote(*missing), " is missing in this shard; ", index.name(), " says that it is here");
      }
      add_shard(shard_path, file, std::move(header));
    } catch (const IoError& error) {
      throw IoError(concat(error.what(), " (shard named by ", index.name(), " for tensor ", quote(tensors.front()), ")"));
    }
  }
  sort_by_name(index.name());
}

// Each shard is sorted and free of duplicates; together they may be neither.
void Safetensors::State::sort_by_name(const std::string& file) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return entries[a].name < entries[b].name; });
  std::vector<SafetensorsEntry> sorted_entries;
  std::vector<std::uint32_t> sorted_shards;
  for (const std::uint32_t i : order) {
    if (!sorted_entries.empty() && sorted_entries.back().name == entries[i].name) {
      refuse(file, "tensor ", quote(entries[i].name),
             " stands in two shards: ", printable(shards[sorted_shards.back()].path.string()), " and ",
             printable(shards[shard_of[i]].path.string()));
    }
    sorted_entries.push_back(std::move(entries[i]));
    sorted_shards.push_back(shard_of[i]);
  }
  entries = std::move(sorted_entries);
  shard_of = std::move(sorted_shards);
}

Safetensors::Safetensors(std::unique_ptr<State> state) : state_(std::move(state)) {}
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors& Safetensors::operator=(Safetensors&&) noexcept = default;

Safetensors Safetensors::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  if (path.extension() == ".json") {
    state->add_index(path);
  } else {
    const File file(path);
    state->add_shard(path, file, read_safetensors_header(file));
  }
  return Safetensors(std::move(state));
}

const std::vector<SafetensorsEntry>& Safetensors::entries() const { return state_->entries; }

const SafetensorsEntry* Safetensors::find(const std::string& name) const { return find_in(state_->entries, name); }

const std::map<std::string, std::string>& Safetensors::metadata() const { return state_->metadata; }

Tensor Safetensors::read(const std::string& name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    const std::string near = nearest_names(entries(), name);
    throw InvalidArgument(
        concat("Safetensors::read: no tensor ", quote(name), "; ",
               near.empty() ? "the file has no tensors" : concat("nearest of ", entries().size(), ": ", near)));
  }
  const State::Shard& shard = state_->shards[state_->shard_of[static_cast<std::size_t>(entry - entries().data())]];
  const File file(shard.path);
  if (file.stamp() != shard.stamp) throw IoError(concat(file.name(), ": the file changed after it was opened"));
  return read_safetensors_entry(file, shard.data_begin, *entry);
}

}  // namespace multihead
