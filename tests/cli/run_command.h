// Runs the built command as a stranger would: arguments in; exit status, standard output and standard error out.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "multihead/io.h"
#include "multihead/tensor.h"
#include "random_inputs.h"

#ifndef MULTIHEAD_CLI
#define MULTIHEAD_CLI ""  // not built: the tests skip
#endif

extern char** environ;

namespace multihead::cli_test {

namespace fs = std::filesystem;

inline fs::path new_folder() {
  std::string name = (fs::temp_directory_path() / "multihead-cli-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return name;
}

inline std::string bytes_of(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

struct CommandResult {
  int status = -1;  ///< exit status, or 128 + signal
  std::string out, err;

  /// Standard output as a JSON object; a failure when it is anything else.
  nlohmann::json json() const {
    auto value = nlohmann::json::parse(out, nullptr, false);
    EXPECT_TRUE(value.is_object()) << out;
    return value;
  }
};

/// Runs the command in `folder`. `environment` entries ("NAME=value") are added to the test's own.
inline CommandResult run_command(const fs::path& folder, const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {}) {
  // Files take any amount of output without a reader beside the process.
  const fs::path streams = new_folder();
  const std::string out = (streams / "out").string(), err = (streams / "err").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  const auto pointers_to = [](std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  };
  std::vector<std::string> words{MULTIHEAD_CLI}, settings = environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (char** setting = environ; *setting != nullptr; ++setting) settings.emplace_back(*setting);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, MULTIHEAD_CLI, &actions, nullptr, pointers_to(words).data(), pointers_to(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  CommandResult result;
  int status = 0;
  EXPECT_EQ(error, 0) << "cannot start " << MULTIHEAD_CLI;
  if (error == 0 && waitpid(child, &status, 0) == child) {
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = bytes_of(out);
    result.err = bytes_of(err);
  }
  fs::remove_all(streams);
  return result;
}

/// A fixture with a folder of its own, in which the commands run, and which vanishes with it.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(MULTIHEAD_CLI).empty()) GTEST_SKIP() << "the command line was not built";
    folder_ = new_folder();
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  const fs::path& folder() const { return folder_; }
  /// Names of everything in the folder, sorted, temporary files included.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  void write(const std::string& name, const ConstTensorView& values) const { write_npy(folder_ / name, values); }
  void write_bytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  Tensor read(const std::string& name) const { return read_npy(folder_ / name); }

  /// Runs and expects success with nothing on standard error.
  CommandResult run_ok(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) const {
    CommandResult result = run_command(folder_, arguments, environment);
    EXPECT_EQ(result.status, 0) << testing::PrintToString(arguments);
    EXPECT_EQ(result.err, "") << testing::PrintToString(arguments);
    return result;
  }
  /// Runs and expects the status, nothing on standard output, no new file, and one line "multihead: …" with all of `words`.
  void expect_failure(const std::vector<std::string>& arguments, int status, const std::vector<std::string>& words,
                      const std::vector<std::string>& environment = {}) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const std::vector<std::string> before = files();
    const CommandResult result = run_command(folder_, arguments, environment);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind("multihead: ", 0), 0U) << result.err;
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << "not one line: " << result.err;
    for (const std::string& word : words)
      EXPECT_NE(result.err.find(word), std::string::npos) << "'" << word << "' in: " << result.err;
    EXPECT_EQ(files(), before) << "a failed command wrote or left something";
  }

 private:
  fs::path folder_;
};

/// Uniform in (-1, 1], from `seed`.
inline Tensor random_tensor(const Dims& shape, unsigned seed, DType dtype = DType::kF32) {
  test::Random random(seed);
  return test::filled(dtype, shape, [&](Index) { return 2 * random.uniform() - 1; });
}

inline Tensor tensor_of(const Dims& shape, const std::vector<double>& values, DType dtype = DType::kF32) {
  Tensor tensor(DType::kF64, shape);
  EXPECT_EQ(tensor.size(), static_cast<Index>(values.size()));
  std::copy_n(values.begin(), tensor.size(), tensor.data<double>());
  return Tensor::converted(tensor, dtype);
}

inline std::vector<double> values_of(const ConstTensorView& dense) {
  std::vector<double> values;
  for (Index i = 0; i < dense.size(); ++i) values.push_back(load_as_double(dense, i));
  return values;
}

/// Every element within `tolerance`; infinities equal.
inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    const double distance = std::abs(actual[i] - expected[i]);
    worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
  }
  EXPECT_LE(worst, tolerance);
}

}  // namespace multihead::cli_test
