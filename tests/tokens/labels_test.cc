// What stands beside a map for a token.
#include "tokens/labels.h"

#include <gtest/gtest.h>

#include <set>

#include "multihead/error.h"

namespace multihead::tokens {
namespace {

// "", "é", a part of a character, " word".
class FewTokens final : public Tokenizer {
 public:
  Index vocab_size() const override { return 4; }
  std::vector<Index> encode(std::string_view) const override { return {}; }
  std::string piece(Index id) const override {
    const std::string pieces[] = {"", "é", "\xE2\x80", " word"};
    return pieces[id];
  }
  bool begins_with_token() const override { return true; }
  bool adds_space() const override { return false; }
};

TEST(TokenLabels, TextAsItIsAndBytesByName) {
  EXPECT_EQ(labels_of(FewTokens(), {0, 1, 2, 3}), (std::vector<std::string>{"<0>", "é", "<0xE2><0x80>", " word"}));
}

TEST(TokenLabels, EveryByteHasItsOwn) {
  std::vector<Index> ids;
  for (Index id = 0; id < 256; ++id) ids.push_back(id);
  const std::vector<std::string> labels = labels_of(*byte_tokenizer(), ids);
  EXPECT_EQ(std::set<std::string>(labels.begin(), labels.end()).size(), 256U);
  EXPECT_EQ(labels['a'], "a");
  EXPECT_EQ(labels['\n'], "\n");
  EXPECT_EQ(labels[0xC3], "<0xC3>");
  EXPECT_THROW(labels_of(*byte_tokenizer(), {256}), InvalidArgument);
}

}  // namespace
}  // namespace multihead::tokens
