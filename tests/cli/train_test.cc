// multihead train: what it says and leaves, signals, and going on.
#include <chrono>
#include <csignal>
#include <thread>

#include "cli/run_command.h"
#include "multihead/decoder.h"

namespace multihead::cli_test {
namespace {

class CliTrain : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    std::string text;
    test::Random random(7);
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + random.between(0, 3));
    write_bytes("text", text);
    write_config(20);
  }
  void write_config(int steps) const {
    write_bytes("config.json",
                R"({"num_layers": 1, "num_heads": 2, "model_dim": 16, "context": 16, "batch": 2, "warmup": 2, "steps": )" +
                    std::to_string(steps) + "}");
  }
  static std::vector<std::string> train(const std::string& output, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train", "--text", "text", "--config", "config.json", "--output", output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string weights_of(const std::string& output) const { return bytes_of(folder() / output / "model.safetensors"); }
};

TEST_F(CliTrain, LeavesAModelThatGenerates) {
  const auto json = run_ok(train("model", {"--json", "--tell-every", "5"})).json();
  EXPECT_EQ(json["step"], 20);
  EXPECT_EQ(json["finished"], true);
  ASSERT_EQ(json["course"].size(), 4U);
  EXPECT_EQ(json["course"][0]["step"], 5);
  EXPECT_GT(json["course"][0]["bits_per_byte"].get<double>(), json["course"][3]["bits_per_byte"].get<double>());
  EXPECT_LT(json["held_out_bits_per_byte"].get<double>(), 8.5);
  EXPECT_EQ(run_ok({"generate", "--checkpoint", "model", "--prompt", "ab", "--tokens", "5", "--json"}).json()["ids"].size(),
            7U);
}

TEST_F(CliTrain, TellsHowItGoes) {
  const std::string text = run_ok(train("model", {"--tell-every", "10"})).out;
  for (const char* word : {"parameters", "20 steps of 2 x 16 bytes", "step 10", "step 20", "loss", "bits per byte", "held out",
                           "bytes/s", "left", "written", "model"}) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in:\n" << text;
  }
}

TEST_F(CliTrain, StoppingAndGoingOnChangesNoBit) {
  run_ok(train("whole"));
  const auto stopped = run_ok(train("parts", {"--stop-at", "7", "--json"})).json();
  EXPECT_EQ(stopped["step"], 7);
  EXPECT_EQ(stopped["finished"], false);
  EXPECT_NE(weights_of("parts"), weights_of("whole"));
  expect_failure(train("parts"), 1, {"parts", "--resume"});
  EXPECT_EQ(run_ok(train("parts", {"--resume", "--json"})).json()["finished"], true);
  EXPECT_TRUE(weights_of("parts") == weights_of("whole"));
  EXPECT_TRUE(bytes_of(folder() / "parts/training.safetensors") == bytes_of(folder() / "whole/training.safetensors"));
}

TEST_F(CliTrain, WritesTheModelInTheTypeAskedForAndGoesOnInF32) {
  write_config(20);
  run_ok(train("whole"));
  run_ok(train("half", {"--dtype", "f16", "--stop-at", "10"}));
  run_ok(train("half", {"--dtype", "f16", "--resume"}));
  EXPECT_TRUE(bytes_of(folder() / "half/training.safetensors") == bytes_of(folder() / "whole/training.safetensors"));
  const DecoderFiles half = read_decoder(folder() / "half");
  EXPECT_EQ(half.weights.embedding.dtype(), DType::kF16);
  EXPECT_EQ(half.weights.embedding.shape(), read_decoder(folder() / "whole").weights.embedding.shape());
  EXPECT_LT(fs::file_size(folder() / "half/model.safetensors"), fs::file_size(folder() / "whole/model.safetensors") * 6 / 10);
}

// Sends a signal as soon as the first checkpoint is there.
TEST_F(CliTrain, ASignalStopsAfterTheStepAtHand) {
  write_config(2'000'000);
  for (const int signal : {SIGINT, SIGTERM}) {
    SCOPED_TRACE(signal);
    const std::string output = "model" + std::to_string(signal);
    std::vector<std::string> words{MULTIHEAD_CLI};
    for (const std::string& word : train(output, {"--json"})) words.push_back(word);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder().c_str());
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "said.json", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, MULTIHEAD_CLI, &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    while (!fs::exists(folder() / output / "config.json")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(kill(child, signal), 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    const auto json = nlohmann::json::parse(bytes_of(folder() / "said.json"));
    const Index step = json["step"];
    EXPECT_GT(step, 0);
    EXPECT_EQ(json["finished"], false);
    // What was saved is that very step: one more from there is the next.
    const auto next = run_ok(train(output, {"--resume", "--json", "--stop-at", std::to_string(step + 1)})).json();
    EXPECT_EQ(next["step"], step + 1);
    EXPECT_EQ(next["course"].size(), 1U);
  }
}

TEST_F(CliTrain, Refusals) {
  expect_failure({"train"}, 2, {"required"});
  expect_failure({"train", "--text", "nowhere", "--output", "model"}, 1, {"nowhere"});
  expect_failure({"train", "--text", "text", "--output", "model", "--config", "nowhere.json"}, 1, {"nowhere.json"});
  write_bytes("wrong.json", R"({"step": 3})");
  expect_failure({"train", "--text", "text", "--output", "model", "--config", "wrong.json"}, 1,
                 {"wrong.json", "steps", "step"});
  write_bytes("short", "abc");
  expect_failure({"train", "--text", "short", "--output", "model"}, 1, {"bytes"});
  expect_failure({"train", "--text", "text", "--output", "text/model", "--config", "config.json"}, 1, {"text"});
  run_ok(train("model", {"--stop-at", "2", "--json"}));
  write_config(21);
  expect_failure(train("model", {"--resume"}), 1, {"training.safetensors", "steps"});
  write_config(20);
  const std::string bytes = bytes_of(folder() / "model/training.safetensors");
  write_bytes("model/training.safetensors", bytes.substr(0, bytes.size() / 2));
  expect_failure(train("model", {"--resume"}), 1, {"training.safetensors"});
}

}  // namespace
}  // namespace multihead::cli_test
