#include "io/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "io/io_testing.h"
#include "multihead/io.h"

namespace multihead::testing {
namespace {

namespace fs = std::filesystem;

void write_atomically(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

// From here on the process cannot make a file longer than `bytes`: what a full disk looks like, at any byte.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(AtomicFile, ReplacesTheTargetOnCommit) {
  const TempFolder folder;
  write_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("ne", 2);
    EXPECT_EQ(read_file(folder / "a"), "old") << "nothing may be seen before commit";
    EXPECT_EQ(folder.names().size(), 2u) << "the new file lies in the same folder, so that renaming is atomic";
    file.write("w", 1);
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  { AtomicFile(folder / "a").write("half", 4); }
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const TempFolder folder;
  const Tensor large(DType::kF32, {1000, 100});
  write_file(folder / "a.npy", "old");
  write_file(folder / "a.safetensors", "old");
  {
    const FileSizeLimit limit(100'000);  // the first write comes back short, the next one fails
    expect_error<IoError>([&] { write_npy(folder / "a.npy", large); }, {"a.npy", "cannot write", "File too large"});
    expect_error<IoError>(
        [&] {
          write_safetensors(folder / "a.safetensors", {{"t", large}});
        },
        {"a.safetensors", "cannot write", "File too large"});
    expect_error<IoError>([&] { write_npy(folder / "new.npy", large.view().transposed(0, 1)); }, {"new.npy", "File too large"});
  }
  EXPECT_EQ(read_file(folder / "a.npy"), "old");
  EXPECT_EQ(read_file(folder / "a.safetensors"), "old");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.npy", "a.safetensors"}));
}

TEST(AtomicFile, NamesTheFileAndTheReason) {
  const TempFolder folder;
  expect_error<IoError>([&] { AtomicFile(folder / "no/a.npy"); }, {"no/a.npy", "No such file or directory"});
  expect_error<IoError>([&] { AtomicFile(folder / ""); }, {"expected a regular file", "a folder"});
  write_file(folder / "file", "");
  expect_error<IoError>([&] { AtomicFile(folder / "file/a"); }, {"file/a", "Not a directory"});
  expect_error<IoError>([&] { AtomicFile(folder / "line\nbreak/a"); }, {"line\\x0Abreak"});
  expect_error<IoError>([&] { write_atomically(folder / std::string(256, 'n'), "x"); }, {"File name too long"});
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(AtomicFile, NeverReplacesADeviceOrPipe) {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error<IoError>([&] { AtomicFile{pipe}; }, {"pipe", "expected a regular file"});
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(AtomicFile, FollowsLinksAndKeepsTheMode) {
  const TempFolder folder;
  fs::create_directory(folder / "data");
  write_file(folder / "data/real", "old");
  fs::permissions(folder / "data/real", fs::perms(0640));
  fs::create_symlink("data/real", folder / "link");
  write_atomically(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "data/real"), "new");
  EXPECT_EQ(fs::status(folder / "data/real").permissions(), fs::perms(0640));
  fs::create_symlink("nowhere", folder / "dangling");
  expect_error<IoError>([&] { AtomicFile(folder / "dangling"); }, {"dangling", "symbolic link"});
}

TEST(AtomicFile, TakesTheLongestNameAndTheCurrentFolder) {
  const TempFolder folder;
  const std::string name(255, 'n');
  write_atomically(folder / name, "x");
  EXPECT_EQ(read_file(folder / name), "x");
  const fs::path before = fs::current_path();
  fs::current_path(folder / "");
  write_atomically("plain", "y");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder / "plain"), "y");
}

TEST(AtomicFile, ConcurrentWritersNeverMix) {
  const TempFolder folder;
  const std::string contents[2] = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  write_atomically(folder / "f", contents[0]);
  std::vector<std::thread> writers;
  for (const std::string& content : contents) {
    writers.emplace_back([&] {
      for (int i = 0; i < 10; ++i) write_atomically(folder / "f", content);
    });
  }
  for (int i = 0; i < 100; ++i) {
    const std::string seen = read_file(folder / "f");
    EXPECT_TRUE(seen == contents[0] || seen == contents[1]) << seen.size() << " bytes";
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(folder.names(), std::vector<std::string>{"f"});
}

TEST(File, ReadsRangesAndRefusesWhatIsNoFile) {
  const TempFolder folder;
  write_file(folder / "a", "0123456789");
  const File file(folder / "a");
  EXPECT_EQ(file.size(), 10u);
  char part[3] = {};
  file.read(4, part, 3);
  EXPECT_EQ(std::string_view(part, 3), "456");
  fs::resize_file(folder / "a", 5);
  expect_error<IoError>([&] { file.read(4, part, 3); }, {"/a:", "became shorter"});
  expect_error<IoError>([&] { File(folder / "missing"); }, {"missing", "cannot open", "No such file"});
  expect_error<IoError>([&] { File(folder / ""); }, {"expected a regular file", "a folder"});
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error<IoError>([&] { File(folder / "pipe"); }, {"pipe", "expected a regular file"});
}

}  // namespace
}  // namespace multihead::testing
