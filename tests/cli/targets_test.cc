// multihead targets, and --target everywhere.
#include "cli/run_command.h"
#include "multihead/runtime.h"

namespace multihead::cli_test {
namespace {

class CliTargets : public CommandTest {};

TEST_F(CliTargets, ListsWhatTheLibraryHas) {
  const auto json = run_ok({"targets", "--json"}, {"MULTIHEAD_TARGET=", "MULTIHEAD_THREADS=3"}).json();
  EXPECT_EQ(json["targets"].get<std::vector<std::string>>(), targets());
  EXPECT_EQ(json["active"], targets().front());
  EXPECT_EQ(json["threads"], 3);
  EXPECT_EQ(json["version"], version());
  const std::string text = run_ok({"targets"}).out;
  for (const std::string& name : targets()) EXPECT_NE(text.find(name), std::string::npos) << text;
}

TEST_F(CliTargets, OptionAndEnvironmentChoose) {
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) write(name, random_tensor({2, 3, 4}, 1));
  const std::vector<std::string> call{"attend",  "--query", "q.npy",    "--key", "k.npy",
                                      "--value", "v.npy",   "--output", "o.npy", "--json"};
  for (const std::string& name : targets()) {
    std::vector<std::string> with_option = call;
    with_option.insert(with_option.end(), {"--target", name});
    EXPECT_EQ(run_ok(with_option).json()["target"], name);
    EXPECT_EQ(run_ok(call, {"MULTIHEAD_TARGET=" + name}).json()["target"], name);
  }
  fs::remove(folder() / "o.npy");
  std::vector<std::string> unknown = call;
  unknown.insert(unknown.end(), {"--target", "AVX9000"});
  expect_failure(unknown, 1, {"AVX9000", targets().front(), targets().back()});
  expect_failure(call, 1, {"MULTIHEAD_TARGET", "AVX9000", targets().front()}, {"MULTIHEAD_TARGET=AVX9000"});
  expect_failure({"targets"}, 1, {"MULTIHEAD_TARGET", "AVX9000", targets().front()}, {"MULTIHEAD_TARGET=AVX9000"});
}

}  // namespace
}  // namespace multihead::cli_test
