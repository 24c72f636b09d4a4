#include "picture/write_file.h"

#include "io/atomic_file.h"

namespace multihead::picture {

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace multihead::picture
