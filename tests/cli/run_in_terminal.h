// Runs the built command with a terminal behind its three streams, as a person would.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cli/run_command.h"

namespace multihead::cli_test {

struct TerminalResult {
  int status = -1;
  std::string screen;  ///< everything that the command sent, \r\n as \n
};

/// `environment` replaces the test's own variables, but for those that decide how the program runs.
inline TerminalResult run_in_terminal(const fs::path& folder, const std::vector<std::string>& arguments, unsigned short columns,
                                      std::vector<std::string> environment) {
  for (const char* kept : {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "OMP_WAIT_POLICY"}) {
    if (const char* value = std::getenv(kept)) environment.push_back(std::string(kept) + "=" + value);
  }
  std::vector<std::string> words{MULTIHEAD_CLI};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& setting : environment) envp.push_back(setting.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  winsize size{};
  size.ws_row = 40;
  size.ws_col = columns;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    if (chdir(folder.c_str()) == 0) execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  TerminalResult result;
  EXPECT_GT(child, 0) << "no terminal: " << std::strerror(errno);
  if (child <= 0) return result;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(terminal, buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR);) {
    for (ssize_t i = 0; i < count; ++i) {
      if (buffer[static_cast<std::size_t>(i)] != '\r') result.screen += buffer[static_cast<std::size_t>(i)];
    }
  }
  ::close(terminal);
  int status = 0;
  if (waitpid(child, &status, 0) == child) result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace multihead::cli_test
