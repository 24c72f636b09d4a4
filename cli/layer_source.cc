#include "layer_source.h"

#include "layers.h"
#include "options.h"

namespace multihead::cli {
namespace {

MultiHeadAttention load_from_checkpoint(const LayerSource& source, Report& report, std::optional<FoundLayer>* kept) {
  const std::filesystem::path& path = *source.checkpoint;
  const Checkpoint checkpoint = Checkpoint::open(path);
  const std::vector<FoundLayer>& layers = checkpoint.layers();
  const auto index = static_cast<std::size_t>(*source.layer);
  if (index >= layers.size()) {
    std::string names;
    for (std::size_t i = 0; i < layers.size(); ++i) names += (i > 0 ? ", " : "") + std::to_string(i) + " " + layers[i].name;
    throw InvalidArgument("--layer " + std::to_string(index) + ": " + path.string() + " has " + std::to_string(layers.size()) +
                          " attention layers: " + names);
  }
  const FoundLayer& found = layers[index];
  if (found.role == "cross" && !source.memory) {
    throw InvalidArgument("layer " + std::to_string(index) + " " + found.name +
                          " is cross attention: its keys and values come from --memory");
  }
  report.add("layer", std::to_string(index) + " " + found.name + " (" + found.family + ")", json_of(found, index));
  if (kept != nullptr) *kept = found;
  return checkpoint.load(index);
}

LayerInputs read_files(const LayerSource& source, const std::optional<DType>& wanted, Report& report) {
  LayerInputs inputs{read_array("input", *source.input), {}, false};
  add_fact(report, inputs.input);
  std::vector<const Array*> arrays{&inputs.input};
  if (source.memory) {
    inputs.memory = read_array("memory", *source.memory);
    add_fact(report, *inputs.memory);
    arrays.push_back(&*inputs.memory);
  }
  const DType dtype = common_dtype(arrays, wanted);
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

LayerInputs make_inputs(const LayerSource& source, const Preset& preset, const std::optional<DType>& dtype, Report& report) {
  const Index length = source.length.value_or(preset.default_length);
  const std::uint64_t seed = source.seed_or_default();
  require_memory(4.0 * static_cast<double>(length) * static_cast<double>(preset.config.model_dim), "the input");
  LayerInputs inputs{{"input", "generated", preset_input(preset, length, seed)}, {}, false};
  report.add("input", to_string(inputs.input.tensor.shape()) + ", seed " + std::to_string(seed),
             {{"shape", json_of(inputs.input.tensor.shape())}, {"dtype", "f32"}});
  add_batch_axis(inputs.input, 3, "length, width");
  if (dtype) convert_array(inputs.input, *dtype);
  return inputs;
}

}  // namespace

std::string heads_text(const LayerConfig& config) {
  return std::to_string(config.num_heads) + " over " + std::to_string(config.num_kv_heads) + " key/value heads of " +
         std::to_string(config.head_dim) + ", " + visibility_text(config);
}

void LayerSource::require_sense(const std::string& command) const {
  if (checkpoint.has_value() == !preset.empty()) {
    throw usage_error(command + ": expected --checkpoint PATH or --preset NAME");
  }
  if (!checkpoint) return;
  if (!layer) throw usage_error("--layer is required with --checkpoint; `multihead inspect` lists the layers");
  if (!input) throw usage_error("--input is required with --checkpoint");
}

void LayerSource::add_inputs(OutputFiles& files) const {
  if (input) files.add_input("input", *input);
  if (memory) files.add_input("memory", *memory);
  if (checkpoint) files.add_input("checkpoint", *checkpoint);
}

std::optional<Preset> LayerSource::find() const { return checkpoint ? std::nullopt : std::optional(find_preset(preset)); }

MultiHeadAttention LayerSource::load(Report& report, std::optional<FoundLayer>* found) const {
  const std::optional<Preset> named = find();
  if (!named) return load_from_checkpoint(*this, report, found);
  report.add("preset", named->name + ": " + named->summary,
             {{"name", named->name}, {"seed", seed_or_default()}, {"config", json_of(named->config.resolved())}});
  return {named->config, preset_weights(*named, seed_or_default())};
}

LayerInputs LayerSource::read(const std::optional<DType>& dtype, Report& report) const {
  return input ? read_files(*this, dtype, report) : make_inputs(*this, *find(), dtype, report);
}

void add_layer_source(CLI::App& app, LayerSource& source) {
  const std::string layer = "Layer", inputs = "Input";
  auto* checkpoint =
      add_path(app, "--checkpoint", source.checkpoint, "folder with config.json and *.safetensors, or one .safetensors file");
  checkpoint->group(layer);
  add_integer(app, "--layer", source.layer, "which attention layer of the checkpoint, as `multihead inspect` counts them")
      ->needs(checkpoint)
      ->group(layer);
  auto* preset = app.add_option("--preset", source.preset, "a named layer with weights from --seed: " + preset_names());
  preset->type_name("NAME")->excludes(checkpoint)->group(layer);
  add_integer(app, "--seed", source.seed, "of the preset's weights and input; default 0")->needs(preset)->group(layer);
  auto* input = add_path(app, "--input", source.input, "X (.npy), [length, model_dim] or [batch, length, model_dim]");
  input->group(inputs);
  add_path(app, "--memory", source.memory, "X' (.npy) for cross attention: keys and values come from it")
      ->needs(input)
      ->group(inputs);
  add_integer(app, "--length", source.length, "length of the preset's own input")
      ->needs(preset)
      ->excludes(input)
      ->group(inputs);
}

}  // namespace multihead::cli
