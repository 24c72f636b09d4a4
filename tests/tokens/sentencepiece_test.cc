// SentencePiece models, with one that the test trains.
#include <gtest/gtest.h>

#include <fstream>

#include "io/io_testing.h"
#include "multihead/error.h"
#include "tokens/open.h"

#ifdef MULTIHEAD_SENTENCEPIECE_TRAIN
#include <sentencepiece_trainer.h>
#endif

namespace multihead::tokens {
namespace {

using testing::TempFolder;

TEST(OpenTokenizer, BytesWhenThereIsNothingElse) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "model");
  ASSERT_NE(open_tokenizer(folder / "model", 256), nullptr);
  EXPECT_EQ(open_tokenizer(folder / "model", 257), nullptr);
}

TEST(OpenTokenizer, RefusesAVocabularyThatTheModelDoesNotHave) {
  const TempFolder folder;
  std::ofstream pieces(folder / "pieces.json");
  pieces << "[";
  for (int c = 0; c < 256; ++c)
    pieces << "\"<0x"
           << "0123456789ABCDEF"[c / 16] << "0123456789ABCDEF"[c % 16] << ">\", ";
  pieces << "\"a\"]";
  pieces.close();
  EXPECT_THROW(open_tokenizer(folder / "model.safetensors", 256), FormatError);
  EXPECT_NE(open_tokenizer(folder / "model.safetensors", 257), nullptr);
  EXPECT_NE(open_tokenizer(folder / "model.safetensors", 264), nullptr) << "models pad their vocabulary";
}

TEST(SentencePiece, RefusesWhatIsNone) {
  const TempFolder folder;
  std::ofstream(folder / "tokenizer.model") << "no model";
  EXPECT_THROW(read_sentencepiece(folder / "tokenizer.model"), FormatError);
  EXPECT_THROW(open_tokenizer(folder / "model.safetensors", 999), FormatError);
}

#ifdef MULTIHEAD_SENTENCEPIECE_TRAIN
TEST(SentencePiece, TextAndBack) {
  const TempFolder folder;
  std::ofstream text(folder / "text");
  for (int i = 0; i < 200; ++i) text << "the cat number " << i << " sat on the mat and the other cat sat on the hat\n";
  text.close();
  const std::string model = (folder / "tokenizer").string();
  ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train("--input=" + (folder / "text").string() + " --model_prefix=" + model +
                                                         " --model_type=bpe --vocab_size=320 --byte_fallback=true"
                                                         " --normalization_rule_name=identity --minloglevel=2")
                  .ok());
  const auto tokenizer = open_tokenizer(folder / "model.safetensors", 320);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 320);
  EXPECT_TRUE(tokenizer->begins_with_token());
  EXPECT_TRUE(tokenizer->adds_space());
  for (const std::string line : {"the cat sat on the mat", "caf\xC3\xA9!", "x"}) {
    const std::vector<Index> ids = tokenizer->encode(line);
    EXPECT_EQ(tokenizer->decode(ids), line);
    EXPECT_LT(ids.size(), line.size() + 2);
  }
  EXPECT_LT(tokenizer->encode("the cat sat on the mat").size(), 10U) << "words that it learned";
  EXPECT_EQ(tokenizer->piece(1), "") << "<s> is no text";
  EXPECT_THROW(tokenizer->piece(320), InvalidArgument);
  EXPECT_THROW(open_tokenizer(folder / "model.safetensors", 319), FormatError);
}
#endif

}  // namespace
}  // namespace multihead::tokens
