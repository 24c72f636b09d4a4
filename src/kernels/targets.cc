// Which instruction sets are here, and which one is used.
#include "hwy/targets.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/message.h"
#include "kernels/kernels.h"

namespace multihead::kernels {
namespace {

// Compiled in and supported by this CPU, best first (Highway numbers better targets lower). Read before any choice narrows it.
const std::vector<std::int64_t>& available() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

std::atomic<std::int64_t> g_chosen{0};  // 0: nobody has chosen yet

}  // namespace

std::vector<const char*> target_names() {
  std::vector<const char*> names;
  for (const std::int64_t target : available()) names.push_back(hwy::TargetName(target));
  return names;
}

std::string known_targets() {
  std::string names;
  for (const char* name : target_names()) names += concat(names.empty() ? "" : ", ", name);
  return names;
}

void ensure_target() {
  if (g_chosen.load() != 0) return;
  const char* wanted = std::getenv("MULTIHEAD_TARGET");
  const bool named = wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, "auto") != 0;
  const bool known = choose_target(named ? wanted : target_names().front());
  require(known, "MULTIHEAD_TARGET: expected auto or one of ", known_targets(), "; got ", wanted);
}

const char* active_target_name() {
  ensure_target();
  return hwy::TargetName(g_chosen.load());
}

bool choose_target(const char* name) {
  for (const std::int64_t target : available()) {
    if (std::strcmp(hwy::TargetName(target), name) != 0) continue;
    g_chosen = target;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    return true;
  }
  return false;
}

}  // namespace multihead::kernels
