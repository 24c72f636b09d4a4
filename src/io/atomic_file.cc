#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "io/file.h"
#include "io/text.h"

namespace multihead {
namespace {

namespace fs = std::filesystem;

// The file to replace. Renaming over a device or a pipe would destroy it, over a link would cut it from its file.
fs::path resolved(const fs::path& target, const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (fs::is_symlink(fs::symlink_status(target, error))) {
    fs::path real = fs::canonical(target, error);
    if (error) throw IoError(concat(name, ": cannot follow the symbolic link: ", error.message()));
    return resolved(real, name);
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw IoError(
        concat(name, ": expected a regular file to replace; got ", fs::is_directory(status) ? "a folder" : "a device or pipe"));
  }
  return target;
}

// Short whatever the target's name, which may already be as long as the file system allows. Unique within the process; of other
// processes' names O_EXCL tells.
fs::path unique_sibling(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() / concat(".multihead-", ::getpid(), "-", counter++, ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : name_(printable(target.string())) {
  target_ = resolved(target, name_);
  do {
    temporary_ = unique_sibling(target_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw_errno(name_, "cannot create a file in its folder");
  struct stat old {};
  // Best effort: some file systems have no modes to keep.
  if (::stat(target_.c_str(), &old) == 0) (void)!::fchmod(descriptor_, old.st_mode & 0777u);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, from, std::min(bytes, std::size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_errno(name_, "cannot write");
    from += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw_errno(name_, "cannot write to the disk");
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_errno(name_, "cannot close");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw_errno(name_, "cannot put the new file in place");
  temporary_.clear();
  // The new name survives a power cut only once its folder is on disk. From here on the new file is in place whatever happens,
  // and some file systems cannot sync folders, so this is no reason to fail.
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    (void)!::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace multihead
