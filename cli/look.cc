// multihead look: a text through a whole model, every head in one line, the most interesting one as a map.
#include <errno.h>  // program_invocation_name

#include <algorithm>
#include <memory>
#include <system_error>

#include "bundled_model.h"
#include "command.h"
#include "look_heads.h"
#include "look_text.h"
#include "machine_options.h"
#include "map_drawing.h"
#include "multihead/checkpoint.h"
#include "multihead/decoder.h"
#include "options.h"
#include "outputs.h"
#include "picture/ticks.h"
#include "terminal_style.h"
#include "text_ids.h"
#include "tokens/labels.h"
#include "tokens/open.h"

namespace multihead::cli {
namespace {

namespace fs = std::filesystem;

// In the manner of what the bundled model has read, short enough for a coefficient a character, and it says things twice, so
// that a head that looks for repetitions finds some.
constexpr const char* kDefaultText = "Emma smiled at Mr. Knightley, and Mr. Knightley smiled at Emma";

struct LookOptions {
  std::optional<std::string> text;
  std::optional<fs::path> checkpoint, output;
  std::optional<Index> layer, head;
  MachineOptions machine;
  bool every_layer = false, json = false;

  std::string text_or_default() const { return text.value_or(kDefaultText); }
  fs::path folder() const { return output.value_or("look"); }
};

Index parameters_of(const DecoderWeights& weights) {
  Index sum = 0;
  for_each_weight(weights, [&sum](const std::string&, const Tensor& tensor) { sum += tensor.size(); });
  return sum;
}

// A model with a tokenizer.
struct Model {
  fs::path folder;
  Index parameters;
  Decoder decoder;
  std::unique_ptr<Tokenizer> tokenizer;

  static Model open(const fs::path& folder) {
    DecoderFiles files = read_decoder(folder);
    const Index parameters = parameters_of(files.weights);
    auto tokenizer = tokens::open_tokenizer(folder, files.config.vocab_size);
    return {folder, parameters, Decoder(std::move(files.config), std::move(files.weights)), std::move(tokenizer)};
  }
  std::string name() const {
    const fs::path path = fs::absolute(folder).lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  const DecoderConfig& config() const { return decoder.config(); }
};

// What came of a text.
struct Seen {
  std::vector<Index> ids;
  std::vector<std::shared_ptr<const Capture>> captures;  // one a layer
  std::optional<Expectation> expectation;
  std::string guess;
};

std::vector<Index> read_text(const Model& model, const std::string& text) {
  std::vector<Index> ids = ids_of_text(model.config(), model.tokenizer.get(), text, model.folder, "a text", "");
  if (ids.empty()) throw InvalidArgument("TEXT: expected at least one character; got none");
  const Index most = model.config().max_positions, length = static_cast<Index>(ids.size());
  if (most > 0 && length > most) {
    throw InvalidArgument("TEXT: expected at most " + grouped(most) + " tokens, which is what the model reads at once; got " +
                          grouped(length));
  }
  return ids;
}

Seen run_model(const Model& model, const std::string& text) {
  constexpr Index kGuess = 40;
  Seen seen;
  seen.ids = read_text(model, text);
  std::vector<Capture> captures;
  const ConstTensorView ids(seen.ids.data(), {1, static_cast<Index>(seen.ids.size())});
  const Tensor logits = model.decoder.forward(ids, &captures);
  const std::vector<std::string> labels = tokens::labels_of(*model.tokenizer, seen.ids);
  const Checkpoint checkpoint = Checkpoint::open(model.folder);
  for (std::size_t layer = 0; layer < captures.size(); ++layer) {
    CaptureLabels& about = captures[layer].labels;
    about.model = model.name();
    about.positions = checkpoint.layers().at(layer).positions;
    about.query_tokens = about.key_tokens = labels;
    seen.captures.push_back(std::make_shared<const Capture>(std::move(captures[layer])));
  }
  seen.expectation = expectation_of(logits, seen.ids, *model.tokenizer);
  seen.guess = guess_of(model.decoder, seen.ids, *model.tokenizer, kGuess);
  return seen;
}

void check_choice(const LookOptions& options, const DecoderConfig& config) {
  const auto within = [](const std::string& name, const std::optional<Index>& value, Index count) {
    if (value && *value >= count) {
      throw InvalidArgument(name + ": expected 0 to " + std::to_string(count - 1) + "; got " + std::to_string(*value));
    }
  };
  within("--layer", options.layer, static_cast<Index>(config.layers.size()));
  if (options.layer) within("--head", options.head, config.layers[static_cast<std::size_t>(*options.layer)].num_heads);
}

// The head that is drawn: the one that was asked for, or the most interesting one, of a layer if there is one given.
const ExaminedHead& choose(const std::vector<ExaminedHead>& heads, const LookOptions& options) {
  if (!options.layer) return most_interesting(heads);
  const auto is_asked = [&](const ExaminedHead& head) {
    return head.layer == *options.layer && (!options.head || head.statistics.head == *options.head);
  };
  const ExaminedHead* best = nullptr;
  for (const ExaminedHead& head : heads) {
    if (is_asked(head) && (best == nullptr || head.look.interest > best->look.interest)) best = &head;
  }
  return *best;
}

// A label a position while that takes no more than a large screen; else as `multihead map` draws.
MapOptions map_options(const ExaminedHead& shown, const Capture& capture) {
  constexpr Index kUsualLabels = 39, kLargest = 1536, kCell = 17, kText = 14;
  MapOptions options;
  options.head = shown.statistics.head;
  options.scale = picture::ScaleKind::kLinear;
  options.size = 768;
  const Index length = capture.query_len();
  if (length > kUsualLabels && length * kCell <= kLargest) {
    options.size = std::max(length * kCell, *options.size);
    options.text_size = kText;
  }
  return options;
}

// What was written.
struct Written {
  std::vector<fs::path> captures;
  fs::path picture;
};

Written write_files(const LookOptions& options, const Seen& seen, const ExaminedHead& shown) {
  const fs::path folder = options.folder();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError("--output " + folder.string() + ": cannot be made: " + error.message());
  Written written;
  std::vector<std::shared_ptr<const Capture>> captures;
  OutputFiles files;
  for (Index layer = 0; layer < static_cast<Index>(seen.captures.size()); ++layer) {
    if (!options.every_layer && layer != shown.layer) continue;
    written.captures.push_back(folder / ("layer" + std::to_string(layer) + ".safetensors"));
    captures.push_back(seen.captures[static_cast<std::size_t>(layer)]);
    files.add("capture", written.captures.back());
  }
  written.picture = folder / ("layer" + std::to_string(shown.layer) + "-head" + std::to_string(shown.statistics.head) + ".png");
  files.add("picture", written.picture);
  files.check();
  for (std::size_t n = 0; n < captures.size(); ++n) save_capture(written.captures[n], *captures[n]);
  const AttentionMap map(seen.captures[static_cast<std::size_t>(shown.layer)]);
  const MapOptions drawn = map_options(shown, map.capture());
  write_drawing(draw(map, drawn, *drawn.size), written.picture);
  return written;
}

// A word as a shell reads it.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%=";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The program under the name that it was called by, which works where this was typed.
std::string lab_command(const Written& written) {
  std::string command = quoted(program_invocation_name) + " lab";
  for (const fs::path& path : written.captures) command += " " + quoted(path.string());
  return command;
}

// In quotes, in what is left of the terminal's width beside the facts' names.
std::string in_quotes(const std::string& text) {
  constexpr Index kNames = 10, kLeast = 20;
  const Index columns = style_of_standard_output().columns;
  return picture::shortened("\"" + text + "\"", static_cast<std::size_t>(std::max(columns - kNames, kLeast)));
}

std::string length_text(const Seen& seen, const std::string& text) {
  const auto tokens = static_cast<Index>(seen.ids.size()), bytes = static_cast<Index>(text.size());
  return tokens == bytes ? grouped(bytes) + " bytes" : grouped(tokens) + " tokens, " + grouped(bytes) + " bytes";
}

void add_model(const Model& model, Report& report) {
  const DecoderConfig& config = model.config();
  const auto layers = static_cast<Index>(config.layers.size());
  const Index heads = config.layers.front().num_heads;
  report.add("model",
             model.name() + ": " + grouped(model.parameters) + " parameters, " + grouped(layers) + " layers of " +
                 grouped(heads) + " heads",
             {{"path", model.folder.string()},
              {"name", model.name()},
              {"parameters", model.parameters},
              {"layers", layers},
              {"model_dim", config.model_dim},
              {"vocab_size", config.vocab_size},
              {"max_positions", config.max_positions}});
}

void add_text(const Seen& seen, const std::string& text, Report& report) {
  report.add("text", in_quotes(text), text);
  report.set("ids", seen.ids);
  std::string expected;
  if (seen.expectation) {
    expected = "; " + formatted("%.2f", seen.expectation->bits_per_byte) +
               " bits a byte under the model (knowing nothing: " + formatted("%.3g", seen.expectation->uniform) + ")";
    report.set("bits_per_byte", seen.expectation->bits_per_byte);
  }
  report.say("length", length_text(seen, text) + expected);
  if (!seen.guess.empty()) report.add("goes_on", in_quotes(seen.guess), seen.guess);
}

Json json_of_paths(const std::vector<fs::path>& paths) {
  Json list = Json::array();
  for (const fs::path& path : paths) list.push_back(path.string());
  return list;
}

std::vector<Index> all_layers(const DecoderConfig& config) {
  std::vector<Index> layers;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) layers.push_back(static_cast<Index>(layer));
  return layers;
}

void look(const LookOptions& options) {
  options.machine.apply();
  const Model model = Model::open(options.checkpoint ? *options.checkpoint : bundled_model());
  check_choice(options, model.config());
  const std::string text = options.text_or_default();
  const Seen seen = run_model(model, text);
  const std::vector<ExaminedHead> heads = examine(seen.captures, {all_layers(model.config()), options.json});
  const ExaminedHead& shown = choose(heads, options);
  const Written written = write_files(options, seen, shown);

  Report report;
  report.set("command", "look");
  add_model(model, report);
  add_text(seen, text, report);
  Json list = Json::array();
  for (const ExaminedHead& head : heads) list.push_back(json_of(head));
  report.set("heads", list);
  report.set("shown", {{"layer", shown.layer}, {"head", shown.statistics.head}});
  report.set("captures", json_of_paths(written.captures));
  report.set("picture", written.picture.string());
  report.set("lab", lab_command(written));
  if (!options.json) {
    const AttentionMap map(seen.captures[static_cast<std::size_t>(shown.layer)]);
    report.append("\n" + table_of(heads, shown) + "\n" + terminal_text(map, map_options(shown, map.capture())));
    std::string files;
    for (const fs::path& path : written.captures) files += path.string() + "\n         ";
    report.append("\nwritten  " + files + written.picture.string() + "\nzoom in  " + lab_command(written) + "\n");
  }
  report.print(options.json);
}

}  // namespace

void add_look(CLI::App& app) {
  auto* command = app.add_subcommand("look", "Run a model on a text and see what every one of its heads looks at");
  auto options = std::make_shared<LookOptions>();
  command->add_option("TEXT", options->text, "what the model reads; default: a sentence in the manner of Jane Austen");
  add_path(*command, "--checkpoint", options->checkpoint,
           "folder with config.json and *.safetensors (the model that comes with the program)");
  auto* layer = add_integer(*command, "--layer", options->layer, "draw a head of this layer, from 0 (of the whole model)");
  add_integer(*command, "--head", options->head, "draw this head of --layer, from 0 (the most interesting one)")->needs(layer);
  add_path(*command, "--output", options->output, "folder for what is written, made when it is not there (look)");
  command->add_flag("--every-layer", options->every_layer, "write a capture of every layer, not of the drawn one alone");
  command->add_flag("--json", options->json, "print one JSON object instead of text, with all statistics");
  add_machine_options(*command, options->machine, "Machine");
  command->footer(
      "What a head looks like is a rule of thumb on this one text (include/multihead/head_kind.h); numbers tell where a head\n"
      "reads, not why a model decides. Models: as `multihead generate` takes them, with a tokenizer.\n"
      "Examples:\n  multihead look\n  multihead look 'It is a truth universally acknowledged' --layer 2\n"
      "  multihead look 'Once upon a time' --checkpoint stories/ --output stories.look");
  command->callback([options] { look(*options); });
}

}  // namespace multihead::cli
