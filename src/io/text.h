// Text from files in error messages: always one line, always UTF-8, never longer than a reader can take in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/message.h"

namespace multihead {

/// Bytes of the UTF-8 character at the start of `text`; 0 when there is none (empty, ill-formed, overlong, surrogate).
MULTIHEAD_API std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// `text` with control characters and bytes that are not UTF-8 written as \xHH.
MULTIHEAD_API std::string printable(std::string_view text);

/// printable(text) in double quotes, cut after about `limit` bytes with a note of the full length.
std::string quote(std::string_view text, std::size_t limit = 100);

/// Throws FormatError "FILE: parts…".
template <typename... Parts>
[[noreturn]] void refuse(const std::string& file, const Parts&... parts) {
  throw FormatError(concat(file, ": ", parts...));
}

}  // namespace multihead
