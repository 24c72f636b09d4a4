#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "io/text.h"

namespace multihead {

void throw_errno(const std::string& name, const char* what) {
  const int code = errno;
  throw IoError(concat(name, ": ", what, ": ", std::generic_category().message(code)));
}

void MemoryBytes::read(std::uint64_t offset, void* out, std::size_t bytes) const {
  if (offset > bytes_.size() || bytes > bytes_.size() - offset) throw IoError(name_ + ": read past the end");
  if (bytes > 0) std::memcpy(out, bytes_.data() + offset, bytes);
}

File::File(const std::filesystem::path& path) : name_(printable(path.string())) {
  // O_NONBLOCK: opening a pipe must not wait for a writer. It changes nothing for regular files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw_errno(name_, "cannot open");
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  const int code = errno;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    errno = code;
    if (!known) throw_errno(name_, "cannot stat");
    throw IoError(concat(name_, ": expected a regular file; got ", S_ISDIR(status.st_mode) ? "a folder" : "a pipe or device"));
  }
  stamp_ = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
            static_cast<std::uint64_t>(status.st_size),
            status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

File::~File() { ::close(descriptor_); }

void File::read(std::uint64_t offset, void* out, std::size_t bytes) const {
  auto* to = static_cast<unsigned char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, std::min(bytes, std::size_t{1} << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(name_, "cannot read");
    if (got == 0) throw IoError(concat(name_, ": the file became shorter while it was read: no byte at ", offset));
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void refuse_lfs_pointer(const ByteSource& source) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  char head[kPointer.size()];
  if (source.size() < sizeof(head)) return;
  source.read(0, head, sizeof(head));
  if (std::string_view(head, sizeof(head)) == kPointer) {
    refuse(source.name(), "this is a Git LFS pointer, not the file itself; fetch the content with `git lfs pull`");
  }
}

}  // namespace multihead
