// Helpers of the file tests: a folder that vanishes, bytes written out, and errors checked by their text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/text.h"
#include "multihead/tensor.h"

namespace multihead::testing {

using namespace std::string_literals;  // "…"s keeps NUL bytes

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "multihead-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw IoError("no temporary folder");
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Names in the folder, leftovers of writers included.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Bytes as a file that need not exist.
class Bytes : public ByteSource {
 public:
  explicit Bytes(std::string bytes, std::string name = "some.file")
      : bytes_(std::move(bytes)),
        source_({reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size()}, std::move(name)) {}
  const std::string& name() const override { return source_.name(); }
  std::uint64_t size() const override { return source_.size(); }
  void read(std::uint64_t offset, void* out, std::size_t count) const override { source_.read(offset, out, count); }

 private:
  std::string bytes_;
  MemoryBytes source_;
};

/// `value` in `width` little-endian bytes.
inline std::string little_endian(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// Elements as their bytes in memory.
template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

/// The elements of a dense tensor.
template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  EXPECT_EQ(tensor.dtype(), dtype_of<T>);
  return std::vector<T>(tensor.data<T>(), tensor.data<T>() + tensor.size());
}

/// Runs `call`, which must throw exactly `Expected` with a text of one line that has all `parts`.
template <typename Expected, typename Call>
void expect_error(const Call& call, std::initializer_list<std::string_view> parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected an error about " << *parts.begin();
  } catch (const Expected& error) {
    const std::string text = error.what();
    for (const std::string_view part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LE(text.size(), 600u) << text;
    EXPECT_TRUE(is_utf8(text));
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
  }
}

}  // namespace multihead::testing
