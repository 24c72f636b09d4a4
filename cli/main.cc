// multihead, the command: parses, runs one subcommand, and turns every failure into one line and an exit status:
// 0 done, 1 it could not be done, 2 the command line makes no sense.
#include <iostream>
#include <new>

#include "command.h"
#include "multihead/error.h"
#include "multihead/runtime.h"
#include "options.h"
#include "report.h"

namespace multihead::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int fail(int status, std::string text) {
  // File names may hold anything; the line stays one line.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  std::cerr << "multihead: " << text << std::endl;
  return status;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Exact multi-head attention on CPUs, every coefficient observable", "multihead");
  app.set_version_flag("--version", "multihead " + version());
  app.require_subcommand(0, 1);
  // Not CLI11's own requirement, which would hide the word that is no command.
  app.callback([&app] {
    if (app.get_subcommands().empty())
      throw usage_error(
          "expected a command: look, run, attend, capture, map, stats, lab, generate, train, inspect, describe, targets or "
          "bench");
  });
  app.footer(
      "`multihead COMMAND --help` tells about a command. Errors are one line on standard error; the exit status is 1, or 2 "
      "for\n"
      "a wrong command line.");
  add_look(app);
  add_run(app);
  add_attend(app);
  add_capture(app);
  add_map(app);
  add_stats(app);
  add_generate(app);
  add_inspect(app);
  add_describe(app);
  add_lab(app);
  add_targets(app);
  add_train(app);
  add_bench(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
  } catch (const CLI::CallForVersion& request) {
    print(std::string(request.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "multihead" : "multihead " + chosen.front()->get_name();
    return fail(kUsage, std::string(error.what()) + " (see " + command + " --help)");
  }
  return 0;
}

}  // namespace
}  // namespace multihead::cli

int main(int argc, char** argv) {
  using namespace multihead::cli;
  try {
    return run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "not enough memory");
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}
