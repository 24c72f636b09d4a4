// Vocabularies that are a list of pieces.
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>

#include "base/message.h"
#include "io/file.h"
#include "io/text.h"
#include "multihead/tokenizer.h"

namespace multihead {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which SentencePiece writes for a space
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr Index kNone = -1;

std::string with_spaces(std::string text) {
  for (std::size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos;) text.replace(at, kSpace.size(), " ");
  return text;
}

// N of "<0xNN>".
std::optional<unsigned> byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc() && end == piece.data() + 5 ? std::optional(byte) : std::nullopt;
}

class PieceTokenizer final : public Tokenizer {
 public:
  PieceTokenizer(const std::string& file, std::vector<std::string> pieces);

  Index vocab_size() const override { return static_cast<Index>(pieces_.size()); }
  std::vector<Index> encode(std::string_view text) const override;
  std::string piece(Index id) const override {
    require(id >= 0 && id < vocab_size(), "Tokenizer::piece: expected an id below ", vocab_size(), "; got ", id);
    return pieces_[static_cast<std::size_t>(id)];
  }
  bool begins_with_token() const override { return true; }
  bool adds_space() const override { return true; }

 private:
  Index id_of(const std::string& piece) const {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? kNone : found->second;
  }

  std::vector<std::string> pieces_;             ///< as they stand in a text: bytes decoded, "" for control tokens
  std::unordered_map<std::string, Index> ids_;  ///< of pieces that are neither control tokens nor single bytes
  std::array<Index, 256> bytes_{};
};

PieceTokenizer::PieceTokenizer(const std::string& file, std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  bytes_.fill(kNone);
  bool seen_byte = false;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    std::string& piece = pieces_[id];
    if (const auto byte = byte_of(piece)) {
      seen_byte = true;
      piece = static_cast<char>(*byte);
      bytes_[*byte] = static_cast<Index>(id);
    } else if (!seen_byte) {
      piece.clear();
    } else {
      piece = with_spaces(std::move(piece));
      ids_.emplace(piece, static_cast<Index>(id));
    }
  }
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    if (bytes_[byte] == kNone) refuse(file, "expected a piece \"<0xNN>\" for each byte; there is none for byte ", byte);
  }
}

// A doubly linked list of symbols, and the pairs that can be joined in a queue, lowest id first and leftmost among equals:
// n log n. A pair whose symbols have changed meanwhile is skipped.
struct Symbol {
  std::string text;
  std::size_t previous = 0, next = 0;
};
struct Join {
  Index id;
  std::size_t left;
  std::string text;
  bool operator>(const Join& other) const { return std::pair(id, left) > std::pair(other.id, other.left); }
};

std::vector<Index> PieceTokenizer::encode(std::string_view given) const {
  if (given.empty()) return {};
  const std::string text = " " + std::string(given);
  constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();
  std::vector<Symbol> symbols;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(std::string_view(text).substr(at)));
    symbols.push_back({text.substr(at, length), symbols.size() - 1, symbols.size() + 1});
    at += length;
  }
  symbols.front().previous = kEnd;
  symbols.back().next = kEnd;

  std::priority_queue<Join, std::vector<Join>, std::greater<>> joins;
  const auto consider = [&](std::size_t left) {
    if (left == kEnd || symbols[left].next == kEnd) return;
    std::string joined = symbols[left].text + symbols[symbols[left].next].text;
    if (const Index id = id_of(joined); id != kNone) joins.push({id, left, std::move(joined)});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!joins.empty()) {
    const Join join = joins.top();
    joins.pop();
    Symbol& left = symbols[join.left];
    if (left.text.empty() || left.next == kEnd || left.text + symbols[left.next].text != join.text) continue;
    Symbol& right = symbols[left.next];
    right.text.clear();
    left.text = join.text;
    left.next = right.next;
    if (left.next != kEnd) symbols[left.next].previous = join.left;
    consider(left.previous);
    consider(join.left);
  }

  std::vector<Index> ids;
  for (std::size_t i = 0; i != kEnd; i = symbols[i].next) {
    if (const Index id = id_of(symbols[i].text); id != kNone) {
      ids.push_back(id);
    } else {
      for (const char c : symbols[i].text) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    }
  }
  return ids;
}

}  // namespace

std::unique_ptr<Tokenizer> read_pieces(const std::filesystem::path& path) {
  const File file(path);
  if (file.size() > kMaxBytes) refuse(file.name(), "expected at most ", kMaxBytes, " bytes; got ", file.size());
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) refuse(file.name(), "expected a JSON list of pieces by token id");
  std::vector<std::string> pieces;
  for (const auto& piece : json) {
    if (!piece.is_string()) refuse(file.name(), "expected a string for token ", pieces.size());
    pieces.push_back(piece.get<std::string>());
  }
  return std::make_unique<PieceTokenizer>(file.name(), std::move(pieces));
}

}  // namespace multihead
