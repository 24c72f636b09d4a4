// One deliberate fault for each sanitizer, to see that it would be reported: deliberate_fault race | overflow | undefined.
#include <atomic>
#include <cstdio>
#include <limits>
#include <memory>
#include <string_view>
#include <thread>

#include "base/parallel.h"

int main(int argc, char** argv) {
  const std::string_view fault = argc == 2 ? argv[1] : "";
  int shared = 0;
  if (fault == "race") {
    // Two items that wait for each other are on two threads. Relaxed: being there together must not look like an order.
    std::atomic<int> here = 0;
    multihead::parallel_for(2, 2, [&](multihead::Index, int) {
      here.fetch_add(1, std::memory_order_relaxed);
      while (here.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
      ++shared;
    });
  } else if (fault == "overflow") {
    const auto four = std::make_unique<volatile char[]>(4);
    shared = four[static_cast<std::size_t>(argc) + 2];
  } else if (fault == "undefined") {
    shared = std::numeric_limits<int>::max() - 1 + argc;
  }
  std::printf("%s: not reported (%d)\n", argv[0], shared);
}
