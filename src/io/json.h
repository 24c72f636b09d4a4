// JSON as a stream of events: nothing is built that the format does not ask for, and every key is seen, duplicates too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace multihead {

/// Receives one JSON document. The methods refuse by throwing.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  /// '{' or '['.
  virtual void begin(char bracket) = 0;
  virtual void end() = 0;
  virtual void key(std::string& text) = 0;
  virtual void string(std::string& text) = 0;
  /// A number written without sign, fraction or exponent that fits 64 bits.
  virtual void number(std::uint64_t value) = 0;
  /// Any other value, as text: null, true, false, -1, 1.5, 16.0, 1e3 …
  virtual void other(const std::string& text) = 0;
};

/// Parses `text`, which must be one strict JSON value (RFC 8259: UTF-8, no comments) in JSON blanks, at most 64 levels deep.
/// Time and memory are linear in the text. Throws FormatError naming `file` and the place.
void parse_json(std::string_view text, const std::string& file, JsonEvents& events);

/// `text` as a JSON string with its quotes. It must be UTF-8.
std::string json_string(std::string_view text);

}  // namespace multihead
