#include "multihead/runtime.h"

#include <omp.h>

#include <atomic>
#include <cstdlib>

#include "base/message.h"

namespace multihead {
namespace {

// 0 = not set: the default applies.
std::atomic<int> g_threads{0};

int default_threads() {
  static const int threads = [] {
    const char* text = std::getenv("MULTIHEAD_THREADS");
    const int wanted = text != nullptr ? std::atoi(text) : 0;
    return wanted > 0 ? wanted : omp_get_max_threads();
  }();
  return threads;
}

}  // namespace

std::string version() { return MULTIHEAD_VERSION; }

int num_threads() {
  const int threads = g_threads.load(std::memory_order_relaxed);
  return threads > 0 ? threads : default_threads();
}

void set_num_threads(int threads) {
  require(threads >= 0, "set_num_threads: expected 0 (default) or more; got ", threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

}  // namespace multihead
