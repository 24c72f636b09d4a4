#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <string>

#include "io/io_testing.h"

namespace multihead::testing {
namespace {

using checkpoint::Config;

Config config_of(const std::string& text, const std::string& name = "config.json") {
  const TempFolder folder;
  write_file(folder / name, text);
  return Config::read(folder / "");
}

TEST(ConfigTest, TakesTheFirstKeyThatIsThereAndNotNull) {
  const Config config = config_of(R"({"b": null, "c": 3, "d": 4})");
  EXPECT_EQ(config.count({"a", "b", "d", "c"}), 4);
  EXPECT_EQ(config.count({"a", "b"}), std::nullopt);
  EXPECT_EQ(config.need_count({"c"}), 3);
  EXPECT_TRUE(config.has("b"));
  EXPECT_FALSE(config.has("a"));
}

TEST(ConfigTest, WithoutAFileEverythingIsAbsent) {
  const TempFolder folder;
  const Config config = Config::read(folder / "");
  EXPECT_EQ(config.count({"num_attention_heads"}), std::nullopt);
  EXPECT_FALSE(config.has("num_attention_heads"));
  EXPECT_FALSE(config.object({"text_config"}).has("x"));
  expect_error<FormatError>(
      [&] {
        config.need_count({"num_attention_heads", "n_head"});
      },
      {"no config.json", "num_attention_heads or n_head"});
}

TEST(ConfigTest, NamesWhatIsMissing) {
  const Config config = config_of(R"({"inner": {"factor": null}})");
  expect_error<FormatError>([&] { config.object({"inner"}).need_number({"factor"}); },
                            {"config.json: inner", "factor", "null"});
}

TEST(ConfigTest, RefusesValuesOfAnotherKind) {
  const Config config = config_of(R"({"list": [4, 4], "real": 4.0, "negative": -4, "zero": 0, "big": 1e30,
      "huge": 18446744073709551615, "text": "four\n", "flag": true, "object": {}})");
  for (const char* key : {"list", "real", "negative", "zero", "big", "huge", "text", "flag", "object"}) {
    expect_error<FormatError>([&] { config.count({key}); }, {key, "one positive integer"});
  }
  expect_error<FormatError>([&] { config.count({"list"}); }, {"a list of 2"});
  EXPECT_EQ(config.count({"zero"}, 0), 0);
  expect_error<FormatError>([&] { config.number({"text"}); }, {"one finite number", "four\\x0A"});
  expect_error<FormatError>([&] { config.flag({"zero"}); }, {"true or false"});
  expect_error<FormatError>([&] { config.text({"zero"}); }, {"a string"});
  expect_error<FormatError>([&] { config.object({"list"}); }, {"an object"});
  expect_error<FormatError>([&] { config.text_at("list", 0); }, {"a list of strings"});
  expect_error<FormatError>([&] { config.counts("text"); }, {"a list of positive integers"});
  EXPECT_EQ(config.counts("list"), (std::vector<Index>{4, 4}));
}

TEST(ConfigTest, ReadsMetasParameterFileToo) { EXPECT_EQ(config_of(R"({"n_heads": 8})", "params.json").count({"n_heads"}), 8); }

TEST(ConfigTest, RefusesWhatIsNoObject) {
  const std::string texts[] = {"", "[1]", "3", "{", "{\"a\": 1} x", "{\"a\": NaN}", "{\"a\": \"\xff\"}"};
  for (const std::string& text : texts) {
    expect_error<FormatError>([&] { config_of(text); }, {"config.json", "a JSON object"});
  }
}

TEST(ConfigTest, SurvivesDeepNestingAndRefusesGiantFiles) {
  const std::string deep(200000, '[');
  const Config config = config_of("{\"a\": " + deep + std::string(deep.size(), ']') + "}");
  expect_error<FormatError>([&] { config.count({"a"}); }, {"a list of 1"});
  expect_error<FormatError>([&] { config_of(std::string(17u << 20, ' ')); }, {"at most"});
}

}  // namespace
}  // namespace multihead::testing
