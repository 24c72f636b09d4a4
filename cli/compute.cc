#include "compute.h"

#include <chrono>

#include "arrays.h"
#include "compare.h"
#include "multihead/runtime.h"
#include "options.h"

namespace multihead::cli {
namespace {

struct NamedResult {
  const char* name;
  Tensor Results::*tensor;
};
constexpr NamedResult kResults[] = {
    {"output", &Results::output}, {"probabilities", &Results::probabilities}, {"lse", &Results::lse}};

std::string size_text(const Dims& scores) {
  return grouped(scores[0] * scores[1]) + " heads, " + grouped(scores[2]) + " queries, " + grouped(scores[3]) + " keys";
}

Results timed(const std::function<Results()>& work, Report& report) {
  const auto start = std::chrono::steady_clock::now();
  Results results = work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.say("time", seconds_text(seconds));
  report.set("seconds", seconds);
  return results;
}

Results run_reference(const Problem& problem) {
  progress("computing by the definition in float64, on one thread: " + size_text(problem.score_shape));
  return problem.reference();
}

ConstTensorView without_batch(const ConstTensorView& view) {
  return {view.data, view.dtype, Dims(std::span<const Index>(view.shape.begin() + 1, view.shape.end()))};
}

}  // namespace

OutputFiles ComputeOptions::files() const {
  OutputFiles files;
  if (output) files.add("output", *output);
  if (probabilities) files.add("probabilities", *probabilities);
  if (lse) files.add("lse", *lse);
  return files;
}

void add_compute_options(CLI::App& app, ComputeOptions& options) {
  const std::string results = "Results", how = "How to compute";
  add_path(app, "--output", options.output, "write the output (.npy)")->group(results);
  add_path(app, "--probabilities", options.probabilities, "write every coefficient, [heads, queries, keys], f32")
      ->group(results);
  add_path(app, "--lse", options.lse, "write the log-sum-exp of every row of scores, [heads, queries], f32")->group(results);
  app.add_flag("--json", options.json, "print one JSON object instead of text")->group(results);
  add_dtype(app, "--dtype", options.dtype, "convert the inputs to this type and compute in it (bf16 files are written as f32)")
      ->group(how);
  add_machine_options(app, options.machine, how);
  auto* reference =
      app.add_flag("--reference", options.reference,
                   "compute by the definition in float64 instead, on one thread; files are f64 unless --dtype is given");
  auto* compare = app.add_flag("--compare", options.compare, "compute both ways and print the error against the definition");
  reference->group(how);
  compare->group(how)->excludes(reference);
}

Results run_fused(const Problem& problem, Report& report) {
  report.add("target", active_target() + ", up to " + std::to_string(num_threads()) + " threads", active_target());
  report.set("threads", num_threads());
  Results results = timed(problem.fused, report);
  if (problem.explain_fused) problem.explain_fused(report);
  return results;
}

void add_error(const Results& results, const Results& expected, Report& report) {
  Json errors = Json::object();
  std::string text;
  for (const auto& [name, tensor] : kResults) {
    if ((results.*tensor).empty() || (expected.*tensor).empty()) continue;
    const Difference error = difference(results.*tensor, expected.*tensor);
    errors[name] = {{"relative", error.relative}, {"max_abs", error.largest}};
    text += (text.empty() ? "" : "; ") + std::string(name) + " relative " + scientific(error.relative) + ", largest " +
            scientific(error.largest);
  }
  report.add("error", text, errors);
}

void compute(const Problem& problem, const ComputeOptions& options, OutputFiles files, Report report) {
  if (options.reference) report.say("computed", "by the definition in float64, on one thread");
  report.set("reference", options.reference);
  Results results = options.reference ? timed([&] { return run_reference(problem); }, report) : run_fused(problem, report);
  if (options.compare) add_error(results, run_reference(problem), report);
  if (options.reference && options.dtype) results.output = Tensor::converted(results.output, *options.dtype);
  for (const auto& [name, tensor] : kResults) {
    if ((results.*tensor).empty()) continue;
    const ConstTensorView view = results.*tensor;
    files.write(name, problem.batched ? view : without_batch(view));
  }
  files.add_facts(report);
  report.print(options.json);
}

}  // namespace multihead::cli
