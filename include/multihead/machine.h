// What this machine can do at most, measured: the denominators of every "fraction of the limit".
#pragma once

#include "multihead/export.h"

namespace multihead {

/// Multiply-add throughput of the active target in GFLOP/s (f32, two operations each), of `threads` threads together, best of
/// several runs of about `milliseconds` each.
MULTIHEAD_API double measure_peak_gflops(int threads, double milliseconds = 20);

/// Bytes that come from memory when they are read in turn, whatever was read before: 256 MiB or twice the last cache level.
MULTIHEAD_API double uncached_bytes();

/// Read bandwidth from memory in GB/s (10^9 bytes) of `threads` threads together, each reading its part of uncached_bytes()
/// once a run; best of several runs.
MULTIHEAD_API double measure_read_gbytes(int threads);

}  // namespace multihead
