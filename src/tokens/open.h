// The tokenizer of a checkpoint folder. Linked by the programs only: SentencePiece is no dependency of the libraries.
#pragma once

#include <filesystem>
#include <memory>

#include "multihead/tokenizer.h"

namespace multihead::tokens {

/// What lies in the folder: pieces.json, else tokenizer.model (SentencePiece), else bytes when vocab_size is 256, else null.
/// Throws FormatError when it has more tokens than the model, or, for tokenizer.model, when the program was built without
/// SentencePiece; IoError.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder, Index vocab_size);

/// A SentencePiece model file.
std::unique_ptr<Tokenizer> read_sentencepiece(const std::filesystem::path& path);

}  // namespace multihead::tokens
