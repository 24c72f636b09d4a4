#include "tokens/open.h"

#include "io/text.h"

namespace multihead::tokens {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> find_tokenizer(const fs::path& folder, Index vocab_size) {
  std::error_code error;
  if (fs::exists(folder / "pieces.json", error)) return read_pieces(folder / "pieces.json");
  if (fs::exists(folder / "tokenizer.model", error)) return read_sentencepiece(folder / "tokenizer.model");
  return vocab_size == 256 ? byte_tokenizer() : nullptr;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& folder, Index vocab_size) {
  std::error_code error;
  const fs::path where = fs::is_directory(folder, error) ? folder : folder.parent_path();
  auto tokenizer = find_tokenizer(where, vocab_size);
  // Models may pad their vocabulary, but not cut it.
  if (tokenizer && tokenizer->vocab_size() > vocab_size)
    refuse(where.string(), "expected a tokenizer of at most the model's ", vocab_size, " tokens; found ",
           tokenizer->vocab_size());
  return tokenizer;
}

}  // namespace multihead::tokens
