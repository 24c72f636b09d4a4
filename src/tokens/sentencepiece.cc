// SentencePiece models, through the library that made them.
#include "base/message.h"
#include "io/file.h"
#include "io/text.h"
#include "tokens/open.h"

#ifdef MULTIHEAD_SENTENCEPIECE
#include <sentencepiece_processor.h>

namespace multihead::tokens {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581 stands for a space
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& path) {
    const File file(path);
    refuse_lfs_pointer(file);
    if (file.size() > kMaxBytes) refuse(file.name(), "expected at most ", kMaxBytes, " bytes; got ", file.size());
    std::string bytes(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, bytes.data(), bytes.size());
    // An empty model is legal protobuf, and none.
    if (!processor_.LoadFromSerializedProto(bytes).ok() || processor_.GetPieceSize() == 0)
      refuse(file.name(), "expected a SentencePiece model");
    // What the model puts before a text shows in what it makes of a letter.
    std::vector<std::string> pieces;
    adds_space_ = processor_.Encode("a", &pieces).ok() && !pieces.empty() && pieces.front().starts_with(kSpace);
  }

  Index vocab_size() const override { return processor_.GetPieceSize(); }
  std::vector<Index> encode(std::string_view text) const override {
    std::vector<int> ids;
    if (const auto status = processor_.Encode(std::string(text), &ids); !status.ok())
      throw InvalidArgument("SentencePiece: " + status.ToString());
    return {ids.begin(), ids.end()};
  }
  std::string piece(Index id) const override {
    require(id >= 0 && id < vocab_size(), "Tokenizer::piece: expected an id below ", vocab_size(), "; got ", id);
    const int number = static_cast<int>(id);
    if (processor_.IsControl(number)) return "";
    std::string text = processor_.IdToPiece(number);
    if (processor_.IsByte(number)) return {static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16))};
    for (std::size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos;) text.replace(at, kSpace.size(), " ");
    return text;
  }
  bool begins_with_token() const override { return true; }
  bool adds_space() const override { return adds_space_; }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  bool adds_space_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentencepiece(const std::filesystem::path& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace multihead::tokens

#else

namespace multihead::tokens {

std::unique_ptr<Tokenizer> read_sentencepiece(const std::filesystem::path& path) {
  refuse(path.string(),
         "this is a SentencePiece model, and the program was built without SentencePiece; install "
         "libsentencepiece-dev and build again");
}

}  // namespace multihead::tokens

#endif
