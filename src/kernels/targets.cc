// Which instruction sets are here, and which one is used.
#include "hwy/targets.h"

#include <atomic>
#include <cstring>

#include "kernels/kernels.h"

namespace multihead::kernels {
namespace {

// Compiled in and supported by this CPU, best first (Highway numbers better targets lower). Read before any choice narrows it.
const std::vector<std::int64_t>& available() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

std::atomic<std::int64_t> g_chosen{0};  // 0: the best

}  // namespace

std::vector<const char*> target_names() {
  std::vector<const char*> names;
  for (const std::int64_t target : available()) names.push_back(hwy::TargetName(target));
  return names;
}

const char* active_target_name() {
  const std::int64_t chosen = g_chosen.load();
  return hwy::TargetName(chosen != 0 ? chosen : available().front());
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
