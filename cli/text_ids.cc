#include "text_ids.h"

namespace multihead::cli {

std::vector<Index> ids_of_text(const DecoderConfig& config, const Tokenizer* tokenizer, const std::string& text,
                               const std::filesystem::path& checkpoint, const std::string& option, const std::string& instead) {
  if (tokenizer == nullptr) {
    throw InvalidArgument(checkpoint.string() +
                          ": expected pieces.json or tokenizer.model, or a vocabulary of the 256 bytes, for " + option +
                          "; found none" + instead);
  }
  std::vector<Index> ids;
  if (config.begin_id && tokenizer->begins_with_token()) ids.push_back(*config.begin_id);
  const std::vector<Index> more = tokenizer->encode(text);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

}  // namespace multihead::cli
