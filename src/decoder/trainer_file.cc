#include "decoder/trainer_file.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "decoder/weights.h"
#include "io/text.h"
#include "multihead/io.h"

namespace multihead::decoder {
namespace {

constexpr const char* kFormat = "multihead training 1";

// Parts of the file are told apart by what stands before the weight's name.
constexpr const char* kParts[] = {"weight.", "mean.", "square."};

// FNV-1a: which text it was, not that nobody tampered with it.
std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return concat(text.size(), " bytes, ", std::hex, hash);
}

// The first name whose value differs, for people.
std::string difference(const std::string& stored, const std::string& wanted) {
  const auto before = nlohmann::json::parse(stored, nullptr, false), now = nlohmann::json::parse(wanted, nullptr, false);
  if (!before.is_object()) return "no configuration that can be read";
  for (const auto& [name, value] : now.items()) {
    if (!before.contains(name)) return concat("no ", name);
    if (before[name] != value) return concat(name, " ", before[name].dump(), " where now it is ", value.dump());
  }
  return "names that are not known here";
}

const std::string& metadata_of(const Safetensors& tensors, const std::string& file, const char* key) {
  const auto found = tensors.metadata().find(key);
  if (found == tensors.metadata().end()) refuse(file, "expected a training's ", key, " in its metadata; it is not there");
  return found->second;
}

Index step_of(const std::string& file, const std::string& text, Index steps) {
  Index step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0 || step > steps)
    refuse(file, "step: expected a number from 0 to ", steps, "; got ", quote(text));
  return step;
}

// Fills `weights`, whose shapes are right, from the tensors of one part.
void read_part(const Safetensors& tensors, const std::string& file, const std::string& part, DecoderWeights& weights) {
  for_each_weight(weights, [&](const std::string& name, Tensor& tensor) {
    const SafetensorsEntry* entry = tensors.find(part + name);
    if (entry == nullptr) refuse(file, "expected the tensor ", quote(part + name), "; it is not there");
    if (entry->dtype != DType::kF32 || entry->shape != tensor.shape())
      refuse(file, quote(part + name), ": expected ", tensor.shape(), " F32; found ", entry->shape, " ", entry->dtype_name);
    tensor = tensors.read(part + name);
  });
}

}  // namespace

void check_training(const TrainingConfig& config) {
  const auto positive = [](const char* name, Index value) {
    require(value > 0, "training: ", name, ": expected a positive number; got ", value);
  };
  positive("num_layers", config.num_layers);
  positive("num_heads", config.num_heads);
  positive("model_dim", config.model_dim);
  positive("context", config.context);
  positive("batch", config.batch);
  require(config.held_out >= 0 && config.held_out < 1, "training: held_out: expected a number from 0, below 1; got ",
          config.held_out);
  check_optimizer(config.optimizer);
  checked_config(config.decoder());
}

TrainerFile read_trainer(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text) {
  const std::filesystem::path path = folder / kTrainerFile;
  const std::string file = path.string();
  const Safetensors tensors = Safetensors::open(path);
  if (const std::string& format = metadata_of(tensors, file, "format"); format != kFormat)
    refuse(file, "expected the format ", quote(kFormat), "; got ", quote(format));
  if (const std::string& stored = metadata_of(tensors, file, "config"); stored != config.text())
    refuse(file, "expected the training of this configuration; found ", difference(stored, config.text()));
  if (const std::string& stored = metadata_of(tensors, file, "text"); stored != fingerprint(text))
    refuse(file, "expected the training of this text (", fingerprint(text), "); found that of another (", quote(stored), ")");
  // Weights only lend their shapes here.
  TrainerFile result{initial_weights(config.decoder(), config.seed), {}};
  result.state = start_optimizer(result.weights);
  result.state.step = step_of(file, metadata_of(tensors, file, "step"), config.optimizer.steps);
  DecoderWeights* parts[] = {&result.weights, &result.state.mean, &result.state.square};
  for (std::size_t i = 0; i < std::size(parts); ++i) read_part(tensors, file, kParts[i], *parts[i]);
  return result;
}

void write_trainer(const std::filesystem::path& folder, const TrainingConfig& config, std::string_view text,
                   const DecoderWeights& weights, const OptimizerState& state) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError(concat(folder.string(), ": ", error.message()));
  std::vector<std::pair<std::string, ConstTensorView>> views;
  const DecoderWeights* parts[] = {&weights, &state.mean, &state.square};
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    for_each_weight(*parts[i],
                    [&](const std::string& name, const Tensor& tensor) { views.emplace_back(kParts[i] + name, tensor); });
  }
  write_safetensors(
      folder / kTrainerFile, views,
      {{"format", kFormat}, {"config", config.text()}, {"text", fingerprint(text)}, {"step", std::to_string(state.step)}});
}

}  // namespace multihead::decoder
