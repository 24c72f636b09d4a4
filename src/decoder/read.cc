// A decoder from a folder. The attention layers come from the checkpoint reader, the rest from here; no tensor may be left
// over, because ignoring one would compute something else than the model that it came from.
#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/files.h"
#include "decoder/files.h"
#include "decoder/weights.h"
#include "io/text.h"
#include "multihead/decoder.h"

namespace multihead {
namespace {

namespace fs = std::filesystem;
using checkpoint::tensors_of;

// Tensors of one file, each of which has to be asked for.
class Reader {
 public:
  explicit Reader(const fs::path& path) : file_(path.string()), tensors_(Safetensors::open(path)) {}

  Tensor optional(const std::string& name) {
    if (tensors_.find(name) == nullptr) return {};
    used_.insert(name);
    return tensors_.read(name);
  }
  Tensor required(const std::string& name, const Dims& shape) {
    Tensor tensor = optional(name);
    if (tensor.empty()) refuse(file_, "expected the tensor ", quote(name), " ", shape, "; it is not there");
    if (tensor.shape() != shape) refuse(file_, quote(name), ": expected ", shape, "; found ", tensor.shape());
    return tensor;
  }
  LinearWeights linear(const std::string& name, const Dims& shape) {
    LinearWeights weights;
    weights.weight = required(name + ".weight", shape);
    weights.bias = optional(name + ".bias");
    return weights;
  }
  /// All under this path have been read.
  void use_under(const std::string& path) {
    for (const SafetensorsEntry& entry : tensors_.entries()) {
      if (entry.name.starts_with(path + ".")) used_.insert(entry.name);
    }
  }
  void ignore(const std::string& name) { used_.insert(name); }
  void require_all_used() const {
    for (const SafetensorsEntry& entry : tensors_.entries()) {
      if (!used_.contains(entry.name))
        refuse(file_, "expected only the tensors of a Llama decoder; found ", quote(entry.name), " ", entry.shape, " too");
    }
  }
  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  Safetensors tensors_;
  std::set<std::string> used_;
};

// "model." of "model.layers.0.self_attn"; texts that differ in more than the number are no blocks of one decoder.
std::string prefix_of(const std::vector<FoundLayer>& layers, const std::string& file) {
  const std::string& name = layers.front().name;
  const std::string prefix = name.substr(0, name.find("layers."));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string expected = concat(prefix, "layers.", i, ".self_attn");
    if (layers[i].name != expected)
      refuse(file, "expected attention layer ", i, " to be ", quote(expected), "; found ", quote(layers[i].name));
  }
  return prefix;
}

std::string without_suffix(std::string text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.resize(text.size() - suffix.size());
  return text;
}

DecoderBlockWeights read_block(Reader& reader, const std::string& path, const DecoderConfig& config) {
  DecoderBlockWeights block;
  block.attention_norm = reader.required(path + "input_layernorm.weight", {config.model_dim});
  block.feed_forward_norm = reader.required(path + "post_attention_layernorm.weight", {config.model_dim});
  block.gate = reader.linear(path + "mlp.gate_proj", {config.hidden_dim, config.model_dim});
  block.up = reader.linear(path + "mlp.up_proj", {config.hidden_dim, config.model_dim});
  block.down = reader.linear(path + "mlp.down_proj", {config.model_dim, config.hidden_dim});
  reader.use_under(path + "self_attn");
  return block;
}

DecoderFiles read(const fs::path& folder) {
  const fs::path file = tensors_of(folder);
  const Checkpoint layers = Checkpoint::open(folder);
  const auto stored = checkpoint::Config::read(file.parent_path());
  DecoderFiles files;
  DecoderConfig& config = files.config = decoder::config_from(stored);
  const Index num_layers = stored.count({"num_hidden_layers"}).value_or(static_cast<Index>(layers.layers().size()));
  if (static_cast<Index>(layers.layers().size()) != num_layers)
    refuse(file.string(), "expected the ", num_layers, " layers that config.json tells of; found ", layers.layers().size());

  Reader reader(file);
  const std::string prefix = prefix_of(layers.layers(), reader.file());
  for (std::size_t i = 0; i < layers.layers().size(); ++i) {
    config.layers.push_back(layers.layers()[i].config);
    files.weights.blocks.push_back(read_block(reader, concat(prefix, "layers.", i, "."), config));
    files.weights.blocks.back().attention = layers.load_weights(i);
  }
  files.weights.embedding = reader.required(prefix + "embed_tokens.weight", {config.vocab_size, config.model_dim});
  files.weights.final_norm = reader.required(prefix + "norm.weight", {config.model_dim});
  // Some files hold the tied matrix twice.
  const std::string output = without_suffix(prefix, "model.") + "lm_head.weight";
  if (config.tied_output) {
    reader.ignore(output);
  } else {
    files.weights.output = reader.required(output, {config.vocab_size, config.model_dim});
  }
  reader.require_all_used();
  return files;
}

}  // namespace

DecoderFiles read_decoder(const fs::path& folder) {
  DecoderFiles files = read(folder);
  try {
    files.config = decoder::checked_config(std::move(files.config));
    decoder::check_weights(files.config, files.weights);
  } catch (const InvalidArgument& error) {
    refuse(folder.string(), error.what());  // what a file says is the file's fault
  }
  return files;
}

Decoder Decoder::open(const fs::path& folder) {
  DecoderFiles files = read_decoder(folder);
  return {std::move(files.config), std::move(files.weights)};
}

}  // namespace multihead
