#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "decoder/tiny_decoder.h"
#include "io/io_testing.h"
#include "multihead/io.h"
#include "multihead/runtime.h"
#include "multihead/training.h"

namespace multihead {
namespace {

using testing::TempFolder;

TrainingConfig small_config() {
  TrainingConfig config;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.model_dim = 32;
  config.context = 24;
  config.batch = 4;
  config.optimizer.steps = 30;
  config.optimizer.warmup = 5;
  config.held_out = 0.1;
  config.seed = 3;
  return config;
}

std::string sentences() {
  std::string text;
  test::Random random(7);
  const char* words[] = {"the", "cat", "sat", "on", "a", "mat", "and", "slept"};
  for (int i = 0; i < 800; ++i) text += std::string(words[random.between(0, 7)]) + (i % 9 == 8 ? ".\n" : " ");
  return text;
}

std::string bits_of(const DecoderWeights& weights) {
  std::string bytes;
  for_each_weight(weights, [&](const std::string&, const Tensor& tensor) {
    bytes.append(tensor.data<char>(), static_cast<std::size_t>(tensor.size()) * sizeof(float));
  });
  return bytes;
}

void advance_to(Trainer& trainer, Index step) {
  while (trainer.step() < step) trainer.advance();
}

class TrainerTest : public ::testing::Test {
 protected:
  std::string complaint(const TrainingConfig& config, const std::string& text) const {
    try {
      Trainer::resume(folder_ / "t", config, text);
      return "";
    } catch (const Error& error) {
      EXPECT_NE(dynamic_cast<const FormatError*>(&error), nullptr) << error.what();
      return error.what();
    }
  }
  std::filesystem::path file() const { return folder_ / "t/training.safetensors"; }
  std::string file_bytes() const {
    std::ostringstream bytes;
    bytes << std::ifstream(file(), std::ios::binary).rdbuf();
    return bytes.str();
  }
  void write_file(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }

  TempFolder folder_;
  std::string text_ = sentences();
};

TEST_F(TrainerTest, LearnsAndSaysHowWell) {
  TrainingConfig config = small_config();
  config.optimizer.steps = 200;
  config.optimizer.learning_rate = 5e-3;
  Trainer trainer(config, text_);
  const Loss before = trainer.held_out_loss();
  EXPECT_NEAR(before.mean, std::log(256) + 0.5, 0.5) << "nothing is known: logits of variance 1 add half a nat";
  const double first = trainer.advance().loss.mean;
  advance_to(trainer, 200);
  EXPECT_TRUE(trainer.finished());
  const Loss after = trainer.held_out_loss();
  EXPECT_LT(after.mean, 0.35 * first) << "eight words";
  EXPECT_EQ(after.count, before.count);
  EXPECT_GT(after.count, static_cast<Index>(text_.size()) / 10 - 2 * config.context);
  EXPECT_EQ(trainer.held_out_loss(3).count, 3 * config.context);
}

TEST_F(TrainerTest, AnInterruptionChangesNoBit) {
  Trainer whole(small_config(), text_);
  advance_to(whole, 30);
  test::Random random(static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed()));
  const Index stop = random.between(1, 29);
  SCOPED_TRACE("stopped after step " + std::to_string(stop));
  {
    Trainer first(small_config(), text_);
    advance_to(first, stop);
    first.save(folder_ / "t");
  }
  EXPECT_TRUE(Trainer::is_in(folder_ / "t"));
  Trainer second = Trainer::resume(folder_ / "t", small_config(), text_);
  EXPECT_EQ(second.step(), stop);
  advance_to(second, 30);
  EXPECT_TRUE(bits_of(second.weights()) == bits_of(whole.weights()));
}

TEST_F(TrainerTest, ThreadsChangeNoBit) {
  std::string first;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    Trainer trainer(small_config(), text_);
    advance_to(trainer, 5);
    if (first.empty()) first = bits_of(trainer.weights());
    EXPECT_TRUE(bits_of(trainer.weights()) == first) << threads;
  }
  set_num_threads(0);
}

TEST_F(TrainerTest, WhatItSavesIsADecoder) {
  Trainer trainer(small_config(), text_);
  advance_to(trainer, 3);
  trainer.save(folder_ / "t");
  const DecoderFiles files = read_decoder(folder_ / "t");
  EXPECT_EQ(files.config.vocab_size, 256);
  EXPECT_EQ(files.config.max_positions, 24);
  EXPECT_EQ(files.config.begin_id, 10);
  EXPECT_TRUE(bits_of(files.weights) == bits_of(trainer.weights()));
}

TEST_F(TrainerTest, RefusesWhatItCannotGoOnWith) {
  Trainer trainer(small_config(), text_);
  advance_to(trainer, 2);
  trainer.save(folder_ / "t");
  EXPECT_EQ(complaint(small_config(), text_), "");
  const auto says = [&](const TrainingConfig& config, const std::string& text, const std::string& word) {
    const std::string said = complaint(config, text);
    EXPECT_NE(said.find("training.safetensors"), std::string::npos) << said;
    EXPECT_NE(said.find(word), std::string::npos) << "'" << word << "' in: " << said;
  };
  TrainingConfig other = small_config();
  other.optimizer.learning_rate *= 2;
  says(other, text_, "learning_rate");
  other = small_config();
  other.model_dim = 64;
  says(other, text_, "model_dim");
  says(small_config(), text_ + ".", "text");

  const std::string bytes = file_bytes();
  for (const double share : {0.0, 0.3, 0.999}) {
    write_file(bytes.substr(0, static_cast<std::size_t>(share * static_cast<double>(bytes.size()))));
    EXPECT_NE(complaint(small_config(), text_), "") << share;
  }
  // A model that is no training, and one of another program.
  std::filesystem::copy_file(folder_ / "t/model.safetensors", file(), std::filesystem::copy_options::overwrite_existing);
  says(small_config(), text_, "\"pt\"");
  const Tensor numbers(DType::kF32, {2});
  write_safetensors(file(), {{"x", numbers}}, {{"format", "another program 3"}});
  says(small_config(), text_, "another program 3");
  std::string broken = bytes;
  broken.replace(broken.find("\"step\":\"2\""), 10, "\"step\":\"x\"");
  write_file(broken);
  says(small_config(), text_, "step");
  std::filesystem::remove(file());
  EXPECT_FALSE(Trainer::is_in(folder_ / "t"));
  EXPECT_THROW(Trainer::resume(folder_ / "t", small_config(), text_), IoError);
}

TEST_F(TrainerTest, ConfigurationsAsFiles) {
  const auto read = [&](const std::string& text) {
    std::ofstream(folder_ / "c.json") << text;
    return TrainingConfig::read(folder_ / "c.json");
  };
  EXPECT_EQ(read("{}").text(), TrainingConfig().text());
  TrainingConfig config = small_config();
  config.seed = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(read(config.text()).text(), config.text());
  EXPECT_EQ(read(R"({"steps": 7, "learning_rate": 1})").optimizer.steps, 7);
  for (const char* wrong : {"", "[]", R"({"stepz": 7})", R"({"steps": 7.5})", R"({"steps": -1})", R"({"steps": 4294967296})",
                            R"({"learning_rate": "1"})", R"({"seed": -1})"}) {
    EXPECT_THROW(read(wrong), FormatError) << wrong;
  }
  EXPECT_THROW(TrainingConfig::read(folder_ / "nowhere.json"), IoError);
}

TEST_F(TrainerTest, Refusals) {
  const auto refused = [&](auto change) {
    TrainingConfig config = small_config();
    change(config);
    EXPECT_THROW(Trainer(config, text_), InvalidArgument);
  };
  refused([](TrainingConfig& c) { c.num_layers = 0; });
  refused([](TrainingConfig& c) { c.num_heads = 5; });
  refused([](TrainingConfig& c) { c.num_kv_heads = 3; });
  refused([](TrainingConfig& c) { c.batch = 0; });
  refused([](TrainingConfig& c) { c.context = 1 << 20; });
  refused([](TrainingConfig& c) { c.held_out = 1; });
  refused([](TrainingConfig& c) { c.optimizer.beta1 = 2; });
  EXPECT_THROW(Trainer(small_config(), ""), InvalidArgument);
}

}  // namespace
}  // namespace multihead
