// multihead run: a whole layer, from a checkpoint or a preset.
#include <memory>

#include "arrays.h"
#include "command.h"
#include "compute.h"
#include "lab.h"
#include "layers.h"
#include "multihead/checkpoint.h"
#include "multihead/layer.h"
#include "options.h"

namespace multihead::cli {
namespace {

struct RunOptions {
  std::optional<std::filesystem::path> checkpoint, input, memory;
  std::optional<Index> layer, length, seed;
  std::string preset;
  ComputeOptions compute;

  bool writes_or_compares() const {
    return compute.output || compute.probabilities || compute.lse || compute.reference || compute.compare;
  }
};

void require_sense(const RunOptions& options) {
  if (options.checkpoint.has_value() == !options.preset.empty()) {
    throw usage_error("run: expected --checkpoint PATH or --preset NAME");
  }
  if (!options.checkpoint) return;
  if (!options.layer) throw usage_error("--layer is required with --checkpoint; `multihead inspect` lists the layers");
  if (!options.input) throw usage_error("--input is required with --checkpoint");
  if (!options.compute.output) throw usage_error("--output is required with --checkpoint");
}

MultiHeadAttention load_from_checkpoint(const RunOptions& options, Report& report) {
  const std::filesystem::path& path = *options.checkpoint;
  const Checkpoint checkpoint = Checkpoint::open(path);
  const std::vector<FoundLayer>& layers = checkpoint.layers();
  const auto index = static_cast<std::size_t>(*options.layer);
  if (index >= layers.size()) {
    std::string names;
    for (std::size_t i = 0; i < layers.size(); ++i) names += (i > 0 ? ", " : "") + std::to_string(i) + " " + layers[i].name;
    throw InvalidArgument("--layer " + std::to_string(index) + ": " + path.string() + " has " + std::to_string(layers.size()) +
                          " attention layers: " + names);
  }
  const FoundLayer& found = layers[index];
  if (found.role == "cross" && !options.memory) {
    throw InvalidArgument("layer " + std::to_string(index) + " " + found.name +
                          " is cross attention: its keys and values come from --memory");
  }
  report.add("layer", std::to_string(index) + " " + found.name + " (" + found.family + ")", json_of(found, index));
  return checkpoint.load(index);
}

std::uint64_t seed_of(const RunOptions& options) { return static_cast<std::uint64_t>(options.seed.value_or(0)); }

MultiHeadAttention load_preset(const RunOptions& options, const Preset& preset, Report& report) {
  report.add("preset", preset.name + ": " + preset.summary,
             {{"name", preset.name}, {"seed", seed_of(options)}, {"config", json_of(preset.config.resolved())}});
  return {preset.config, preset_weights(preset, seed_of(options))};
}

// X [batch, query_len, model_dim] and X' [batch, key_len, key_input_dim]; without memory X' = X.
struct Inputs {
  Array input;
  std::optional<Array> memory;
  bool batched = false;

  const Tensor& keys_from() const { return memory ? memory->tensor : input.tensor; }
};

std::string heads_text(const LayerConfig& config) {
  return std::to_string(config.num_heads) + " over " + std::to_string(config.num_kv_heads) + " key/value heads of " +
         std::to_string(config.head_dim) + ", " + visibility_text(config);
}

Inputs read_inputs(const RunOptions& options, Report& report) {
  Inputs inputs{read_array("input", *options.input), {}, false};
  add_fact(report, inputs.input);
  std::vector<const Array*> arrays{&inputs.input};
  if (options.memory) {
    inputs.memory = read_array("memory", *options.memory);
    add_fact(report, *inputs.memory);
    arrays.push_back(&*inputs.memory);
  }
  const DType dtype = common_dtype(arrays, options.compute.dtype);
  inputs.batched = add_batch_axis(inputs.input, 3, "length, width");
  convert_array(inputs.input, dtype);
  if (inputs.memory) {
    if (add_batch_axis(*inputs.memory, 3, "length, width") != inputs.batched) {
      throw InvalidArgument(inputs.memory->label() + ": expected a batch axis in both of input and memory or in none");
    }
    convert_array(*inputs.memory, dtype);
  }
  return inputs;
}

Inputs preset_inputs(const RunOptions& options, const Preset& preset, Report& report) {
  const Index length = options.length.value_or(preset.default_length);
  require_memory(4.0 * static_cast<double>(length) * static_cast<double>(preset.config.model_dim), "the input");
  Inputs inputs{{"input", "generated", preset_input(preset, length, seed_of(options))}, {}, false};
  report.add("input", to_string(inputs.input.tensor.shape()) + ", seed " + std::to_string(seed_of(options)),
             {{"shape", json_of(inputs.input.tensor.shape())}, {"dtype", "f32"}});
  add_batch_axis(inputs.input, 3, "length, width");
  if (options.compute.dtype) convert_array(inputs.input, *options.compute.dtype);
  return inputs;
}

void require_memory_for(const LayerConfig& config, const Dims& scores, const ComputeOptions& options) {
  const LayerDescription description = describe(config, scores[2], scores[3]);
  double bytes = 0;
  for (const LayerStep& step : description.steps) bytes += step.stored ? step.bytes : 0;
  if (options.probabilities) bytes += description.bytes_not_stored;
  const double in_f64_too = options.reference || options.compare ? 3 : 1;
  require_memory(bytes * in_f64_too * static_cast<double>(scores[0]), "this run");
}

Problem problem_of(const MultiHeadAttention& layer, const Inputs& inputs, const ComputeOptions& options) {
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
void show(const MultiHeadAttention& layer, const Inputs& inputs, const ComputeOptions& options, Report report) {
  run_fused(problem_of(layer, inputs, options), report);
  const Index length = inputs.input.tensor.shape()[1], compared = comparable_length(layer.config(), length);
  const Inputs first{{"input", "", Tensor::copy_of(inputs.input.tensor.view().slice(1, 0, compared))}, {}, false};
  const Problem part = problem_of(layer, first, options);
  add_error(part.fused(), part.reference(), report);
  if (compared < length) report.add("compared", "the first " + grouped(compared) + " positions alone", compared);
  if (is_readable(layer.config(), length)) add_matrices(layer, inputs.input.tensor, report);
  report.print(options.json);
}

void run(const RunOptions& options) {
  require_sense(options);
  OutputFiles files = options.compute.files();
  if (options.input) files.add_input("input", *options.input);
  if (options.memory) files.add_input("memory", *options.memory);
  if (options.checkpoint) files.add_input("checkpoint", *options.checkpoint);
  files.check();
  options.compute.machine.apply();

  Report report;
  report.set("command", "run");
  const auto preset = options.checkpoint ? std::nullopt : std::optional(find_preset(options.preset));
  const MultiHeadAttention layer = preset ? load_preset(options, *preset, report) : load_from_checkpoint(options, report);
  report.say("heads", heads_text(layer.config()));
  const Inputs inputs = options.input ? read_inputs(options, report) : preset_inputs(options, *preset, report);
  const Problem problem = problem_of(layer, inputs, options.compute);
  require_memory_for(layer.config(), problem.score_shape, options.compute);
  if (options.writes_or_compares() || options.input) {
    compute(problem, options.compute, files, report);
  } else {
    show(layer, inputs, options.compute, report);
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "A multi-head attention layer, from a checkpoint or a preset");
  auto options = std::make_shared<RunOptions>();
  const std::string layer = "Layer", inputs = "Input";
  auto* checkpoint = add_path(*command, "--checkpoint", options->checkpoint,
                              "folder with config.json and *.safetensors, or one .safetensors file");
  checkpoint->group(layer);
  add_integer(*command, "--layer", options->layer,
              "which attention layer of the checkpoint, as `multihead inspect` counts them")
      ->needs(checkpoint)
      ->group(layer);
  auto* preset = command->add_option("--preset", options->preset, "a named layer with weights from --seed: " + preset_names());
  preset->type_name("NAME")->excludes(checkpoint)->group(layer);
  add_integer(*command, "--seed", options->seed, "of the preset's weights and input; default 0")->needs(preset)->group(layer);
  auto* input = add_path(*command, "--input", options->input, "X (.npy), [length, model_dim] or [batch, length, model_dim]");
  input->group(inputs);
  add_path(*command, "--memory", options->memory, "X' (.npy) for cross attention: keys and values come from it")
      ->needs(input)
      ->group(inputs);
  add_integer(*command, "--length", options->length, "length of the preset's own input")
      ->needs(preset)
      ->excludes(input)
      ->group(inputs);
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
