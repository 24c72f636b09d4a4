// multihead generate: a real checkpoint against ids and logits computed elsewhere, and a random one that the test writes.
#include "cli/run_command.h"
#include "decoder/tiny_decoder.h"
#include "multihead/decoder.h"
#include "multihead/runtime.h"
#include "shared_data.h"

namespace multihead::cli_test {
namespace {

class CliGenerate : public CommandTest {
 protected:
  // Bytes as tokens.
  void write_model() const {
    const test::TinyShape shape{.vocab_size = 256, .tied = false};
    DecoderConfig config = test::tiny_config(shape);
    config.begin_id = 10;
    write_decoder(folder() / "model", config, test::tiny_weights(shape, 3));
  }
  static std::vector<std::string> generate(const std::vector<std::string>& more, const std::string& checkpoint = "model") {
    std::vector<std::string> arguments{"generate", "--checkpoint", checkpoint};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(CliGenerate, ARealCheckpointSaysWhatItMustOnEveryTarget) {
  if (!testing::shared_data("stories260k")) GTEST_SKIP() << "not here: " << testing::shared_data_path("stories260k");
  const fs::path data = fs::absolute(*testing::shared_data("stories260k"));
  const std::vector<double> ids = values_of(read_npy(data / "token_ids.npy"));
  const std::vector<double> logits = values_of(read_npy(data / "next_logits.npy"));
  for (const std::string& target : targets()) {
    SCOPED_TRACE(target);
    std::string first;
    for (const char* threads : {"1", "2", "7"}) {
      const auto json =
          run_ok(generate({"--tokens", "127", "--json", "--logits", "logits.npy", "--target", target, "--threads", threads},
                          data.string()))
              .json();
      EXPECT_EQ(json["ids"].get<std::vector<double>>(), ids);
      EXPECT_EQ(json["text"].get<std::string>().rfind("Once upon a time, there was a little girl named Lily.", 0), 0U);
      expect_near(values_of(read("logits.npy")), logits, 1e-4);
      const std::string bytes = bytes_of(folder() / "logits.npy");
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << "other bits with " << threads << " threads";
    }
  }
}

TEST_F(CliGenerate, PromptsAsTextAndAsIds) {
  write_model();
  const auto text = run_ok(generate({"--prompt", "abc", "--tokens", "8", "--json"})).json();
  const auto ids = text["ids"].get<std::vector<Index>>();
  ASSERT_EQ(ids.size(), 11U);
  EXPECT_EQ(std::vector<Index>(ids.begin(), ids.begin() + 3), (std::vector<Index>{'a', 'b', 'c'}));
  EXPECT_EQ(text["text"].get<std::string>().rfind("abc", 0), 0U);
  write("ids.npy", tensor_of({3}, {'a', 'b', 'c'}, DType::kI64));
  EXPECT_EQ(run_ok(generate({"--ids", "ids.npy", "--tokens", "8", "--json"})).json()["ids"], text["ids"]);
  // The same as plain text: bytes as they are.
  std::string bytes;
  for (const Index id : ids) bytes += static_cast<char>(id);
  EXPECT_EQ(run_ok(generate({"--prompt", "abc", "--tokens", "8"})).out, bytes + "\n");
  EXPECT_EQ(run_ok(generate({"--tokens", "0", "--json"})).json()["ids"], nlohmann::json::parse("[10]"));
  // 64 positions, 3 of them the prompt's.
  EXPECT_EQ(run_ok(generate({"--prompt", "abc", "--json"})).json()["ids"].size(), 64U);
}

TEST_F(CliGenerate, DrawingRepeatsWithItsSeed) {
  write_model();
  const auto drawn = [&](const std::string& seed) {
    return run_ok(generate({"--temperature", "1", "--top-p", "0.95", "--tokens", "30", "--json", "--seed", seed})).out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
}

TEST_F(CliGenerate, IdsWithoutATokenizer) {
  write_decoder(folder() / "model", test::tiny_config({}), test::tiny_weights({}, 3));
  const auto json = run_ok(generate({"--tokens", "3", "--json"})).json();
  EXPECT_EQ(json["ids"].size(), 4U);
  EXPECT_FALSE(json.contains("text"));
  EXPECT_NE(run_ok(generate({"--tokens", "3"})).out.find("ids"), std::string::npos);
  expect_failure(generate({"--prompt", "a"}), 1, {"pieces.json", "--ids"});
}

TEST_F(CliGenerate, Refusals) {
  write_model();
  write("floats.npy", random_tensor({3}, 1));
  write("square.npy", tensor_of({1, 1}, {3}, DType::kI64));
  write("beyond.npy", tensor_of({1}, {256}, DType::kI64));
  expect_failure({"generate"}, 2, {"--checkpoint is required"});
  expect_failure(generate({}, "nowhere"), 1, {"nowhere"});
  expect_failure(generate({"--prompt", "a", "--ids", "ids.npy"}), 2, {"--prompt", "--ids"});
  expect_failure(generate({"--tokens", "-1"}), 2, {"--tokens"});
  expect_failure(generate({"--tokens", "64"}), 1, {"64 positions"});
  expect_failure(generate({"--temperature", "-1"}), 1, {"temperature"});
  expect_failure(generate({"--top-p", "0"}), 1, {"top_p"});
  expect_failure(generate({"--ids", "floats.npy"}), 1, {"floats.npy", "integers"});
  expect_failure(generate({"--ids", "square.npy"}), 1, {"square.npy", "[length]"});
  expect_failure(generate({"--ids", "beyond.npy"}), 1, {"256"});
}

}  // namespace
}  // namespace multihead::cli_test
