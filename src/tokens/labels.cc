#include "tokens/labels.h"

#include "base/message.h"
#include "io/text.h"

namespace multihead::tokens {
namespace {

std::string label_of(const std::string& piece, Index id) {
  if (piece.empty()) return concat('<', id, '>');
  if (is_utf8(piece)) return piece;
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string label;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    label += {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15u], '>'};
  }
  return label;
}

}  // namespace

std::vector<std::string> labels_of(const Tokenizer& tokenizer, const std::vector<Index>& ids) {
  std::vector<std::string> labels;
  for (const Index id : ids) labels.push_back(label_of(tokenizer.piece(id), id));
  return labels;
}

}  // namespace multihead::tokens
