#include "multihead/machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/message.h"
#include "base/parallel.h"
#include "kernels/measure.h"
#include "multihead/tensor.h"

namespace multihead {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int kRuns = 5;

}  // namespace

double measure_peak_gflops(int threads, double milliseconds) {
  require(threads > 0, "measure_peak_gflops: expected 1 thread or more; got ", threads);
  constexpr Index kProbe = 20000;
  const double probe = seconds_of([] { kernels::multiply_add(kProbe); });
  const auto rounds = std::max<Index>(1, static_cast<Index>(kProbe * milliseconds / 1000 / std::max(probe, 1e-7)));
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    double operations = 0;
    const double seconds = seconds_of([&] {
      parallel_for(threads, threads, [&](Index item, int) {
        const double done = kernels::multiply_add(rounds);
        if (item == 0) operations = done * threads;
      });
    });
    best = std::max(best, operations / seconds / 1e9);
  }
  return best;
}

double uncached_bytes() {
  const auto last_level = static_cast<double>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return std::max(256.0 * (1 << 20), 2 * last_level);
}

double measure_read_gbytes(int threads) {
  require(threads > 0, "measure_read_gbytes: expected 1 thread or more; got ", threads);
  const Index floats = static_cast<Index>(uncached_bytes() / sizeof(float) / threads);
  Tensor memory = Tensor::uninitialized(DType::kF32, {threads, floats});
  const auto part = [&](Index item) { return memory.data<float>() + item * floats; };
  parallel_for(threads, threads, [&](Index item, int) { std::fill_n(part(item), floats, 1.0f); });
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double seconds =
        seconds_of([&] { parallel_for(threads, threads, [&](Index item, int) { kernels::read_all(part(item), floats); }); });
    best = std::max(best, static_cast<double>(threads * floats) * sizeof(float) / seconds / 1e9);
  }
  return best;
}

}  // namespace multihead
