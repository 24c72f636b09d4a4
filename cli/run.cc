// multihead run: a whole layer, from a checkpoint or a preset.
#include <memory>

#include "arrays.h"
#include "command.h"
#include "compute.h"
#include "lab.h"
#include "layer_source.h"
#include "multihead/layer.h"
#include "options.h"

namespace multihead::cli {
namespace {

struct RunOptions {
  LayerSource source;
  ComputeOptions compute;

  bool writes_or_compares() const {
    return compute.output || compute.probabilities || compute.lse || compute.reference || compute.compare;
  }
};

void require_memory_for(const LayerConfig& config, const Dims& scores, const ComputeOptions& options) {
  const LayerDescription description = describe(config, scores[2], scores[3]);
  double bytes = 0;
  for (const LayerStep& step : description.steps) bytes += step.stored ? step.bytes : 0;
  if (options.probabilities) bytes += description.bytes_not_stored;
  const double in_f64_too = options.reference || options.compare ? 3 : 1;
  require_memory(bytes * in_f64_too * static_cast<double>(scores[0]), "this run");
}

Problem problem_of(const MultiHeadAttention& layer, const LayerInputs& inputs, const ComputeOptions& options) {
  const Dims &x = inputs.input.tensor.shape(), &memory = inputs.keys_from().shape();
  const Dims scores{x[0], layer.config().num_heads, x[1], memory[1]};
  const auto forward = [&layer, &inputs, &options, scores](DType seen_dtype, bool by_definition) {
    Results results;
    ForwardObservation seen;
    if (options.lse) seen.lse = results.lse = Tensor(seen_dtype, {scores[0], scores[1], scores[2]});
    if (options.probabilities) seen.probabilities = results.probabilities = Tensor(seen_dtype, scores);
    const Tensor& input = inputs.input.tensor;
    if (by_definition) {
      results.output = layer.reference_forward(input, inputs.keys_from(), {}, seen);
    } else if (inputs.memory) {
      results.output = layer.forward(input, inputs.memory->tensor, {}, seen);
    } else {
      results.output = layer.forward(input, {}, seen);
    }
    return results;
  };
  Problem problem;
  problem.batched = inputs.batched;
  problem.score_shape = scores;
  problem.fused = [forward] { return forward(DType::kF32, false); };
  problem.reference = [forward] { return forward(DType::kF64, true); };
  return problem;
}

// How many leading positions the definition in float64 computes in about a second.
Index comparable_length(const LayerConfig& config, Index length) {
  constexpr double kOperations = 1e9;
  while (length > 1 && describe(config, length, length).operations > kOperations) length /= 2;
  return length;
}

// What a preset shows when nothing is to be written: the matrices if they can be read, and the error on a bounded length.
void show(const MultiHeadAttention& layer, const LayerInputs& inputs, const ComputeOptions& options, Report report) {
  run_fused(problem_of(layer, inputs, options), report);
  const Index length = inputs.input.tensor.shape()[1], compared = comparable_length(layer.config(), length);
  const LayerInputs first{{"input", "", Tensor::copy_of(inputs.input.tensor.view().slice(1, 0, compared))}, {}, false};
  const Problem part = problem_of(layer, first, options);
  add_error(part.fused(), part.reference(), report);
  if (compared < length) report.add("compared", "the first " + grouped(compared) + " positions alone", compared);
  if (is_readable(layer.config(), length)) add_matrices(layer, inputs.input.tensor, report);
  report.print(options.json);
}

void run(const RunOptions& options) {
  const LayerSource& source = options.source;
  source.require_sense("run");
  if (source.checkpoint && !options.compute.output) throw usage_error("--output is required with --checkpoint");
  OutputFiles files = options.compute.files();
  source.add_inputs(files);
  files.check();
  options.compute.machine.apply();

  Report report;
  report.set("command", "run");
  const MultiHeadAttention layer = source.load(report);
  report.say("heads", heads_text(layer.config()));
  const LayerInputs inputs = source.read(options.compute.dtype, report);
  const Problem problem = problem_of(layer, inputs, options.compute);
  require_memory_for(layer.config(), problem.score_shape, options.compute);
  if (options.writes_or_compares() || source.input) {
    compute(problem, options.compute, files, report);
  } else {
    show(layer, inputs, options.compute, report);
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "A multi-head attention layer, from a checkpoint or a preset");
  auto options = std::make_shared<RunOptions>();
  add_layer_source(*command, options->source);
  add_compute_options(*command, options->compute);
  command->footer(
      "Causality, window and positions are as the checkpoint says. A preset without results to write is shown: the lab with "
      "all its\n"
      "matrices, a bigger one with its error against the definition.\n"
      "Examples:\n  multihead run --preset lab\n"
      "  multihead run --checkpoint llama/ --layer 0 --input x.npy --output y.npy --probabilities p.npy --compare");
  command->callback([options] { run(*options); });
}

}  // namespace multihead::cli
