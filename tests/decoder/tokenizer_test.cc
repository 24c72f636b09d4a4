#include "multihead/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/io_testing.h"
#include "shared_data.h"

namespace multihead {
namespace {

using testing::TempFolder;

TEST(ByteTokenizer, EveryByteIsItself) {
  const auto bytes = byte_tokenizer();
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::vector<Index> ids = bytes->encode(all);
  for (Index c = 0; c < 256; ++c) EXPECT_EQ(ids[static_cast<std::size_t>(c)], c);
  EXPECT_EQ(bytes->decode(ids), all);
  EXPECT_EQ(bytes->vocab_size(), 256);
  EXPECT_THROW(bytes->piece(256), InvalidArgument);
  EXPECT_THROW(bytes->piece(-1), InvalidArgument);
}

class Pieces : public ::testing::Test {
 protected:
  // Two control tokens, 256 bytes, then `more` from id 258 on.
  std::unique_ptr<Tokenizer> with(const std::vector<std::string>& more, int bytes = 256) {
    std::ofstream file(folder_ / "pieces.json");
    file << R"(["<unk>", "\n<s>\n")";
    const char* digits = "0123456789ABCDEF";
    for (int c = 0; c < bytes; ++c) file << ", \"<0x" << digits[c / 16] << digits[c % 16] << ">\"";
    for (const std::string& piece : more) file << ", \"" << piece << '"';
    file << "]";
    file.close();
    return read_pieces(folder_ / "pieces.json");
  }
  TempFolder folder_;
};

TEST_F(Pieces, JoinsTheLowestIdFirstAndTheLeftmostAmongEquals) {
  // Ids: "ab" 258, "bc" 259, " a" 260, "aba" 261, then characters.
  const auto pieces = with({"ab", "bc", "\xE2\x96\x81\x61", "aba", " ", "a", "b", "c"});
  EXPECT_EQ(pieces->encode("abc"), (std::vector<Index>{262, 258, 265}));   // " " ab c: ab before bc and " a"
  EXPECT_EQ(pieces->encode("bc"), (std::vector<Index>{262, 259}));         // " " bc
  EXPECT_EQ(pieces->encode("a"), (std::vector<Index>{260}));               // " a"
  EXPECT_EQ(pieces->encode("abab"), (std::vector<Index>{262, 258, 258}));  // both pairs at once, then no "abab"
  EXPECT_EQ(pieces->encode("aba"), (std::vector<Index>{262, 261}));        // ab, then ab + a
  EXPECT_TRUE(pieces->encode("").empty());
}

TEST_F(Pieces, WhatHasNoPieceBecomesBytes) {
  const auto pieces = with({" ", "a"});
  EXPECT_EQ(pieces->encode("a\xC3\xA9"), (std::vector<Index>{258, 259, 2 + 0xC3, 2 + 0xA9}));  // é
  EXPECT_EQ(pieces->encode("\xFF"), (std::vector<Index>{258, 2 + 0xFF}));                      // no character at all
  for (const std::string text : {"a \xC3\xA9\n\xFF", "  two spaces", "a"})
    EXPECT_EQ(pieces->decode(pieces->encode(text)), text);
}

TEST_F(Pieces, ControlTokensAreNoText) {
  const auto pieces = with({"\xE2\x96\x81\x61", "b"});
  EXPECT_EQ(pieces->decode({1, 258, 0, 259}), "ab");
  EXPECT_EQ(pieces->piece(1), "");
  EXPECT_EQ(pieces->piece(2 + 10), "\n");
  EXPECT_THROW(pieces->piece(260), InvalidArgument);
}

TEST_F(Pieces, Refusals) {
  EXPECT_THROW(with({}, 255), FormatError);
  for (const char* text : {"", "{}", "[1]", "[\"a\", null]", "[\"a\""}) {
    std::ofstream(folder_ / "bad.json") << text;
    EXPECT_THROW(read_pieces(folder_ / "bad.json"), FormatError) << text;
  }
  EXPECT_THROW(read_pieces(folder_ / "nowhere.json"), IoError);
}

TEST_F(Pieces, ARealVocabulary) {
  if (!testing::shared_data("stories260k")) GTEST_SKIP() << "not here: " << testing::shared_data_path("stories260k");
  const auto pieces = read_pieces(*testing::shared_data("stories260k") / "pieces.json");
  const std::string text = "Once upon a time, there was a little girl named Lily.";
  // How the model's own training text was cut: the ids that it generates itself.
  const std::vector<Index> ids{403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426};
  EXPECT_EQ(pieces->decode(ids), text);
  EXPECT_EQ(pieces->encode(text), ids);
}

}  // namespace
}  // namespace multihead
