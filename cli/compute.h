// What `attend` and `run` have in common: the options about results and machine, and the way from a problem to files and a
// report.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>

#include "machine_options.h"
#include "multihead/dtype.h"
#include "multihead/tensor.h"
#include "outputs.h"
#include "report.h"

namespace multihead::cli {

struct ComputeOptions {
  std::optional<std::filesystem::path> output, probabilities, lse;
  std::optional<DType> dtype;
  MachineOptions machine;
  bool reference = false, compare = false, json = false;

  /// The outputs that were asked for, ready to be checked.
  OutputFiles files() const;
};

void add_compute_options(CLI::App& app, ComputeOptions& options);

/// Results with their batch axis. Empty tensors were not asked for.
struct Results {
  Tensor output;         ///< [batch, …]
  Tensor probabilities;  ///< [batch, num_heads, query_len, key_len]
  Tensor lse;            ///< [batch, num_heads, query_len]
};

/// One problem that can be computed in two ways; both return what ComputeOptions asks for.
struct Problem {
  bool batched = true;                         ///< the inputs had a batch axis, so the results keep it
  Dims score_shape;                            ///< [batch, num_heads, query_len, key_len]
  std::function<Results()> fused;              ///< results in f32, f16 or bf16
  std::function<Results()> reference;          ///< results in f64
  std::function<void(Report&)> explain_fused;  ///< may be empty: which kernel, and why
};

/// Computes the fused way and adds target, threads and time to the report.
Results run_fused(const Problem& problem, Report& report);
/// Adds the error of every result that both have.
void add_error(const Results& results, const Results& expected, Report& report);

/// Computes, compares, writes, reports: everything after the inputs were read. `report` already tells about the inputs.
void compute(const Problem& problem, const ComputeOptions& options, OutputFiles files, Report report);

}  // namespace multihead::cli
