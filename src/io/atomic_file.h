// Writing a file so that readers see the old one or the new one, whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "multihead/export.h"

namespace multihead {

/// A new file beside `target` that takes its place on commit() and vanishes without it.
class MULTIHEAD_API AtomicFile {
 public:
  /// A symbolic link is followed. Throws IoError: folder missing or not writable, target neither a regular file nor new.
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws IoError, e.g. when the disk is full.
  void write(const void* data, std::size_t bytes);
  /// Data on disk, then under the target's name. Throws IoError and leaves the target as it was.
  void commit();

 private:
  std::filesystem::path target_;
  std::string name_;  // of the target, for error texts
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace multihead
