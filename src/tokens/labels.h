// Tokens as people read them beside a map.
#pragma once

#include <string>
#include <vector>

#include "multihead/tokenizer.h"

namespace multihead::tokens {

/// One label a token: its bytes when they are text (spaces and line ends too: what shows a label makes them visible), "<0xE2>"
/// for each byte of one that holds a part of a character only, "<7>" for one without bytes (begin, end …). Equal tokens have
/// equal labels, other tokens mostly other ones. Throws InvalidArgument for an id outside the vocabulary.
std::vector<std::string> labels_of(const Tokenizer& tokenizer, const std::vector<Index>& ids);

}  // namespace multihead::tokens
