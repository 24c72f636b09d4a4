// The command as a whole: help, version, usage errors, and files that cannot be read or written.
#include "cli/run_command.h"
#include "multihead/runtime.h"

namespace multihead::cli_test {
namespace {

constexpr int kFailed = 1, kUsage = 2;

class CliCommandLine : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    for (const char* name : {"q.npy", "k.npy", "v.npy"}) write(name, random_tensor({1, 2, 3, 4}, 1));
  }
  static std::vector<std::string> attend(const std::vector<std::string>& more, const std::string& query = "q.npy") {
    std::vector<std::string> arguments{"attend", "--query", query, "--key", "k.npy", "--value", "v.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(CliCommandLine, HelpNamesEveryCommandAndEveryOption) {
  const std::string help = run_ok({"--help"}).out;
  for (const char* word : {"look", "run", "attend", "inspect", "describe", "map", "targets", "bench", "--version"}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
  const std::pair<const char*, std::vector<const char*>> kOptions[] = {
      {"run",
       {"--checkpoint", "--layer", "--preset", "--length", "--seed", "--input", "--memory", "--output", "--probabilities",
        "--lse", "--threads", "--target", "--dtype", "--reference", "--compare", "--json"}},
      {"attend",
       {"--query",         "--key",    "--value",       "--output",  "--mask",      "--bias",         "--causal", "--top-left",
        "--query-offset",  "--window", "--key-lengths", "--softcap", "--scale",     "--alibi-slopes", "--sinks",  "--lse",
        "--probabilities", "--dtype",  "--threads",     "--target",  "--reference", "--compare",      "--json"}},
      {"inspect", {"PATH", "--json"}},
      {"look", {"TEXT", "--checkpoint", "--layer", "--head", "--output", "--every-layer", "--json", "--threads", "--target"}},
      {"describe", {"--preset", "--model-dim", "--heads", "--kv-heads", "--head-dim", "--length", "--key-length", "--json"}},
      {"map",
       {"CAPTURE", "--head", "--batch", "--rows", "--keys", "--pool", "--scale", "--domain", "--size", "--output", "--terminal",
        "--json"}},
      {"targets", {"--json"}},
      {"bench", {"--filter", "--list", "--threads", "--target", "--json"}}};
  for (const auto& [command, options] : kOptions) {
    const std::string text = run_ok({command, "--help"}).out;
    for (const char* option : options) EXPECT_NE(text.find(option), std::string::npos) << command << " " << option;
  }
}

TEST_F(CliCommandLine, Version) { EXPECT_EQ(run_ok({"--version"}).out, "multihead " + version() + "\n"); }

TEST_F(CliCommandLine, UsageErrors) {
  expect_failure({}, kUsage, {"expected a command", "describe", "multihead --help"});
  expect_failure({"attention"}, kUsage, {"attention"});
  expect_failure({"attend"}, kUsage, {"--query is required", "multihead attend --help"});
  expect_failure(attend({}), kUsage, {"--output is required"});
  expect_failure(attend({"--output", "o.npy", "--frobnicate"}), kUsage, {"--frobnicate"});
  expect_failure(attend({"--output", "o.npy", "--output", "p.npy"}), kUsage, {"--output"});
  expect_failure(attend({"--output"}), kUsage, {"--output"});
  expect_failure(attend({"--output", "o.npy", "--dtype", "f64"}), kUsage, {"--dtype", "f32, f16 or bf16", "'f64'"});
  for (const char* threads : {"0", "-1", "two", "2x", "", "1e3", "99999999999999999999", "1025"}) {
    expect_failure(attend({"--output", "o.npy", "--threads", threads}), kUsage, {"--threads", "from 1 to 1024"});
  }
  for (const char* window : {"5", "a,b", "-1,0", "1,2,3", ",", "1.5,", "", "1, 2"}) {
    expect_failure(attend({"--output", "o.npy", "--window", window}), kUsage, {"--window", "LEFT,RIGHT"});
  }
  expect_failure(attend({"--output", "o.npy", "--scale", "half"}), kUsage, {"--scale", "number", "'half'"});
  expect_failure(attend({"--output", "o.npy", "--query-offset", "1.5"}), kUsage, {"--query-offset", "integer"});
  expect_failure(attend({"--output", "o.npy", "--top-left", "--query-offset", "1"}), kUsage, {"--top-left", "--query-offset"});
  expect_failure(attend({"--output", "o.npy", "--reference", "--compare"}), kUsage, {"--reference", "--compare"});
}

TEST_F(CliCommandLine, NumbersMeanWhatTheySay) {
  run_ok(attend({"--output", "decimal.npy", "--causal", "--query-offset", "10"}));
  run_ok(attend({"--output", "leading_zero.npy", "--causal", "--query-offset", "010"}));  // not octal
  EXPECT_EQ(bytes_of(folder() / "decimal.npy"), bytes_of(folder() / "leading_zero.npy"));
}

TEST_F(CliCommandLine, UnreadableInputs) {
  expect_failure(attend({"--output", "o.npy"}, "missing.npy"), kFailed, {"missing.npy", "No such file"});
  expect_failure(attend({"--output", "o.npy"}, "."), kFailed, {"folder"});
  write_bytes("empty.npy", "");
  expect_failure(attend({"--output", "o.npy"}, "empty.npy"), kFailed, {"empty.npy"});
  write_bytes("pointer.npy", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n");
  expect_failure(attend({"--output", "o.npy"}, "pointer.npy"), kFailed, {"pointer.npy", "LFS"});
  const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
  write_bytes("object.npy", std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() + 1) + '\0' + header + "\n" +
                                std::string(8, '\0'));
  expect_failure(attend({"--output", "o.npy"}, "object.npy"), kFailed, {"object.npy", "|O"});
  write_bytes("cut.npy", bytes_of(folder() / "q.npy").substr(0, 150));
  expect_failure(attend({"--output", "o.npy"}, "cut.npy"), kFailed, {"cut.npy"});
  write_bytes("two\nlines.npy", "");
  expect_failure(attend({"--output", "o.npy"}, "two\nlines.npy"), kFailed, {"lines.npy"});
}

TEST_F(CliCommandLine, UnusableOutputsAreFoundBeforeInputsAreRead) {
  fs::create_directory(folder() / "folder.npy");
  fs::create_symlink("nowhere.npy", folder() / "dangling.npy");
  fs::create_symlink("k.npy", folder() / "link.npy");
  const std::string missing = "no_such_input.npy";
  expect_failure(attend({"--output", "none/o.npy"}, missing), kFailed, {"output 'none/o.npy'", "none does not exist"});
  expect_failure(attend({"--output", "q.npy/o.npy"}, missing), kFailed, {"output", "q.npy"});
  expect_failure(attend({"--output", "folder.npy"}, missing), kFailed, {"folder.npy", "not a regular file"});
  expect_failure(attend({"--output", "/dev/null"}, missing), kFailed, {"/dev/null", "not a regular file"});
  expect_failure(attend({"--output", "/proc/o.npy"}, missing), kFailed, {"/proc", "no file can be written"});
  expect_failure(attend({"--output", ""}, missing), kFailed, {"output ''", "name of a file"});
  expect_failure(attend({"--output", "folder.npy/"}, missing), kFailed, {"name of a file"});
  expect_failure(attend({"--output", "dangling.npy"}, missing), kFailed, {"dangling.npy", "link to nothing"});
  expect_failure(attend({"--output", std::string(300, 'x')}, missing), kFailed, {"too long"});
  expect_failure(attend({"--output", "o.npy", "--lse", "./o.npy"}, missing), kFailed, {"lse './o.npy'", "given as output"});
  expect_failure(attend({"--output", "o.npy", "--probabilities", "k.npy"}, missing), kFailed,
                 {"probabilities", "given as key"});
  expect_failure(attend({"--output", "link.npy"}, missing), kFailed, {"link.npy", "given as key"});
}

TEST_F(CliCommandLine, AFolderWithoutWritePermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directory(folder() / "closed");
  fs::permissions(folder() / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  expect_failure(attend({"--output", "closed/o.npy"}), kFailed, {"closed", "Permission denied"});
}

TEST_F(CliCommandLine, ResultsThatDoNotFitInMemoryAreRefused) {
  const Index length = 4'000'000;
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) write(name, Tensor(DType::kF32, {1, 1, length, 1}));
  expect_failure(attend({"--output", "o.npy", "--probabilities", "p.npy"}), kFailed, {"probabilities", "58.21 TiB"});
}

TEST_F(CliCommandLine, AFullDiskBehindStandardOutputIsAFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string script =
      std::string("'") + MULTIHEAD_CLI + "' targets > /dev/full 2> '" + (folder() / "err").string() + "'";
  const int status = std::system(script.c_str());
  EXPECT_EQ(WEXITSTATUS(status), kFailed);
  EXPECT_EQ(bytes_of(folder() / "err"), "multihead: cannot write to standard output\n");
}

}  // namespace
}  // namespace multihead::cli_test
