#include <algorithm>
#include <array>
#include <numeric>

#include "io/atomic_file.h"
#include "io/dense.h"
#include "io/safetensors_header.h"
#include "io/safetensors_types.h"
#include "io/text.h"
#include "multihead/io.h"

namespace multihead {
namespace {

using NamedViews = std::vector<std::pair<std::string, ConstTensorView>>;

// Larger elements first keeps every tensor aligned to its element size; names make the file the same whatever the caller's
// order.
std::vector<std::size_t> file_order(const NamedViews& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t size_a = size_of(tensors[a].second.dtype);
    const std::size_t size_b = size_of(tensors[b].second.dtype);
    return size_a != size_b ? size_a > size_b : tensors[a].first < tensors[b].first;
  });
  return order;
}

void check_names(const NamedViews& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<std::string_view> names;
  for (const auto& [name, view] : tensors) {
    require(is_utf8(name), "write_safetensors: expected names in UTF-8; got ", quote(name));
    require(name != kMetadataKey, "write_safetensors: the name ", quote(name), " is reserved for the metadata");
    require_readable("write_safetensors: tensor " + quote(name), view);
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  require(twice == names.end(), "write_safetensors: duplicate name ", twice == names.end() ? "" : quote(*twice));
  for (const auto& [key, value] : metadata) {
    require(is_utf8(key) && is_utf8(value), "write_safetensors: expected metadata in UTF-8; got ", quote(key), ": ",
            quote(value));
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_names(tensors, metadata);
  const std::vector<std::size_t> order = file_order(tensors);
  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const auto& [name, view] = tensors[i];
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(view.size()) * size_of(view.dtype);
    require(end <= INT64_MAX, "write_safetensors: the tensors have more bytes than a file can have");
    entries.push_back({name, std::string(safetensors_name(view.dtype)), view.dtype, view.shape, begin, end});
  }
  const std::string text = safetensors_header_text(entries, metadata);
  require(text.size() <= kMaxSafetensorsHeader, "write_safetensors: the header takes ", text.size(),
          " bytes; readers refuse more than ", kMaxSafetensorsHeader);

  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  AtomicFile file(path);
  file.write(length.data(), length.size());
  file.write(text.data(), text.size());
  for (const std::size_t i : order) {
    for_each_block(tensors[i].second, [&](const void* data, std::size_t bytes) { file.write(data, bytes); });
  }
  file.commit();
}

}  // namespace multihead
