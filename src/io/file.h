// Where bytes come from: a file, read by range and never mapped (a mapped file that shrinks kills the process), or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "multihead/export.h"

namespace multihead {

/// Bytes that can be read by range. The parsers see only this, so fuzzers and tests feed them from memory.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// For error texts; one line.
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;
  /// Fills `out`. The range must lie within size(). Throws IoError.
  virtual void read(std::uint64_t offset, void* out, std::size_t bytes) const = 0;
};

class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::span<const unsigned char> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* out, std::size_t bytes) const override;

 private:
  std::span<const unsigned char> bytes_;
  std::string name_;
};

/// What tells one state of a file from another without reading it.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class MULTIHEAD_API File final : public ByteSource {
 public:
  /// Opens a regular file for reading. Throws IoError (also for folders, pipes and devices).
  explicit File(const std::filesystem::path& path);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return stamp_.size; }
  const FileStamp& stamp() const { return stamp_; }
  void read(std::uint64_t offset, void* out, std::size_t bytes) const override;

 private:
  std::string name_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

/// Throws IoError "NAME: WHAT: the system's words for errno".
[[noreturn]] void throw_errno(const std::string& name, const char* what);

/// Throws FormatError, saying what to do, when the bytes are a Git LFS pointer: what a clone without LFS leaves in a file's
/// place.
MULTIHEAD_API void refuse_lfs_pointer(const ByteSource& source);

}  // namespace multihead
