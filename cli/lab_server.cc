// multihead lab: serves the lab until it is interrupted.
#include <pthread.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "command.h"
#include "lab/server/routes.h"
#include "lab/server/server.h"
#include "options.h"
#include "report.h"

namespace multihead::cli {
namespace {

constexpr Index kDefaultPort = 8080, kLargestPort = 65535;

struct LabOptions {
  std::vector<std::filesystem::path> captures;
  std::optional<Index> port;
};

// SIGINT and SIGTERM wait in every thread that starts from here, for the one that asks for them.
sigset_t held_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void serve(const LabOptions& options) {
  const sigset_t signals = held_signals();
  const auto captures = std::make_shared<lab::Captures>(options.captures);
  lab::Server server(lab::make_router(captures), static_cast<int>(options.port.value_or(kDefaultPort)));
  std::thread interrupted([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    server.stop();
  });
  print("The lab is at " + server.address() + "  (Ctrl+C ends it)\n");
  server.serve();
  pthread_kill(interrupted.native_handle(), SIGTERM);
  interrupted.join();
}

}  // namespace

void add_lab(CLI::App& app) {
  auto* command =
      app.add_subcommand("lab", "Serve the lab, a page to edit and watch small attention by hand, on this machine only");
  auto options = std::make_shared<LabOptions>();
  add_integer(*command, "--port", options->port, "where to listen on 127.0.0.1; 0 takes a free port (8080)", {0, kLargestPort});
  command->add_option("captures", options->captures, "capture files, whose maps the room Map shows")->type_name("CAPTURE");
  command->footer("Example:\n  multihead lab --port 0 layer3.safetensors");
  command->callback([options] { serve(*options); });
}

}  // namespace multihead::cli
