// Time against the limit of the machine, on machines that other programs use too.
//
// What such a machine can do changes from second to second, so a row is never compared with a limit that was measured at
// another time: limit, row, limit, row, …, limit. Each time is divided by the mean of the two limits around it, and the median
// of these ratios is the row's fraction of the limit.
#pragma once

#include <vector>

#include "bench_work.h"

namespace multihead::cli {

/// Measures the limits of the active target and num_threads() threads, and remembers what it found.
class MachineLimits {
 public:
  /// GFLOP/s for kCompute, GB/s for kMemory, now.
  double measure(BenchLimit limit);
  /// The median of all measurements so far; measures when there is none.
  double median(BenchLimit limit);

 private:
  std::vector<double>& found(BenchLimit limit) { return limit == BenchLimit::kCompute ? peaks_ : reads_; }

  std::vector<double> peaks_, reads_;
};

struct Measurement {
  double seconds = 0;   ///< of one run: the median over the rounds of the median within a round
  double spread = 0;    ///< of the rounds: (upper quartile − lower quartile) / median
  double fraction = 0;  ///< of the limit that bounds the row
};

/// 7 rounds, 3 for long runs. The work must have run before: the first call of a shape is never timed.
Measurement measure(BenchWork& work, MachineLimits& limits);

}  // namespace multihead::cli
