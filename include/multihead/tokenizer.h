// Text to token ids and back.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

class MULTIHEAD_API Tokenizer {
 public:
  virtual ~Tokenizer();

  virtual Index vocab_size() const = 0;
  /// Without begin or end tokens. Any bytes; some kinds replace what they cannot express.
  virtual std::vector<Index> encode(std::string_view text) const = 0;
  /// Bytes of one token inside a text: "" for begin, end and the like. A token may hold a part of a character only. Throws
  /// InvalidArgument for an id outside the vocabulary.
  virtual std::string piece(Index id) const = 0;
  /// Whether texts of this kind begin with the model's begin token, prompts too.
  virtual bool begins_with_token() const = 0;
  /// Whether encode() puts a space before the text, which decode() takes away again.
  virtual bool adds_space() const = 0;

  /// The text of a whole sequence.
  std::string decode(const std::vector<Index>& ids) const;
};

/// Token n is byte n; 256 of them.
MULTIHEAD_API std::unique_ptr<Tokenizer> byte_tokenizer();

/// A vocabulary without scores: a JSON list of pieces by id, "▁" (or a space) for a space and "<0xNN>" for a byte. Pieces in
/// angle brackets ("<unk>", "<s>") before the first byte are control tokens. Encoding is byte-pair encoding (Sennrich et al.
/// 2016) as SentencePiece trains it, whose pieces lie in the order in which they were merged: the adjacent pair that makes the
/// piece with the lowest id is joined first; a character without a piece becomes its bytes. Throws IoError, FormatError.
MULTIHEAD_API std::unique_ptr<Tokenizer> read_pieces(const std::filesystem::path& path);

}  // namespace multihead
