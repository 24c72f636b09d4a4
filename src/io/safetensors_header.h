// The header of one safetensors file.
// Source: huggingface/safetensors, README.md ("Format") and safetensors/src/tensor.rs (what the reference validates).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "multihead/io.h"

namespace multihead {

/// The reference reader's limit, and ours.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Under this key the header holds a map of strings instead of a tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< sorted by name; their ranges cover the data section without hole or overlap
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  ///< of the data section, from the start of the file
};

/// Parses and checks the header against the size of the file; reads no data. Throws FormatError with file, tensor and rule.
SafetensorsHeader read_safetensors_header(const ByteSource& source);

/// Reads one tensor's bytes from the file of its header. Throws FormatError for a dtype that Tensor cannot hold.
Tensor read_safetensors_entry(const ByteSource& source, std::uint64_t data_begin, const SafetensorsEntry& entry);

/// The text of a file's header, padded with spaces so that data begin at a multiple of 8; the 8 bytes of length not included.
std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace multihead
