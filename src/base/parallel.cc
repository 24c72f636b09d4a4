#include "base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "multihead/runtime.h"

namespace multihead {

int threads_for(Index items) { return static_cast<int>(std::clamp<Index>(items, 1, num_threads())); }

int threads_for_work(double multiply_adds) {
  constexpr double kWorkPerThread = 2e5;
  return threads_for(static_cast<Index>(std::clamp(multiply_adds / kWorkPerThread, 1.0, 1e6)));
}

void parallel_for(Index items, int threads, const std::function<void(Index, int)>& work) {
  if (threads <= 1 || items <= 1) {
    for (Index item = 0; item < items; ++item) work(item, 0);
    return;
  }
  std::atomic<Index> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
#pragma omp parallel num_threads(threads)
  {
    // The number inside this team: unlike a global thread id it is unique here even when the caller runs its own region.
    const int thread = omp_get_thread_num();
    try {
      for (Index item = next.fetch_add(1, std::memory_order_relaxed); item < items;
           item = next.fetch_add(1, std::memory_order_relaxed)) {
        work(item, thread);
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next.store(items, std::memory_order_relaxed);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace multihead
