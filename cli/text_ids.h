// A text as a decoder reads it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "multihead/decoder.h"
#include "multihead/tokenizer.h"

namespace multihead::cli {

/// The text's token ids, behind the model's begin token where its texts begin with one. `option` is what gave the text. Throws
/// InvalidArgument when there is no tokenizer; `instead` ends the sentence: "; --ids takes token ids".
std::vector<Index> ids_of_text(const DecoderConfig& config, const Tokenizer* tokenizer, const std::string& text,
                               const std::filesystem::path& checkpoint, const std::string& option, const std::string& instead);

}  // namespace multihead::cli
