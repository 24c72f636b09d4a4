#include "multihead/tokenizer.h"

#include "base/message.h"

namespace multihead {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  Index vocab_size() const override { return 256; }
  std::vector<Index> encode(std::string_view text) const override {
    std::vector<Index> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string piece(Index id) const override {
    require(id >= 0 && id < vocab_size(), "Tokenizer::piece: expected a byte, below 256; got ", id);
    return {static_cast<char>(id)};
  }
  bool begins_with_token() const override { return false; }
  bool adds_space() const override { return false; }
};

}  // namespace

Tokenizer::~Tokenizer() = default;

std::string Tokenizer::decode(const std::vector<Index>& ids) const {
  std::string text;
  for (const Index id : ids) text += piece(id);
  return adds_space() && text.starts_with(' ') ? text.substr(1) : text;
}

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace multihead
