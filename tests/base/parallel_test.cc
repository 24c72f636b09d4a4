#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "multihead/runtime.h"

namespace multihead {
namespace {

TEST(ParallelFor, CallsEveryItemOnceOnAKnownThread) {
  for (const Index items : {0, 1, 2, 3, 17, 1000}) {
    for (const int threads : {1, 2, 3, 8}) {
      // Plain integers: two threads on one item, or a result that is read before it is written, is a race that a sanitizer
      // sees.
      std::vector<int> calls(static_cast<std::size_t>(items));
      std::vector<int> thread_of(static_cast<std::size_t>(items), -1);
      parallel_for(items, threads, [&](Index item, int thread) {
        ++calls[static_cast<std::size_t>(item)];
        thread_of[static_cast<std::size_t>(item)] = thread;
      });
      EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(items), 1)) << items << " items on " << threads << " threads";
      for (const int thread : thread_of) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
      }
    }
  }
}

TEST(ParallelFor, ScratchOfAThreadIsItsOwn) {
  constexpr int kThreads = 4;
  std::vector<Index> sums(kThreads);
  parallel_for(1000, kThreads, [&](Index item, int thread) { sums[static_cast<std::size_t>(thread)] += item; });
  Index total = 0;
  for (const Index sum : sums) total += sum;
  EXPECT_EQ(total, 999 * 1000 / 2);
}

TEST(ParallelFor, RethrowsAfterAllThreadsHaveStopped) {
  for (const int threads : {1, 4}) {
    EXPECT_THROW(parallel_for(1000, threads,
                              [](Index item, int) {
                                if (item == 500) throw std::runtime_error("item 500");
                              }),
                 std::runtime_error);
    int calls = 0;
    parallel_for(1, threads, [&](Index, int) { ++calls; });
    EXPECT_EQ(calls, 1) << "usable after an exception";
  }
}

TEST(ParallelFor, ThreadNumbersAreScratchKeysInNestedRegionsToo) {
  std::vector<int> calls(8 * 8);
  parallel_for(8, 2, [&](Index outer, int) {
    parallel_for(8, 2, [&](Index inner, int thread) {
      EXPECT_LT(thread, 2);
      ++calls[static_cast<std::size_t>(outer * 8 + inner)];
    });
  });
  EXPECT_EQ(calls, std::vector<int>(8 * 8, 1));
}

TEST(ThreadsFor, NeverMoreThanItemsNorThanAllowed) {
  set_num_threads(3);
  EXPECT_EQ(threads_for(0), 1);
  EXPECT_EQ(threads_for(2), 2);
  EXPECT_EQ(threads_for(100), 3);
  set_num_threads(0);
}

}  // namespace
}  // namespace multihead
