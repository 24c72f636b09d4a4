#include "io/json.h"

#include <nlohmann/json.hpp>

#include "io/text.h"

namespace multihead {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// From nlohmann's interface to ours. Its parser keeps its own stack on the heap, so depth costs no machine stack.
class Adapter final : public nlohmann::json_sax<json> {
 public:
  Adapter(const std::string& file, JsonEvents& events) : file_(file), events_(events) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    events_.number(value);
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool string(string_t& text) override {
    events_.string(text);
    return true;
  }
  bool binary(binary_t&) override { return other("binary"); }
  bool start_object(std::size_t) override { return begin('{'); }
  bool key(string_t& text) override {
    events_.key(text);
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return begin('['); }
  bool end_array() override { return end(); }

  // The library's text reads "[id] parse error at line …: WHAT; last read: 'everything so far'"; only WHAT fits one line.
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    std::string_view what = error.what();
    if (const std::size_t begin = what.find(": "); begin != std::string_view::npos) what.remove_prefix(begin + 2);
    what = what.substr(0, what.find("; last read"));
    refuse(file_, "not valid JSON at byte ", position, ": ", printable(what.substr(0, 200)));
  }

 private:
  bool other(const std::string& text) {
    events_.other(text);
    return true;
  }
  bool begin(char bracket) {
    if (++depth_ > kMaxDepth) refuse(file_, "JSON nested deeper than ", kMaxDepth, " levels");
    events_.begin(bracket);
    return true;
  }
  bool end() {
    --depth_;
    events_.end();
    return true;
  }

  const std::string& file_;
  JsonEvents& events_;
  int depth_ = 0;
};

}  // namespace

void parse_json(std::string_view text, const std::string& file, JsonEvents& events) {
  // nlohmann's lexer skips a byte order mark and takes NUL for the end of the text; neither is JSON.
  if (text.starts_with("\xEF\xBB\xBF")) refuse(file, "JSON begins with a UTF-8 byte order mark; expected '{'");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    refuse(file, "NUL byte in the JSON text at byte ", nul, "; padding must be spaces");
  }
  Adapter adapter(file, events);
  json::sax_parse(text.begin(), text.end(), &adapter);
}

std::string json_string(std::string_view text) { return json(text).dump(); }

}  // namespace multihead
