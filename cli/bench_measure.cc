#include "bench_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "multihead/machine.h"
#include "multihead/runtime.h"

namespace multihead::cli {
namespace {

constexpr double kRowSeconds = 4;  // a row takes about this long …
constexpr int kMinRounds = 3;      // … but never fewer rounds than this
constexpr int kMaxRounds = 7;
constexpr double kRoundSeconds = 0.02;  // short runs are repeated within a round
constexpr double kPeakMilliseconds = 4;

double seconds_of(BenchWork& work) {
  const auto start = std::chrono::steady_clock::now();
  work.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Linear between the sorted values; `part` of them lie below.
double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double round_seconds(BenchWork& work) {
  std::vector<double> times;
  double total = 0;
  do {
    times.push_back(seconds_of(work));
    total += times.back();
  } while (total < kRoundSeconds);
  return quantile(std::move(times), 0.5);
}

}  // namespace

double MachineLimits::measure(BenchLimit limit) {
  const int threads = num_threads();
  const double now =
      limit == BenchLimit::kCompute ? measure_peak_gflops(threads, kPeakMilliseconds) : measure_read_gbytes(threads);
  found(limit).push_back(now);
  return now;
}

double MachineLimits::median(BenchLimit limit) {
  if (found(limit).empty()) measure(limit);
  return quantile(found(limit), 0.5);
}

Measurement measure(BenchWork& work, MachineLimits& limits) {
  const double amount = (work.limit == BenchLimit::kCompute ? work.operations : work.bytes) / 1e9;
  std::vector<double> times, fractions;
  double total = 0;
  double before = limits.measure(work.limit);
  for (int round = 0; round < kMinRounds || (round < kMaxRounds && total < kRowSeconds); ++round) {
    times.push_back(round_seconds(work));
    total += times.back();
    const double after = limits.measure(work.limit);
    fractions.push_back(amount / times.back() / ((before + after) / 2));
    before = after;
  }
  const double median = quantile(times, 0.5);
  return {median, (quantile(times, 0.75) - quantile(times, 0.25)) / median, quantile(fractions, 0.5)};
}

}  // namespace multihead::cli
