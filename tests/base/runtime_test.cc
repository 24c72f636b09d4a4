// Targets, threads and the environment variables that choose them.
#include "multihead/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <string>

#include "multihead/error.h"

namespace multihead::test {
namespace {

TEST(Runtime, Version) { EXPECT_TRUE(std::regex_match(version(), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+"))) << version(); }

TEST(Runtime, TargetsAreDistinctAndOneIsActive) {
  const std::vector<std::string> names = targets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_NE(std::find(names.begin(), names.end(), active_target()), names.end()) << active_target();
}

TEST(Runtime, ForceTarget) {
  const std::string before = active_target();
  const std::vector<std::string> names = targets();
  for (const std::string& name : names) {
    force_target(name);
    EXPECT_EQ(active_target(), name);
    EXPECT_EQ(targets(), names) << "a choice does not shorten the list";
  }
  force_target("auto");
  EXPECT_EQ(active_target(), names.front()) << "best first";
  for (const char* unknown : {"", "avx2", "AVX", "AVX2 ", "nonsense"}) {
    try {
      force_target(unknown);
      ADD_FAILURE() << "accepted '" << unknown << "'";
    } catch (const InvalidArgument& error) {
      for (const std::string& name : names) EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_EQ(active_target(), names.front()) << "a refused choice changes nothing";
  }
  force_target(before);
}

TEST(Runtime, Threads) {
  const int initial = num_threads();
  EXPECT_GE(initial, 1);
  set_num_threads(5);
  EXPECT_EQ(num_threads(), 5);
  EXPECT_THROW(set_num_threads(-1), InvalidArgument);
  EXPECT_EQ(num_threads(), 5) << "a refused number changes nothing";
  set_num_threads(0);
  EXPECT_EQ(num_threads(), initial);
}

// Runs `answer` in a fresh process whose environment holds name=value; its exit status must be `expected`.
template <typename Answer>
void expect_with_environment(const char* name, const std::string& value, Answer answer, int expected) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // executes the program anew: variables are read at its start
  ::setenv(name, value.c_str(), 1);
  EXPECT_EXIT(std::exit(answer()), ::testing::ExitedWithCode(expected), "") << name << "=" << value;
  ::unsetenv(name);
}

TEST(RuntimeDeathTest, EnvironmentChoosesThreads) {
  expect_with_environment(
      "MULTIHEAD_THREADS", "3", [] { return num_threads(); }, 3);
  // set_num_threads(0) returns to what the environment says.
  expect_with_environment(
      "MULTIHEAD_THREADS", "3", [] { return set_num_threads(7), set_num_threads(0), num_threads(); }, 3);
  for (const char* nonsense : {"", "0", "-2", "many"}) {
    expect_with_environment(
        "MULTIHEAD_THREADS", nonsense, [] { return num_threads() >= 1 ? 0 : 1; }, 0);
  }
}

TEST(RuntimeDeathTest, EnvironmentChoosesTheTarget) {
  const std::vector<std::string> names = targets();
  for (std::size_t n = 0; n < names.size(); ++n) {
    expect_with_environment(
        "MULTIHEAD_TARGET", names[n], [&] { return active_target() == names[n] ? 0 : 1; }, 0);
  }
}

}  // namespace
}  // namespace multihead::test
