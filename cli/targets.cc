// multihead targets: what this build can use here.
#include <memory>

#include "command.h"
#include "multihead/runtime.h"
#include "report.h"

namespace multihead::cli {
namespace {

void show_targets(bool json) {
  const std::string active = active_target();
  if (json) {
    return print(Json{{"version", version()}, {"targets", targets()}, {"active", active}, {"threads", num_threads()}});
  }
  Table table({{"target"}, {""}});
  for (const std::string& name : targets()) table.add_row({name, name == active ? "in use" : ""});
  print(table.text() + "\nmultihead " + version() + ", up to " + std::to_string(num_threads()) + " threads\n");
}

}  // namespace

void add_targets(CLI::App& app) {
  auto* command = app.add_subcommand("targets", "Instruction sets that can be used here, best first");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print one JSON object instead of text");
  command->footer("The environment variables MULTIHEAD_TARGET and MULTIHEAD_THREADS choose for every command.");
  command->callback([json] { show_targets(*json); });
}

}  // namespace multihead::cli
