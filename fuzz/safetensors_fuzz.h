// What must hold for any bytes given to the safetensors readers. Throws when it does not; the fuzzer and the tests both call
// it.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "io/safetensors_header.h"
#include "io/safetensors_index.h"
#include "io/text.h"

namespace multihead {

/// The header's text and data again from what was read: in the data's order, so that ranges stay as they are.
inline void check_rewritten_safetensors(const SafetensorsHeader& header, std::span<const unsigned char> data) {
  std::vector<SafetensorsEntry> order = header.entries;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
  const std::string text = safetensors_header_text(order, header.metadata);
  std::string file;
  for (std::size_t i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  file += text;
  file.append(reinterpret_cast<const char*>(data.data()), data.size());
  const MemoryBytes source({reinterpret_cast<const unsigned char*>(file.data()), file.size()}, "again.safetensors");
  const SafetensorsHeader again = read_safetensors_header(source);
  const auto same = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.name == b.name && a.dtype == b.dtype && a.dtype_name == b.dtype_name && a.shape == b.shape && a.begin == b.begin &&
           a.end == b.end;
  };
  if (again.metadata != header.metadata ||
      !std::equal(again.entries.begin(), again.entries.end(), header.entries.begin(), header.entries.end(), same)) {
    throw std::logic_error("another header after writing and reading");
  }
}

inline bool fuzz_safetensors_file(std::span<const unsigned char> bytes) {
  const MemoryBytes source(bytes, "fuzz.safetensors");
  const SafetensorsHeader header = read_safetensors_header(source);
  std::uint64_t total = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    total += entry.end - entry.begin;
    if (entry.dtype) read_safetensors_entry(source, header.data_begin, entry);
  }
  if (header.data_begin + total != bytes.size()) throw std::logic_error("the tensors do not cover the file");
  check_rewritten_safetensors(header, bytes.subspan(static_cast<std::size_t>(header.data_begin)));
  return true;
}

/// Any bytes are read or refused with FormatError: as a file, as a file whose length field is put right (else few mutations get
/// past it), and as an index of shards. Returns whether any of these was read.
inline bool fuzz_safetensors(std::span<const unsigned char> bytes) {
  const auto accepted = [](const auto& read) {
    try {
      return read();
    } catch (const FormatError& error) {
      const std::string_view text = error.what();
      if (!is_utf8(text) || text.find('\n') != std::string_view::npos)
        throw std::logic_error("the error is not one line of UTF-8");
      return false;
    }
  };
  bool any = accepted([&] { return fuzz_safetensors_file(bytes); });
  if (bytes.size() > 8) {
    std::vector<unsigned char> repaired(bytes.begin(), bytes.end());
    const auto last_brace = std::find(repaired.rbegin(), repaired.rend() - 8, static_cast<unsigned char>('}'));
    const auto length = static_cast<std::uint64_t>(repaired.rend() - last_brace) - 8;
    for (std::size_t i = 0; i < 8; ++i) repaired[i] = static_cast<unsigned char>(length >> (8 * i));
    any |= accepted([&] { return fuzz_safetensors_file(repaired); });
  }
  any |= accepted([&] {
    read_safetensors_index(MemoryBytes(bytes, "fuzz.index.json"));
    return true;
  });
  return any;
}

}  // namespace multihead
