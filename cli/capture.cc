// multihead capture: runs a layer and keeps what it takes to look at its coefficients.
#include "multihead/capture.h"

#include <fstream>
#include <memory>
#include <sstream>

#include "command.h"
#include "layer_source.h"
#include "machine_options.h"
#include "options.h"

namespace multihead::cli {
namespace {

struct CaptureOptions {
  LayerSource source;
  std::optional<std::filesystem::path> tokens, output;
  MachineOptions machine;
  bool values = false, json = false;
};

std::vector<std::string> strings_of(const Json& list, const std::string& file, const std::string& name) {
  const bool strings = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& x) { return x.is_string(); });
  if (!strings) throw FormatError("--tokens " + file + ": expected " + name + " to be a list of strings");
  return list.get<std::vector<std::string>>();
}

// One list for self attention, or an object with "query" and "key".
void read_tokens(const std::filesystem::path& path, CaptureLabels& labels) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw IoError("--tokens " + path.string() + ": cannot be read, or is empty");
  const Json json = Json::parse(text.str(), nullptr, false);
  if (json.is_array()) {
    labels.query_tokens = labels.key_tokens = strings_of(json, path.string(), "it");
  } else if (json.is_object() && json.size() == 2 && json.contains("query") && json.contains("key")) {
    labels.query_tokens = strings_of(json["query"], path.string(), "\"query\"");
    labels.key_tokens = strings_of(json["key"], path.string(), "\"key\"");
  } else {
    throw FormatError("--tokens " + path.string() +
                      R"(: expected JSON: ["token", …] for self attention, or {"query": […], "key": […]})");
  }
}

std::string model_name(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
  return path.filename().string();
}

void run_capture(const CaptureOptions& options) {
  options.source.require_sense("capture");
  OutputFiles files;
  files.add("output", *options.output);
  options.source.add_inputs(files);
  if (options.tokens) files.add_input("tokens", *options.tokens);
  files.check();
  options.machine.apply();

  Report report;
  report.set("command", "capture");
  std::optional<FoundLayer> found;
  const MultiHeadAttention layer = options.source.load(report, &found);
  report.say("heads", heads_text(layer.config()));
  const LayerInputs inputs = options.source.read(std::nullopt, report);
  Capture capture;
  if (found) {
    capture.labels = {found->name, model_name(*options.source.checkpoint), *options.source.layer, found->positions, {}, {}};
  } else {
    capture.labels.name = capture.labels.model = options.source.preset;
  }
  if (options.tokens) read_tokens(*options.tokens, capture.labels);
  ForwardObservation seen;
  seen.capture = &capture;
  seen.capture_values = options.values;
  if (inputs.memory) {
    layer.forward(inputs.input.tensor, inputs.memory->tensor, {}, seen);
  } else {
    layer.forward(inputs.input.tensor, {}, seen);
  }
  save_capture(*options.output, capture);
  const std::string shape = std::to_string(capture.num_heads()) + " maps of " + grouped(capture.query_len()) + " x " +
                            grouped(capture.key_len()) + ", " + bytes_text(static_cast<double>(capture.bytes()));
  report.add("output", options.output->string() + ": " + shape,
             {{"path", options.output->string()},
              {"batch", capture.batch()},
              {"num_heads", capture.num_heads()},
              {"num_kv_heads", capture.num_kv_heads()},
              {"query_len", capture.query_len()},
              {"key_len", capture.key_len()},
              {"bytes", capture.bytes()}});
  report.print(options.json);
}

}  // namespace

void add_capture(CLI::App& app) {
  auto* command = app.add_subcommand("capture", "Run a layer and keep what it takes to look at every coefficient later");
  auto options = std::make_shared<CaptureOptions>();
  add_layer_source(*command, options->source);
  add_path(*command, "--tokens", options->tokens,
           "JSON list of strings, one a position; for cross attention {\"query\": […], \"key\": […]}")
      ->group("Input");
  add_path(*command, "--output", options->output, "the capture (.safetensors)")->required()->group("Results");
  command->add_flag("--values", options->values, "keep values and head outputs too, for value-weighted statistics")
      ->group("Results");
  command->add_flag("--json", options->json, "print one JSON object instead of text")->group("Results");
  add_machine_options(*command, options->machine, "Machine");
  command->footer(
      "A capture holds query, key and log-sum-exp, not the coefficients: its size grows with the length, not with its square.\n"
      "Example:\n  multihead capture --checkpoint llama/ --layer 0 --input x.npy --output c.safetensors");
  command->callback([options] { run_capture(*options); });
}

}  // namespace multihead::cli
