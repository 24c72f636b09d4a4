// multihead generate: a checkpoint continues a text.
#include <algorithm>
#include <memory>
#include <utility>

#include "arrays.h"
#include "command.h"
#include "machine_options.h"
#include "multihead/decoder.h"
#include "multihead/io.h"
#include "options.h"
#include "outputs.h"
#include "progress_line.h"
#include "report.h"
#include "text_ids.h"
#include "tokens/open.h"

namespace multihead::cli {
namespace {

struct CommandOptions {
  std::optional<std::filesystem::path> checkpoint, ids, logits;
  std::optional<std::string> prompt;
  std::optional<Index> tokens, seed;
  std::optional<float> temperature, top_p;
  MachineOptions machine;
  bool json = false;

  GenerateOptions generation(const DecoderConfig& config, Index prompt_length) const {
    constexpr Index kTokens = 128;
    GenerateOptions result;
    // By default what fits, when that is less.
    result.tokens = tokens.value_or(
        config.max_positions == 0 ? kTokens : std::clamp<Index>(config.max_positions - prompt_length, 0, kTokens));
    result.sampling.temperature = static_cast<double>(temperature.value_or(0));
    result.sampling.top_p = static_cast<double>(top_p.value_or(1));
    result.sampling.seed = static_cast<std::uint64_t>(seed.value_or(0));
    return result;
  }
};

std::vector<Index> read_ids(const std::filesystem::path& path) {
  Array array = read_array("ids", path);
  if (array.tensor.rank() != 1)
    throw InvalidArgument(array.label() + ": expected token ids, [length]; got " + to_string(array.tensor.shape()));
  return list_of_integers(array);
}

std::vector<Index> prompt_of(const CommandOptions& options, const DecoderConfig& config, const Tokenizer* tokenizer) {
  if (options.ids) return read_ids(*options.ids);
  const std::string text = options.prompt.value_or("");
  if (!text.empty()) return ids_of_text(config, tokenizer, text, *options.checkpoint, "--prompt", "; --ids takes token ids");
  if (config.begin_id) return {*config.begin_id};
  throw InvalidArgument(options.checkpoint->string() + ": config.json has no bos_token_id to begin with; give a --prompt");
}

// Text as it comes: the prompt at once, then token by token.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const std::vector<Index>& prompt)
      : tokenizer_(tokenizer), prompt_(prompt), drop_space_(tokenizer.adds_space()) {}
  /// The prompt, unless it is there already. Not before the first token is: until then anything can be refused.
  void begin() {
    for (const Index id : std::exchange(prompt_, {})) write_piece(id);
  }
  void write(Index id) {
    begin();
    write_piece(id);
  }

 private:
  void write_piece(Index id) {
    std::string text = tokenizer_.piece(id);
    if (!text.empty() && drop_space_) {
      if (text.front() == ' ') text.erase(0, 1);
      drop_space_ = false;
    }
    print(text);
  }

  const Tokenizer& tokenizer_;
  std::vector<Index> prompt_;
  bool drop_space_;
};

void run(const CommandOptions& options) {
  OutputFiles files;
  if (options.logits) files.add("logits", *options.logits);
  if (options.ids) files.add_input("ids", *options.ids);
  files.check();
  options.machine.apply();
  const Decoder decoder = Decoder::open(*options.checkpoint);
  const auto tokenizer = tokens::open_tokenizer(*options.checkpoint, decoder.config().vocab_size);
  const std::vector<Index> prompt = prompt_of(options, decoder.config(), tokenizer.get());
  GenerateOptions generation = options.generation(decoder.config(), static_cast<Index>(prompt.size()));

  const bool streams = !options.json && tokenizer != nullptr;
  ProgressLine line("generating");
  const Progress report_progress = streams ? Progress() : line.callback();
  std::optional<TextStream> stream;
  if (streams) stream.emplace(*tokenizer, prompt);
  Index done = 0;
  generation.on_token = [&](Index id) {
    if (stream) stream->write(id);
    if (report_progress) report_progress(static_cast<double>(++done) / static_cast<double>(generation.tokens));
    return true;
  };
  const Generated result = generate(decoder, prompt, generation);
  if (stream) {
    stream->begin();
    print(std::string("\n"));
  }
  if (options.logits) files.write("logits", result.next_logits);
  if (streams) return;

  Report report;
  std::string numbers;
  for (const Index id : result.ids) numbers += (numbers.empty() ? "" : " ") + std::to_string(id);
  report.set("command", "generate");
  report.add("ids", numbers, result.ids);
  if (tokenizer) report.set("text", tokenizer->decode(result.ids));
  report.print(options.json);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "A checkpoint of the Llama architecture continues a text");
  auto options = std::make_shared<CommandOptions>();
  add_path(*command, "--checkpoint", options->checkpoint, "folder with config.json and *.safetensors")->required();
  auto* prompt = command->add_option("--prompt", options->prompt, "text to continue; without it, a text from its beginning")
                     ->type_name("TEXT");
  add_path(*command, "--ids", options->ids, "token ids to continue, [length], .npy; they are taken as they are")
      ->excludes(prompt);
  add_integer(*command, "--tokens", options->tokens, "tokens to add at most (128, or as many as the model's positions leave)");
  const std::string drawing = "Drawing";
  add_real(*command, "--temperature", options->temperature, "0, the default, takes the likeliest token; 1 draws by probability")
      ->group(drawing);
  add_real(*command, "--top-p", options->top_p, "draw from the fewest tokens that together have this probability (1)")
      ->group(drawing);
  add_integer(*command, "--seed", options->seed, "of the drawing (0); the same seed gives the same text")->group(drawing);
  add_path(*command, "--logits", options->logits, "write the logits after the last token, [vocabulary], .npy");
  command->add_flag("--json", options->json, "one JSON object: ids, text");
  add_machine_options(*command, options->machine, "Machine");
  command->footer(
      "Architectures: llama, mistral, qwen2, qwen3. Text needs pieces.json or tokenizer.model in the folder, or a vocabulary "
      "of\n"
      "the 256 bytes; without them ids are printed.\n"
      "Examples:\n  multihead generate --checkpoint stories/ --prompt 'Once upon a time'\n"
      "  multihead generate --checkpoint stories/ --temperature 0.8 --top-p 0.95 --seed 7 --tokens 200");
  command->callback([options] { run(*options); });
}

}  // namespace multihead::cli
