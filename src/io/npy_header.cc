#include "io/npy_header.h"

#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>

#include "io/dense.h"
#include "io/text.h"

namespace multihead {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
// Plain arrays need about 100 bytes. NumPy itself refuses more than 10,000 from files it does not trust.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 20;

struct Code {
  std::string_view code;
  DType dtype;
};
constexpr std::array<Code, 12> kCodes{{
    {"b1", DType::kBool},
    {"u1", DType::kU8},
    {"i1", DType::kI8},
    {"u2", DType::kU16},
    {"i2", DType::kI16},
    {"u4", DType::kU32},
    {"i4", DType::kI32},
    {"u8", DType::kU64},
    {"i8", DType::kI64},
    {"f2", DType::kF16},
    {"f4", DType::kF32},
    {"f8", DType::kF64},
}};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

// The three values of the dict, still as written.
struct Fields {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<Dims> shape;
};

// A parser for the subset of Python literals that the three keys need. No recursion: nothing nests.
class DictParser {
 public:
  DictParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Fields parse() {
    expect('{', "a Python dict");
    while (!take('}')) {
      const std::string_view key = string("a key in quotes");
      expect(':', "':' after a key");
      value_of(key);
      if (take('}')) break;
      expect(',', "',' or '}' after a value");
    }
    skip_blanks();
    if (at_ < text_.size()) fail("only blanks after the dict");
    if (!fields_.descr) missing("descr");
    if (!fields_.fortran_order) missing("fortran_order");
    if (!fields_.shape) missing("shape");
    return fields_;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    const std::string got = at_ < text_.size() ? quote(text_.substr(at_), 24) : "the end of the header";
    refuse(file_, ".npy header, byte ", at_, ": expected ", expected, "; got ", got);
  }
  [[noreturn]] void missing(std::string_view key) const { refuse(file_, ".npy header: the key '", key, "' is missing"); }
  template <typename T>
  void set(std::optional<T>& field, std::string_view key, T value) {
    if (field) refuse(file_, ".npy header: the key '", key, "' stands there twice");
    field = value;
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!take(c)) fail(what);
  }

  void value_of(std::string_view key) {
    if (key == "descr") {
      if (peek() == '[' || peek() == '(')
        refuse(file_, "structured dtype in 'descr': only arrays of plain numbers can be read");
      set(fields_.descr, key, string("a dtype in quotes as the value of 'descr'"));
    } else if (key == "fortran_order") {
      set(fields_.fortran_order, key, boolean());
    } else if (key == "shape") {
      set(fields_.shape, key, shape());
    } else {
      refuse(file_, ".npy header: expected only the keys 'descr', 'fortran_order' and 'shape'; got ", quote(key));
    }
  }

  std::string_view string(std::string_view what) {
    const char mark = peek();
    if (mark != '\'' && mark != '"') fail(what);
    const std::size_t end = text_.find(mark, at_ + 1);
    const std::string_view value = text_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1);
    if (end == std::string_view::npos || value.find('\\') != std::string_view::npos) fail("a plain string without escapes");
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("True or False as the value of 'fortran_order'");
  }

  Dims shape() {
    expect('(', "a tuple of integers as the value of 'shape'");
    std::array<Index, Dims::kMaxRank> extents{};
    std::size_t rank = 0;
    while (!take(')')) {
      if (rank == extents.size())
        refuse(file_, "'shape' has more than ", Dims::kMaxRank, " axes, the most that a tensor here can have");
      extents[rank++] = extent();
      if (take(',')) continue;
      if (rank == 1 && peek() == ')') {
        refuse(file_, "'shape': (", extents[0], ") is a number, not a tuple; one axis is written (", extents[0], ",)");
      }
      expect(')', "',' or ')' in 'shape'");
      break;
    }
    return Dims(std::span<const Index>(extents.data(), rank));
  }

  Index extent() {
    if (peek() == '-') refuse(file_, "'shape': expected no negative extent; got ", quote(text_.substr(at_), 24));
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    Index value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc::result_out_of_range)
      refuse(file_, "'shape': an extent has more than 63 bits: ", quote(text_.substr(at_), 24));
    if (error != std::errc()) fail("an integer in 'shape'");
    if (*begin == '0' && stop - begin > 1) fail("an integer without leading zeros in 'shape'");
    at_ += static_cast<std::size_t>(stop - begin);
    if (at_ < text_.size() && (text_[at_] == 'L' || text_[at_] == 'l')) ++at_;  // Python 2 wrote long integers as 5L
    return value;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  Fields fields_;
};

void parse_descr(std::string_view descr, const std::string& file, NpyHeader& header) {
  const char order = descr.empty() ? '\0' : descr.front();
  const std::string_view code = descr.substr(descr.empty() ? 0 : 1);
  if (code.starts_with('O') || descr == "O") refuse(file, "object array (dtype ", quote(descr), "): pickles are never read");
  if (code == "V2") {
    refuse(file, "dtype ", quote(descr), " is two bytes without a meaning, as bfloat16 arrays are stored by some writers; ",
           "save them as float32, or as BF16 in a .safetensors file");
  }
  for (const Code& known : kCodes) {
    if (known.code != code) continue;
    const bool one_byte = size_of(known.dtype) == 1;
    if (order != '<' && order != '>' && order != '=' && !(order == '|' && one_byte)) break;
    header.dtype = known.dtype;
    header.swapped = !one_byte && order == (std::endian::native == std::endian::little ? '>' : '<');
    return;
  }
  refuse(file, "dtype ", quote(descr),
         " cannot be read; expected '<' or '>' and one of b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, f4, f8");
}

void check_data_size(const ByteSource& source, NpyHeader& header) {
  const auto bits = bits_of(header.shape, 8 * static_cast<unsigned>(size_of(header.dtype)));
  const std::uint64_t rest = source.size() - header.data_begin;
  const std::string what = concat("shape ", to_string(header.shape), " of ", name_of(header.dtype));
  if (!bits) refuse(source.name(), what, " overflows: more bytes than a file can have");
  header.data_bytes = *bits / 8;
  if (rest < header.data_bytes) {
    refuse(source.name(), "truncated: ", what, " takes ", header.data_bytes, " bytes; only ", rest, " follow the header");
  }
  if (rest > header.data_bytes) {
    refuse(source.name(), "trailing bytes: ", what, " takes ", header.data_bytes, " bytes; ", rest, " follow the header");
  }
}

}  // namespace

NpyHeader read_npy_header(const ByteSource& source) {
  refuse_lfs_pointer(source);
  const std::string& file = source.name();
  std::array<unsigned char, 12> head{};  // magic, version, header length: 2 bytes in version 1, 4 bytes after it
  const std::size_t available = static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), head.size()));
  source.read(0, head.data(), available);
  const std::string_view start(reinterpret_cast<const char*>(head.data()), available);
  if (available < kMagic.size() || !start.starts_with(kMagic)) {
    refuse(file, "not a .npy file: expected it to begin with \"\\x93NUMPY\"; got ",
           start.empty() ? "an empty file" : quote(start));
  }
  const std::size_t preamble = start.size() > 6 && head[6] == 1 ? 10 : 12;
  if (available < preamble) refuse(file, "truncated: the file ends within the .npy header's length");
  if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
    refuse(file, ".npy version ", int{head[6]}, ".", int{head[7]}, ": expected 1.0, 2.0 or 3.0");
  }
  std::uint64_t length = 0;
  for (std::size_t i = preamble; i-- > 8;) length = length << 8 | head[i];
  if (length > source.size() - preamble) {
    refuse(file, "truncated: the .npy header takes ", length, " bytes; only ", source.size() - preamble, " follow");
  }
  if (length > kMaxHeaderBytes) refuse(file, "the .npy header takes ", length, " bytes; the limit is ", kMaxHeaderBytes);

  std::string text(static_cast<std::size_t>(length), '\0');
  source.read(preamble, text.data(), text.size());
  const Fields fields = DictParser(text, file).parse();
  NpyHeader header;
  header.fortran_order = *fields.fortran_order;
  header.shape = *fields.shape;
  header.data_begin = preamble + length;
  parse_descr(*fields.descr, file, header);
  check_data_size(source, header);
  return header;
}

std::string npy_header(DType dtype, const Dims& shape) {
  std::string_view code;
  for (const Code& known : kCodes) {
    if (known.dtype == dtype) code = known.code;
  }
  require(!code.empty(), "npy_header: expected a dtype that .npy has a code for; got ", name_of(dtype));
  const char order = size_of(dtype) == 1 ? '|' : std::endian::native == std::endian::little ? '<' : '>';
  std::string dict = concat("{'descr': '", order, code, "', 'fortran_order': False, 'shape': (");
  for (int axis = 0; axis < shape.rank(); ++axis) dict += concat(axis > 0 ? ", " : "", shape[axis]);
  if (shape.rank() == 1) dict += ',';
  dict += "), }";
  constexpr std::size_t kPreamble = 10;
  const std::size_t unpadded = kPreamble + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dict.size() & 0xFFu), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace multihead
