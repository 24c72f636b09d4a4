// The public face of targets.cc.
#include <cstdlib>

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
  if (kernels::choose_target(std::string(name == "auto" ? std::string_view(kernels::target_names().front()) : name).c_str())) return;
  std::string known;
  for (const std::string& target : targets()) known += " " + target;
  throw InvalidArgument(concat("force_target: expected auto or one of", known, "; got ", name));
}

}  // namespace multihead
