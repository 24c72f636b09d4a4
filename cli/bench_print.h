// What `multihead bench` says.
#pragma once

#include <string>
#include <vector>

#include "bench_measure.h"
#include "report.h"

namespace multihead::cli {

/// One measured row.
struct BenchResult {
  BenchRow row;
  Measurement time;
  BenchError error;
  double operations = 0, bytes = 0;
  BenchLimit limit = BenchLimit::kCompute;

  double gflops() const { return operations / time.seconds / 1e9; }
  double gbytes() const { return bytes / time.seconds / 1e9; }
};

struct BenchSummary {
  double peak_gflops = 0, read_gbytes = 0;
  std::vector<BenchResult> results;
};

/// For people: the machine, then a line a row.
std::string text_of(const BenchSummary& summary);
/// For machines: {machine, peak_gflops, read_gbytes, rows}.
Json json_of(const BenchSummary& summary);

}  // namespace multihead::cli
