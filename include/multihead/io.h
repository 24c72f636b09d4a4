// Files of arrays: .npy and safetensors. Strict readers that never trust a length, writers that never leave half a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// Reads a NumPy .npy file (format versions 1, 2, 3; either byte order; C or Fortran order; bool, integers, f16, f32, f64).
/// The result is dense, row-major, native byte order; bools are 0 or 1. Object and structured arrays are refused, and so are
/// headers of more than 1 MiB, more than Dims::kMaxRank axes, and bytes after the data.
/// Throws IoError when it cannot be read, FormatError (file and reason) when it is malformed.
MULTIHEAD_API Tensor read_npy(const std::filesystem::path& path);

/// Writes any view, in logical order, as .npy version 1.0. bf16 has no .npy code and is written as f32 (exact). The file is
/// written beside and renamed: a reader sees the old file or the new one, never half of it. A link is followed; a device, pipe
/// or folder is refused. Throws IoError; InvalidArgument for a view without memory or with a negative extent.
MULTIHEAD_API void write_npy(const std::filesystem::path& path, const ConstTensorView& view);

/// One tensor of a safetensors file, as its header says. `dtype` is absent for types that a Tensor cannot hold (F8, F4 …).
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;  ///< as in the file: "F32", "BF16", "F8_E4M3" …
  std::optional<DType> dtype;
  Dims shape;
  std::uint64_t begin = 0;  ///< bytes from the start of the file's data section
  std::uint64_t end = 0;
};

/// A safetensors checkpoint opened for reading: one file, or a `*.safetensors.index.json` with its shards. Opening reads and
/// checks headers only; data are read on demand, by range, without mapping.
class MULTIHEAD_API Safetensors {
 public:
  /// Throws IoError, or FormatError naming the file, the tensor and the rule that is broken. All rules of the reference reader
  /// hold, its limit of 100,000,000 bytes of header too; refused besides: duplicate names, unknown keys in an entry, more than
  /// Dims::kMaxRank axes, more than 1,000,000 metadata pairs, shards outside the index's folder.
  static Safetensors open(const std::filesystem::path& path);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;

  /// All tensors, sorted by name.
  const std::vector<SafetensorsEntry>& entries() const;
  /// Null when there is no such tensor.
  const SafetensorsEntry* find(const std::string& name) const;
  /// `__metadata__` of the file (of the first shard).
  const std::map<std::string, std::string>& metadata() const;
  /// Reads one tensor. Throws InvalidArgument for an unknown name (with the nearest names), FormatError for a dtype that
  /// Tensor cannot hold, IoError when the file changed or vanished meanwhile.
  Tensor read(const std::string& name) const;

 private:
  struct State;
  explicit Safetensors(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes tensors (any views) as one safetensors file: header padded with spaces to 8 bytes, data in order of decreasing
/// element size, then name. Written beside and renamed. Throws IoError; InvalidArgument for duplicate or reserved names.
MULTIHEAD_API void write_safetensors(const std::filesystem::path& path,
                                     const std::vector<std::pair<std::string, ConstTensorView>>& tensors,
                                     const std::map<std::string, std::string>& metadata = {});

}  // namespace multihead
