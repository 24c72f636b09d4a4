// The public face of targets.cc.
#include "base/message.h"
#include "kernels/kernels.h"
#include "multihead/runtime.h"

namespace multihead {

std::vector<std::string> targets() {
  std::vector<std::string> names;
  for (const char* name : kernels::target_names()) names.emplace_back(name);
  return names;
}

std::string active_target() { return kernels::active_target_name(); }

void force_target(std::string_view name) {
  const std::string wanted(name == "auto" ? kernels::target_names().front() : name);
  require(kernels::choose_target(wanted.c_str()), "force_target: expected auto or one of ", kernels::known_targets(), "; got ",
          name);
}

}  // namespace multihead
