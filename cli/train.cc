// multihead train: learns a text, byte by byte.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <memory>
#include <numbers>
#include <sstream>

#include "command.h"
#include "live_line.h"
#include "machine_options.h"
#include "multihead/training.h"
#include "options.h"
#include "report.h"

namespace multihead::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct CommandOptions {
  std::optional<std::filesystem::path> text, config, output;
  std::optional<DType> dtype;
  std::optional<Index> tell_every, save_every, stop_at;
  MachineOptions machine;
  bool resume = false, json = false;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  if (!file || !bytes) throw IoError(path.string() + ": cannot be read");
  return std::move(bytes).str();
}

// A request to stop, by a person (Ctrl-C) or the system: the step is finished and saved first. The second one ends at once.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction action {};
    action.sa_handler = [](int) { requested_ = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  }
  static bool requested() { return requested_ != 0; }

 private:
  static inline volatile std::sig_atomic_t requested_ = 0;
};

double bits(const Loss& loss) { return loss.mean / std::numbers::ln2; }

// How it goes: a line that is rewritten while somebody watches, and a row of a table now and then.
class Course {
 public:
  Course(const Trainer& trainer, bool json) : trainer_(trainer), json_(json), first_(trainer.step()) {}

  void add(const Trainer::Step& step) {
    loss_ += step.loss.mean;
    ++steps_;
    line_.show("step " + grouped(trainer_.step()) + " of " + grouped(trainer_.config().optimizer.steps) + ", loss " +
               formatted("%.3f", step.loss.mean) + ", " + formatted("%.3f", bits(step.loss)) + " bits per byte, " + pace());
  }
  // The mean of the steps since the last row, and the loss on a part of what is held out.
  void tell(bool everything) {
    constexpr Index kSequences = 64;
    held_out_ = trainer_.held_out_loss(everything ? 0 : kSequences);
    rows_.push_back({{"step", trainer_.step()}});
    std::string row = "step " + grouped(trainer_.step());
    if (steps_ > 0) {
      const Loss mean{loss_ / static_cast<double>(steps_), 0, 0};
      rows_.back()["loss"] = mean.mean;
      rows_.back()["bits_per_byte"] = bits(mean);
      row += "  loss " + formatted("%.4f", mean.mean) + "  bits per byte " + formatted("%.4f", bits(mean));
    }
    if (held_out_.count > 0) {
      rows_.back()["held_out_bits_per_byte"] = bits(held_out_);
      row += "  held out " + formatted("%.4f", bits(held_out_));
    }
    line_.clear();
    if (!json_) print(row + "  " + pace() + "\n");
    loss_ = 0;
    steps_ = 0;
  }
  const Json& rows() const { return rows_; }
  const Loss& held_out() const { return held_out_; }

 private:
  std::string pace() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const auto done = static_cast<double>(trainer_.step() - first_);
    const auto left = static_cast<double>(trainer_.config().optimizer.steps - trainer_.step());
    const auto tokens = static_cast<double>(trainer_.config().batch * trainer_.config().context);
    if (done == 0) return "nothing done yet";
    return with_prefix(done * tokens / seconds) + " bytes/s, " + duration_text(seconds / done * left) + " left";
  }

  const Trainer& trainer_;
  bool json_;
  Index first_;
  Clock::time_point start_ = Clock::now();
  double loss_ = 0;
  Index steps_ = 0;
  Loss held_out_;
  Json rows_ = Json::array();
  LiveLine line_;
};

Trainer open_trainer(const CommandOptions& options) {
  const TrainingConfig config = options.config ? TrainingConfig::read(*options.config) : TrainingConfig();
  const std::string text = read_file(*options.text);
  const bool there = Trainer::is_in(*options.output);
  if (there && !options.resume) {
    throw InvalidArgument(options.output->string() +
                          ": there is a training already; --resume goes on with it, another --output begins a new one");
  }
  return there ? Trainer::resume(*options.output, config, text) : Trainer(config, text);
}

void run(const CommandOptions& options) {
  options.machine.apply();
  Trainer trainer = open_trainer(options);
  const Index last = std::min(options.stop_at.value_or(trainer.config().optimizer.steps), trainer.config().optimizer.steps);
  const Index tell_every = options.tell_every.value_or(100), save_every = options.save_every.value_or(500);
  const auto save = [&] { trainer.save(*options.output, options.dtype.value_or(DType::kF32)); };
  const StopSignals signals;
  save();  // what cannot be written is better known now
  if (!options.json) {
    print(grouped(trainer.parameters()) + " parameters, " + grouped(trainer.config().optimizer.steps) + " steps of " +
          grouped(trainer.config().batch) + " x " + grouped(trainer.config().context) + " bytes" +
          (trainer.step() > 0 ? ", " + grouped(trainer.step()) + " of them done before" : "") + "\n");
  }
  Course course(trainer, options.json);
  while (trainer.step() < last && !signals.requested()) {
    const Trainer::Step step = trainer.advance();
    course.add(step);
    if (!std::isfinite(step.gradient_norm)) {
      throw InvalidArgument("step " + std::to_string(trainer.step()) +
                            ": the gradients are not finite; try a smaller learning_rate or a longer warmup");
    }
    if (trainer.step() % save_every == 0) save();
    if (trainer.step() % tell_every == 0 && trainer.step() < last) course.tell(false);
  }
  save();
  course.tell(trainer.finished());

  Report report;
  report.set("command", "train");
  report.set("parameters", trainer.parameters());
  report.set("course", course.rows());
  report.set("step", trainer.step());
  report.set("finished", trainer.finished());
  if (course.held_out().count > 0) report.set("held_out_bits_per_byte", bits(course.held_out()));
  if (!trainer.finished()) report.say("stopped", "after step " + grouped(trainer.step()) + "; --resume goes on");
  report.say("written", options.output->string());
  report.set("output", options.output->string());
  report.print(options.json);
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Learn a text: a language model of its bytes");
  auto options = std::make_shared<CommandOptions>();
  add_path(*command, "--text", options->text, "what to learn; any file, read as bytes")->required();
  add_path(*command, "--config", options->config, "JSON: sizes, steps, learning rate … (see below)");
  add_path(*command, "--output", options->output, "folder for the model and for what resuming needs")->required();
  command->add_flag("--resume", options->resume,
                    "go on with the training in --output, if there is one; the same text and config");
  add_dtype(*command, "--dtype", options->dtype, "round the model that is written to this type (f32); resuming does not");
  add_integer(*command, "--stop-at", options->stop_at, "stop after this step, as a signal would; the schedule stays", {0});
  add_integer(*command, "--tell-every", options->tell_every, "steps between two rows of the report (100)", {1});
  add_integer(*command, "--save-every", options->save_every, "steps between two checkpoints (500)", {1});
  command->add_flag("--json", options->json, "one JSON object at the end");
  add_machine_options(*command, options->machine, "Machine");
  command->footer(
      "SIGINT and SIGTERM stop after the step at hand, which is saved; --resume then gives the bits of a training without\n"
      "a stop. The defaults of --config:\n" +
      TrainingConfig().text() +
      "Examples:\n  multihead train --text novel.txt --output model/\n"
      "  multihead generate --checkpoint model/ --prompt 'It was'");
  command->callback([options] { run(*options); });
}

}  // namespace multihead::cli
