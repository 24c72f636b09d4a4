// multihead bench: how fast, of what is possible here, and how exact.
#include <memory>
#include <regex>

#include "bench_print.h"
#include "command.h"
#include "machine_options.h"
#include "options.h"

namespace multihead::cli {
namespace {

struct BenchOptions {
  std::string filter;
  MachineOptions machine;
  bool list = false, json = false;
};

std::vector<BenchRow> chosen_rows(const std::string& filter) {
  std::regex pattern;
  try {
    pattern = std::regex(filter);
  } catch (const std::regex_error&) {
    throw usage_error("--filter: expected a regular expression; got '" + filter + "'");
  }
  std::vector<BenchRow> rows;
  for (BenchRow& row : bench_rows()) {
    if (std::regex_search(row.name(), pattern)) rows.push_back(std::move(row));
  }
  if (rows.empty())
    throw InvalidArgument("--filter: no row's name has '" + filter + "' in it; `multihead bench --list` lists them");
  return rows;
}

BenchResult result_of(const BenchRow& row, BenchWorkshop& workshop, MachineLimits& limits) {
  const std::unique_ptr<BenchWork> work = workshop.prepare(row);
  work->run();
  const BenchError error = work->check();
  return {row, measure(*work, limits), error, work->operations, work->bytes, work->limit};
}

void list_names(const std::vector<BenchRow>& rows, bool json) {
  std::vector<std::string> names;
  std::string text;
  for (const BenchRow& row : rows) {
    names.push_back(row.name());
    text += names.back() + "\n";
  }
  if (json) return print(Json{{"names", names}});
  print(text);
}

void bench(const BenchOptions& options) {
  const std::vector<BenchRow> rows = chosen_rows(options.filter);
  if (options.list) return list_names(rows, options.json);
  options.machine.apply();
  BenchWorkshop workshop;
  MachineLimits limits;
  BenchSummary summary;
  std::string failed;
  for (const BenchRow& row : rows) {
    progress("row " + std::to_string(summary.results.size() + 1) + " of " + std::to_string(rows.size()) + ", " + row.name());
    summary.results.push_back(result_of(row, workshop, limits));
    if (!summary.results.back().error.within) failed += (failed.empty() ? "" : ", ") + row.name();
  }
  summary.peak_gflops = limits.median(BenchLimit::kCompute);
  summary.read_gbytes = limits.median(BenchLimit::kMemory);
  if (options.json) {
    print(json_of(summary));
  } else {
    print(text_of(summary));
  }
  if (!failed.empty()) throw Error("bench: beyond the accuracy contract: " + failed);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Speed as a fraction of what this machine can do, and the error of every answer");
  auto options = std::make_shared<BenchOptions>();
  command->add_option("--filter", options->filter, "only rows in whose name this regular expression is found")
      ->type_name("REGEX");
  command->add_flag("--list", options->list, "print the names of the rows and measure nothing");
  add_machine_options(*command, options->machine, "Options");
  command->add_flag("--json", options->json, "print one JSON object instead of text");
  command->footer(
      "Every answer is compared with the definition in float64 before it is timed; one beyond the accuracy contract makes the "
      "exit\n"
      "status 1. All rows take some minutes.\n"
      "Examples:\n  multihead bench --filter 'n2048/d64'\n  multihead bench --filter '^decode/.*/f16$' --threads 1 --json");
  command->callback([options] { bench(*options); });
}

}  // namespace multihead::cli
