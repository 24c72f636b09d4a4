#include "bench_print.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "multihead/runtime.h"

namespace multihead::cli {
namespace {

// The processor's name as the kernel gives it on x86; Arm's kernel gives none.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string architecture() {
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

Json machine() {
  return {{"processor", processor_name()},
          {"architecture", architecture()},
          {"processors", sysconf(_SC_NPROCESSORS_ONLN)},
          {"version", version()}};
}

// A strided row's fraction over that of the dense row with the same name, which was measured just before it; 0: not measured.
double part_of_dense(const BenchResult& result, const BenchSummary& summary) {
  if (!result.row.strided) return 0;
  BenchRow dense = result.row;
  dense.strided = false;
  for (const BenchResult& other : summary.results) {
    if (other.row.name() == dense.name()) return result.time.fraction / other.time.fraction;
  }
  return 0;
}

}  // namespace

std::string text_of(const BenchSummary& summary) {
  using Align = Table::Align;
  Table table({{"shape"},
               {"dtype"},
               {"time", Align::kRight},
               {"spread", Align::kRight},
               {"speed", Align::kRight},
               {"of limit", Align::kRight},
               {"error", Align::kRight},
               {""}});
  for (const BenchResult& result : summary.results) {
    const bool compute = result.limit == BenchLimit::kCompute;
    const double part = part_of_dense(result, summary);
    table.add_row({result.row.name(), std::string(name_of(result.row.dtype)), seconds_text(result.time.seconds),
                   formatted("%.0f %%", 100 * result.time.spread),
                   compute ? formatted("%.4g GFLOP/s", result.gflops()) : formatted("%.4g GB/s", result.gbytes()),
                   formatted("%.3f", result.time.fraction), scientific(result.error.relative),
                   !result.error.within ? "FAILED: beyond the accuracy contract"
                   : part > 0           ? formatted("%.2f of dense", part)
                                        : ""});
  }
  return processor_name() + ", target " + active_target() + ", threads " + std::to_string(num_threads()) + ": " +
         formatted("peak %.4g GFLOP/s (f32), ", summary.peak_gflops) + formatted("reads %.4g GB/s\n\n", summary.read_gbytes) +
         table.text();
}

Json json_of(const BenchSummary& summary) {
  Json rows = Json::array();
  for (const BenchResult& result : summary.results) {
    Json row{{"name", result.row.name()},
             {"dtype", name_of(result.row.dtype)},
             {"target", active_target()},
             {"threads", num_threads()},
             {"milliseconds", 1000 * result.time.seconds},
             {"spread", result.time.spread},
             {"gflops", result.gflops()},
             {"gbytes", result.gbytes()},
             {"limit", result.limit == BenchLimit::kCompute ? "peak_gflops" : "read_gbytes"},
             {"fraction", result.time.fraction},
             {"error", result.error.relative},
             {"within_contract", result.error.within}};
    const double part = part_of_dense(result, summary);
    if (part > 0) row["of_dense"] = part;
    rows.push_back(std::move(row));
  }
  return {{"machine", machine()},
          {"peak_gflops", summary.peak_gflops},
          {"read_gbytes", summary.read_gbytes},
          {"rows", std::move(rows)}};
}

}  // namespace multihead::cli
