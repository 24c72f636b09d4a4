#include "machine_options.h"

#include "multihead/runtime.h"
#include "options.h"

namespace multihead::cli {

void MachineOptions::apply() const {
  if (threads) set_num_threads(static_cast<int>(*threads));
  if (!target.empty()) force_target(target);
}

void add_machine_options(CLI::App& app, MachineOptions& options, const std::string& group) {
  add_integer(app, "--threads", options.threads, "threads to use; results do not depend on it", {1, 1024})->group(group);
  app.add_option("--target", options.target, "instruction set, one of those that `multihead targets` lists")
      ->type_name("NAME")
      ->group(group);
}

}  // namespace multihead::cli
