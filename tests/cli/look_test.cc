// multihead look: a small random model that the test writes, and the model that comes with the program.
#include <cstdlib>
#include <memory>

#include "cli/run_command.h"
#include "cli/run_in_terminal.h"
#include "decoder/tiny_decoder.h"
#include "multihead/observe.h"
#include "picture/picture_testing.h"

#ifndef MULTIHEAD_MODELS_FROM_PROGRAM
#define MULTIHEAD_MODELS_FROM_PROGRAM ""  // not built: the tests skip
#endif

namespace multihead::cli_test {
namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

constexpr int kFailed = 1, kUsage = 2;

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Code points.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; }));
}

class CliLook : public CommandTest {
 protected:
  static constexpr Index kLayers = 2, kHeads = 6;
  static constexpr const char* kText = "she said so, and he said so";
  const test::TinyShape shape_{.vocab_size = 256};

  void SetUp() override {
    CommandTest::SetUp();
    if (!IsSkipped()) write_model(folder() / "model", shape_);
  }
  // 64 positions; bytes as tokens when the vocabulary is theirs.
  static void write_model(const fs::path& folder, const test::TinyShape& shape) {
    write_decoder(folder, test::tiny_config(shape), test::tiny_weights(shape, 3));
  }
  static Words look(const Words& more, const std::string& text = kText) {
    Words arguments{"look", text, "--checkpoint", "model"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::vector<Index> ids_of(const std::string& text) {
    std::vector<Index> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Words files_in(const fs::path& path) const {
    Words names;
    for (const auto& entry : fs::directory_iterator(folder() / path)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(CliLook, ALineAHeadAMapAndFiles) {
  const CommandResult result = run_ok(look({}));
  const Words lines = lines_of(result.out);
  const json told = run_ok(look({"--json", "--output", "again"})).json();
  const std::string layer = std::to_string(told["shown"]["layer"].get<Index>()),
                    head = std::to_string(told["shown"]["head"].get<Index>());
  EXPECT_EQ(files_in("look"), (Words{"layer" + layer + "-head" + head + ".png", "layer" + layer + ".safetensors"}));
  EXPECT_GT(picture_test::decoded(bytes_of(folder() / "look" / ("layer" + layer + "-head" + head + ".png"))).height(), 700);

  const auto title =
      std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return line.rfind("layer  head", 0) == 0; });
  ASSERT_NE(title, lines.end()) << result.out;
  ASSERT_GT(lines.end() - title, 2 + kLayers * kHeads);
  EXPECT_NE(title[1].find("even"), std::string::npos);
  Index marked = 0;
  for (Index n = 0; n < kLayers * kHeads; ++n) {
    std::istringstream line(title[2 + n]);
    Index layer_number = -1, head_number = -1;
    line >> layer_number >> head_number;
    EXPECT_EQ(layer_number, n / kHeads) << title[2 + n];
    EXPECT_EQ(head_number, n % kHeads) << title[2 + n];
    if (title[2 + n].ends_with(" *")) {
      ++marked;
      EXPECT_EQ(std::to_string(layer_number) + " " + std::to_string(head_number), layer + " " + head);
    }
  }
  EXPECT_EQ(marked, 1);
  for (const std::string& line : lines) {
    const bool is_command = line.rfind("zoom in", 0) == 0;
    EXPECT_TRUE(is_command || width_of(line) <= 80) << line;
  }
  EXPECT_NE(result.out.find("\nLayer " + layer + ", head " + head), std::string::npos) << "no map";
  EXPECT_NE(lines.back().find(" lab look/layer" + layer + ".safetensors"), std::string::npos) << lines.back();
}

TEST_F(CliLook, NumbersAreThoseOfTheCaptures) {
  const json told = run_ok(look({"--json", "--every-layer"})).json();
  ASSERT_EQ(told["captures"].size(), 2U);
  ASSERT_EQ(told["heads"].size(), static_cast<std::size_t>(kLayers * kHeads));
  std::vector<HeadLook> looks;
  for (Index layer = 0; layer < kLayers; ++layer) {
    const auto capture = std::make_shared<const Capture>(
        load_capture(folder() / told["captures"][static_cast<std::size_t>(layer)].get<std::string>()));
    EXPECT_EQ(capture->labels.layer, layer);
    EXPECT_EQ(capture->labels.model, "model");
    EXPECT_NE(capture->labels.positions.find("rotary"), std::string::npos);
    Words labels;
    for (const char c : std::string(kText)) labels.emplace_back(1, c);
    EXPECT_EQ(capture->labels.key_tokens, labels);
    EXPECT_EQ(capture->labels.query_tokens, labels);
    for (const HeadStatistics& head : statistics(AttentionMap(capture))) {
      const json& row = told["heads"][static_cast<std::size_t>(layer * kHeads + head.head)];
      EXPECT_EQ(row["layer"], layer);
      EXPECT_EQ(row["head"], head.head);
      EXPECT_EQ(row["normalized_entropy"]["value"].get<double>(), head.normalized_entropy.value);
      EXPECT_EQ(row["induction_mass"]["uniform"].get<double>(), head.induction_mass.uniform);
      looks.push_back(look_of(head, labels));
      EXPECT_EQ(row["looks_like"], name_of(looks.back()));
      EXPECT_EQ(row["interest"].get<double>(), looks.back().interest);
    }
  }
  const auto best = most_interesting(looks);
  EXPECT_EQ(told["shown"], (json{{"layer", best / kHeads}, {"head", best % kHeads}}));
}

TEST_F(CliLook, WhatTheModelSaysOfTheText) {
  const json told = run_ok(look({"--json"})).json();
  const std::vector<Index> ids = ids_of(kText);
  EXPECT_EQ(told["ids"].get<std::vector<Index>>(), ids);
  const test::RowList logits = test::reference_logits(test::tiny_config(shape_), test::tiny_weights(shape_, 3), ids);
  double bits = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    double sum = 0;
    for (const double logit : logits[i - 1]) sum += std::exp(logit);
    bits += std::log2(sum) - logits[i - 1][static_cast<std::size_t>(ids[i])] / std::log(2.0);
  }
  EXPECT_NEAR(told["bits_per_byte"].get<double>(), bits / static_cast<double>(ids.size() - 1), 1e-4);
  Index parameters = 0;
  const DecoderWeights weights = test::tiny_weights(shape_, 3);
  for_each_weight(weights, [&](const std::string&, const Tensor& tensor) { parameters += tensor.size(); });
  EXPECT_EQ(told["model"]["parameters"], parameters);
  const json generated = run_ok({"generate", "--checkpoint", "model", "--prompt", kText, "--tokens", "37", "--json"}).json();
  EXPECT_EQ(kText + told["goes_on"].get<std::string>(), generated["text"].get<std::string>());  // 64 positions
}

TEST_F(CliLook, AHeadOfOnesChoice) {
  const auto shown = [&](const Words& more) { return run_ok(look(more)).json()["shown"]; };
  EXPECT_EQ(shown({"--json", "--layer", "1", "--head", "4"}), (json{{"layer", 1}, {"head", 4}}));
  EXPECT_TRUE(fs::exists(folder() / "look" / "layer1-head4.png"));
  EXPECT_TRUE(fs::exists(folder() / "look" / "layer1.safetensors"));
  // The best of one layer.
  const json told = run_ok(look({"--json", "--layer", "0"})).json();
  double most = -2;
  Index best = -1;
  for (Index h = 0; h < kHeads; ++h) {
    const double interest = told["heads"][static_cast<std::size_t>(h)]["interest"].get<double>();
    if (interest > most) {
      most = interest;
      best = h;
    }
  }
  EXPECT_EQ(told["shown"], (json{{"layer", 0}, {"head", best}}));
}

TEST_F(CliLook, OneTokenAndTheWholeContext) {
  const json one = run_ok(look({"--json"}, "a")).json();
  EXPECT_FALSE(one.contains("bits_per_byte"));
  EXPECT_EQ(one["heads"][0]["looks_like"], "-");
  EXPECT_NE(run_ok(look({}, "a")).out.find("no row has a choice"), std::string::npos);
  const json whole = run_ok(look({"--json"}, std::string(64, 'x'))).json();
  EXPECT_FALSE(whole.contains("goes_on")) << "there is no position left";
  // Parts of a character have labels, too.
  const json parts = run_ok(look({"--json"}, "é\n")).json();
  const Capture capture = load_capture(folder() / parts["captures"][0].get<std::string>());
  EXPECT_EQ(capture.labels.key_tokens, (Words{"<0xC3>", "<0xA9>", "\n"}));
}

TEST_F(CliLook, OnATerminalTheTextStandsAlongTheMap) {
  const TerminalResult result = run_in_terminal(folder(), look({}), 80, {"TERM=xterm-256color"});
  EXPECT_EQ(result.status, 0) << result.screen;
  EXPECT_NE(result.screen.find("      " + std::string(kText) + "\n"), std::string::npos) << result.screen;
  EXPECT_NE(result.screen.find("\x1b[38;5;"), std::string::npos);
}

TEST_F(CliLook, Refusals) {
  write_model(folder() / "words", {});
  write_bytes("file", "");
  expect_failure(look({}, ""), kFailed, {"TEXT", "at least one"});
  expect_failure(look({}, std::string(65, 'x')), kFailed, {"TEXT", "at most 64 tokens", "65"});
  expect_failure(look({"--layer", "2"}), kFailed, {"--layer", "0 to 1"});
  expect_failure(look({"--layer", "1", "--head", "6"}), kFailed, {"--head", "0 to 5"});
  expect_failure(look({"--head", "1"}), kUsage, {"--head", "--layer"});
  expect_failure(look({"--output", "file"}), kFailed, {"--output", "file"});
  expect_failure({"look", "a", "--checkpoint", "nowhere"}, kFailed, {"nowhere"});
  expect_failure({"look", "a", "--checkpoint", "words"}, kFailed, {"pieces.json", "256 bytes"});
}

// The program as it is installed finds the model in its share folder, before that of the source tree, and elsewhere too.
TEST_F(CliLook, TheInstalledModel) {
  fs::create_directories(folder() / "usr" / "bin");
  fs::copy_file(MULTIHEAD_CLI, folder() / "usr" / "bin" / "multihead");
  const fs::path model = (folder() / "usr" / "bin" / MULTIHEAD_MODELS_FROM_PROGRAM / "austen").lexically_normal();
  write_model(model, shape_);
  const std::string command = "cd '" + folder().string() + "' && ./usr/bin/multihead look --json > out.json";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const json told = json::parse(bytes_of(folder() / "out.json"));
  EXPECT_EQ(told["model"]["name"], "austen");
  EXPECT_TRUE(fs::equivalent(told["model"]["path"].get<std::string>(), model)) << told["model"]["path"];
  EXPECT_EQ(told["lab"].get<std::string>().rfind("./usr/bin/multihead lab look/layer", 0), 0U) << told["lab"];
}

TEST_F(CliLook, TheBundledModel) {
  const fs::path model = fs::path(MULTIHEAD_SOURCE_DIR) / "models" / "austen";
  if (!fs::exists(model / "model.safetensors")) GTEST_SKIP() << "not here: " << model;
  const json told = run_ok({"look", "--json"}).json();
  EXPECT_LT(told["bits_per_byte"].get<double>(), 2.5) << "8 is knowing nothing";
  EXPECT_EQ(told["heads"].size(), 40U);
  Index previous = 0;
  for (const json& head : told["heads"]) previous += head["looks_like"] == "previous token" ? 1 : 0;
  EXPECT_GT(previous, 0);
  EXPECT_LT(fs::file_size(model / "model.safetensors"), 2'500'000U);
}

}  // namespace
}  // namespace multihead::cli_test
