#include "io/safetensors_header.h"

#include "io/io_testing.h"
#include "io/safetensors_types.h"

namespace multihead::testing {
namespace {

std::string file_of(const std::string& header, const std::string& data = "") {
  return little_endian(header.size(), 8) + header + data;
}

SafetensorsHeader parse(const std::string& bytes) { return read_safetensors_header(Bytes(bytes, "x.safetensors")); }

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  expect_error<FormatError>([&] { parse(bytes); }, parts);
  expect_error<FormatError>([&] { parse(bytes); }, {"x.safetensors: "});
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

// One tensor "t" whose entry is otherwise right.
std::string with_shape(const std::string& shape, const std::string& offsets, std::size_t data_bytes) {
  return file_of("{" + entry("t", "F32", shape, offsets) + "}", std::string(data_bytes, 'd'));
}

Tensor read(const std::string& bytes, std::size_t index = 0) {
  const Bytes source(bytes);
  const SafetensorsHeader header = read_safetensors_header(source);
  return read_safetensors_entry(source, header.data_begin, header.entries.at(index));
}

TEST(SafetensorsHeader, FilesWithoutTensors) {
  for (const char* header : {"{}", "{}      ", " \t\r\n{}", "{}\n", "{\"__metadata__\":{}}"}) {
    EXPECT_TRUE(parse(file_of(header)).entries.empty()) << header;
  }
  const auto metadata = parse(file_of(R"({"__metadata__":{"format":"pt","\u00e9":"\"","":""}})")).metadata;
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"é", "\""}, {"", ""}}));
}

TEST(SafetensorsHeader, ShapesAndOrder) {
  const std::string floats = bytes_of<float>({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(read(file_of("{" + entry("t", "F32", "[]", "[0,4]") + "}", floats.substr(0, 4))).shape(), Dims{});
  EXPECT_EQ(values_of<float>(read(file_of("{" + entry("t", "F32", "[2,3]", "[0,24]") + "}", floats))),
            (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(file_of("{" + entry("t", "F32", "[2,0]", "[0,0]") + "}")).shape(), (Dims{2, 0}));
  EXPECT_EQ(read(file_of("{" + entry("t", "F32", "[9223372036854775807,9223372036854775807,0]", "[0,0]") + "}")).size(), 0);
  // Zero-size tensors share the place of a neighbour, and entries need not lie in the data's order.
  const auto header = parse(file_of("{" + entry("b", "F32", "[2]", "[4,12]") + "," + entry("z", "F32", "[0]", "[4,4]") + "," +
                                        entry("a", "F32", "[1]", "[0,4]") + "}",
                                    floats.substr(0, 12)));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[1].name, "b");
  EXPECT_EQ(header.entries[1].begin, 4u);
  EXPECT_EQ(header.entries[2].name, "z");
}

TEST(SafetensorsHeader, Names) {
  const auto header =
      parse(file_of("{" + entry("", "U8", "[0]", "[0,0]") + "," + entry("\\u00e9\\\"\\n", "U8", "[0]", "[0,0]") + "," +
                    entry("日本", "U8", "[0]", "[0,0]") + "}"));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "");
  EXPECT_EQ(header.entries[1].name, "é\"\n");
  EXPECT_EQ(header.entries[2].name, "日本");
}

TEST(SafetensorsHeader, EveryDtype) {
  const std::vector<std::pair<std::string, std::size_t>> bits_of_8 = {
      {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8},     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F16", 16},    {"BF16", 16},   {"I32", 32}, {"U32", 32}, {"F32", 32},
      {"C64", 64},        {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto& [name, bits] : bits_of_8) {
    const std::string bytes =
        file_of("{" + entry("t", name, "[8]", "[0," + std::to_string(bits) + "]") + "}", std::string(bits, '\1'));
    const auto header = parse(bytes);
    EXPECT_EQ(header.entries.at(0).dtype_name, name);
    if (header.entries[0].dtype) {
      EXPECT_EQ(read(bytes).dtype(), *header.entries[0].dtype);
      EXPECT_EQ(safetensors_name(*header.entries[0].dtype), name);
    } else {
      expect_error<FormatError>([&] { read(bytes); }, {"\"t\"", "dtype " + name, "cannot be read"});
    }
  }
  expect_refused(file_of("{" + entry("t", "F4", "[3]", "[0,2]") + "}", "dd"),
                 {"\"t\"", "[3] of F4", "does not fill whole bytes"});
}

TEST(SafetensorsHeader, UnalignedData) {
  const std::string data = bytes_of<double>({1.5, -2.5});
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const std::string header = "{" + entry("t", "F64", "[2]", "[0,16]") + "}" + std::string(padding, ' ');
    EXPECT_EQ(values_of<double>(read(file_of(header, data))), (std::vector<double>{1.5, -2.5}));
  }
  const std::string mixed = "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("t", "F64", "[2]", "[1,17]") + "}";
  EXPECT_EQ(values_of<double>(read(file_of(mixed, "x" + data), 1)), (std::vector<double>{1.5, -2.5}));
}

TEST(SafetensorsHeader, BoolsAreZeroOrOne) {
  const Tensor tensor = read(file_of("{" + entry("t", "BOOL", "[4]", "[0,4]") + "}", "\x00\x01\x02\xFF"s));
  const auto* bytes = tensor.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(bytes, bytes + 4), (std::vector<int>{0, 1, 1, 1}));
}

TEST(SafetensorsHeader, NeverTrustsTheLength) {
  expect_refused("", {"too short", "at least 8 bytes; got 0"});
  expect_refused("1234567", {"too short", "got 7"});
  expect_refused(little_endian(0, 8), {"empty header"});
  expect_refused(little_endian(3, 8) + "{}", {"truncated", "header takes 3 bytes", "only 2 follow"});
  expect_refused(little_endian(100'000'000, 8) + "{}", {"truncated", "header takes 100000000 bytes", "only 2 follow"});
  expect_refused(little_endian(100'000'001, 8) + "{}", {"header too large", "100000001", "the limit is 100000000"});
  expect_refused(little_endian(UINT64_MAX, 8) + "{}", {"header too large", "18446744073709551615"});
  expect_refused(little_endian(std::uint64_t{1} << 63, 8) + "{}", {"header too large", "9223372036854775808"});
  expect_refused("PK\x03\x04 a zip archive", {"header too large", "not a safetensors file?", "PK\\x03\\x04"});
}

TEST(SafetensorsHeader, NamesGitLfsPointers) {
  expect_refused(
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
      {"Git LFS pointer", "git lfs pull"});
}

TEST(SafetensorsHeader, RefusesWhatIsNotJson) {
  expect_refused(file_of("{\"\xFF\":1}"), {"not valid JSON at byte", "UTF-8"});
  expect_refused(file_of("{\"a\":\"\xED\xA0\x80\"}"), {"not valid JSON at byte", "UTF-8"});
  expect_refused(file_of("\xEF\xBB\xBF{}"), {"byte order mark"});
  expect_refused(file_of("{}\0\0\0"s), {"NUL byte", "byte 2", "padding must be spaces"});
  expect_refused(file_of("\0{}"s), {"NUL byte"});
  expect_refused(file_of("{}{}"), {"not valid JSON at byte 3"});
  expect_refused(file_of("{} x"), {"not valid JSON at byte 4"});
  expect_refused(file_of("{"), {"not valid JSON", "unexpected end of input"});
  expect_refused(file_of("   "), {"not valid JSON", "unexpected end of input"});
  expect_refused(file_of("{\"a\":"), {"not valid JSON", "unexpected end of input"});
  expect_refused(file_of("{'a':1}"), {"not valid JSON"});
  expect_refused(file_of("{/**/}"), {"not valid JSON"});
  expect_refused(file_of("{\"\\ud800\":{}}"), {"not valid JSON", "surrogate"});
  expect_refused(file_of("{\"a\nb\":{}}"), {"not valid JSON", "control character"});
  expect_refused(file_of("{" + entry("t", "U8", "[0]", "[0,0]") + ",}"), {"not valid JSON"});
  expect_refused(file_of("{" + entry("t", "U8", "[0,]", "[0,0]") + "}"), {"not valid JSON"});
  expect_refused(file_of("{" + entry("t", "U8", "[00]", "[0,0]") + "}"), {"not valid JSON"});
  expect_refused(file_of("{" + entry("t", "U8", "[1e999]", "[0,0]") + "}"), {"not valid JSON", "number overflow"});
  expect_refused(file_of("{\"" + std::string(100'000, 'x')), {"not valid JSON"});
}

TEST(SafetensorsHeader, RefusesOtherStructures) {
  expect_refused(file_of("[]"), {"header must be a JSON object", "an array"});
  expect_refused(file_of("7"), {"header must be a JSON object", "7"});
  expect_refused(file_of("null"), {"header must be a JSON object", "null"});
  expect_refused(file_of("\"{}\""), {"header must be a JSON object", "the string \"{}\""});
  expect_refused(file_of(R"({"t":1})"), {"tensor \"t\"", "must be an object", "1"});
  expect_refused(file_of(R"({"t":["F32",[1],[0,4]]})"), {"tensor \"t\"", "must be an object", "an array"});
  expect_refused(file_of(R"({"t":null})"), {"tensor \"t\"", "must be an object", "null"});
  expect_refused(file_of(R"({"t":{}})"), {"tensor \"t\"", "\"dtype\" is missing"});
  expect_refused(file_of(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})"), {"tensor \"t\"", "\"shape\" is missing"});
  expect_refused(file_of(R"({"t":{"dtype":"F32","shape":[1]}})"), {"tensor \"t\"", "\"data_offsets\" is missing"});
  expect_refused(file_of(R"({"t":{"dtype":"F32","strides":[1]}})"), {"tensor \"t\"", "unknown key \"strides\""});
  expect_refused(file_of(std::string(1'000'000, '[')), {"header must be a JSON object"});
  expect_refused(file_of("{\"t\":" + std::string(1'000'000, '{')), {"not valid JSON"});
  expect_refused(file_of("{\"t\":{\"shape\":" + std::string(1'000'000, '[')), {"tensor \"t\"", "\"shape\"", "an array"});
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"t\":";
  expect_refused(file_of(nested), {"tensor \"t\"", "unknown key \"t\""});
}

TEST(SafetensorsHeader, RefusesDuplicates) {
  const std::string once = entry("t", "U8", "[1]", "[0,1]");
  expect_refused(file_of("{" + once + "," + once + "}", "d"), {"tensor \"t\"", "duplicate"});
  expect_refused(file_of("{" + entry("t", "U8", "[1]", "[0,1]") + "," + entry("\\u0074", "U8", "[1]", "[1,2]") + "}", "dd"),
                 {"tensor \"t\"", "duplicate"});
  expect_refused(file_of(R"({"t":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                 {"tensor \"t\"", "duplicate key \"dtype\""});
  expect_refused(file_of(R"({"t":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})"),
                 {"tensor \"t\"", "duplicate key \"shape\""});
  expect_refused(file_of(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"data_offsets":[0,0]}})"),
                 {"tensor \"t\"", "duplicate key \"data_offsets\""});
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"duplicate __metadata__"});
  expect_refused(file_of(R"({"__metadata__":{"a":"1","a":"1"}})"), {"__metadata__", "duplicate key \"a\""});
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNotStrings) {
  expect_refused(file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__", "\"a\" must be a string", "1"});
  expect_refused(file_of(R"({"__metadata__":{"a":null}})"), {"__metadata__", "\"a\" must be a string", "null"});
  expect_refused(file_of(R"({"__metadata__":{"a":{}}})"), {"__metadata__", "\"a\" must be a string", "an object"});
  expect_refused(file_of(R"({"__metadata__":[]})"), {"__metadata__ must be an object of strings", "an array"});
  expect_refused(file_of(R"({"__metadata__":"pt"})"), {"__metadata__ must be an object of strings", "\"pt\""});
  expect_refused(file_of(R"({"__metadata__":null})"), {"__metadata__ must be an object of strings", "null"});
}

TEST(SafetensorsHeader, RefusesValuesOfTheWrongKind) {
  expect_refused(file_of(R"({"t":{"dtype":7}})"), {"tensor \"t\"", "\"dtype\" must be a string", "7"});
  expect_refused(file_of(R"({"t":{"dtype":["F32"]}})"), {"tensor \"t\"", "\"dtype\" must be a string", "an array"});
  for (const char* dtype : {"f32", "", "F128", "F32 ", "float32"}) {
    expect_refused(file_of("{" + entry("t", dtype, "[1]", "[0,4]") + "}", "dddd"),
                   {"tensor \"t\"", "unknown dtype " + quote(dtype)});
  }
  for (const char* number : {"16.0", "1.6e1", "-16", "-0", "true", "null", "18446744073709551616", "1e30"}) {
    expect_refused(with_shape("["s + number + "]", "[0,64]", 64),
                   {"tensor \"t\"", "\"shape\" must be an array of non-negative integers"});
    expect_refused(with_shape("[16]", "[0,"s + number + "]", 64),
                   {"tensor \"t\"", "\"data_offsets\" must be two non-negative integers"});
  }
  expect_refused(with_shape("[16.0]", "[0,64]", 64), {"got 16.0"});
  expect_refused(with_shape("[-1]", "[0,64]", 64), {"got -1"});
  expect_refused(with_shape("16", "[0,64]", 64), {"tensor \"t\"", "\"shape\" must be an array", "16"});
  expect_refused(with_shape("{}", "[0,64]", 64), {"tensor \"t\"", "\"shape\" must be an array", "an object"});
  expect_refused(with_shape("[[16]]", "[0,64]", 64), {"tensor \"t\"", "\"shape\" must be an array", "an array"});
  expect_refused(with_shape("[\"16\"]", "[0,64]", 64), {"tensor \"t\"", "\"shape\" must be an array", "the string \"16\""});
  expect_refused(with_shape("[16]", "[\"0\",\"64\"]", 64),
                 {"tensor \"t\"", "\"data_offsets\" must be two", "the string \"0\""});
  expect_refused(with_shape("[16]", "[0]", 64), {"tensor \"t\"", "\"data_offsets\" must be [BEGIN, END]", "1 values"});
  expect_refused(with_shape("[16]", "[]", 64), {"tensor \"t\"", "\"data_offsets\" must be [BEGIN, END]", "0 values"});
  expect_refused(with_shape("[16]", "[0,64,64]", 64), {"tensor \"t\"", "\"data_offsets\" must be [BEGIN, END]", "3 values"});
  expect_refused(with_shape("[1,1,1,1,1,1,1,1,1]", "[0,4]", 4), {"tensor \"t\"", "\"shape\" has more than 8 axes"});
}

TEST(SafetensorsHeader, RefusesSizesThatDisagree) {
  const std::string small = R"({"t":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})";
  expect_refused(file_of(small, "dddd"), {"tensor \"t\"", "size mismatch", "[1000, 1000] of F32", "4000000 bytes", "[0, 4]"});
  expect_refused(file_of("{" + entry("t", "F64", "[4]", "[0,16]") + "}", std::string(16, 'd')),
                 {"tensor \"t\"", "size mismatch", "32 bytes"});
  expect_refused(with_shape("[0]", "[0,4]", 4), {"tensor \"t\"", "size mismatch", "0 bytes"});
  expect_refused(with_shape("[2,18446744073709551614]", "[0,4]", 4), {"tensor \"t\"", "overflows", "18446744073709551614"});
  expect_refused(with_shape("[2,9223372036854775807]", "[0,4]", 4), {"tensor \"t\"", "overflows"});
  expect_refused(with_shape("[8589934592,8589934592]", "[0,4]", 4), {"tensor \"t\"", "overflows", "[8589934592, 8589934592]"});
  expect_refused(with_shape("[2305843009213693952]", "[0,9223372036854775808]", 4), {"tensor \"t\"", "overflows"});
}

TEST(SafetensorsHeader, RefusesDataThatDoNotCover) {
  const auto two = [](const char* first, const char* second, std::size_t data_bytes) {
    return file_of("{" + entry("a", "U8", "[2]", first) + "," + entry("b", "U8", "[2]", second) + "}",
                   std::string(data_bytes, 'd'));
  };
  EXPECT_EQ(parse(two("[0,2]", "[2,4]", 4)).entries.size(), 2u);
  EXPECT_EQ(parse(two("[2,4]", "[0,2]", 4)).entries.size(), 2u);
  expect_refused(two("[0,2]", "[3,5]", 5), {"tensor \"b\"", "hole", "begin at 3", "end at 2"});
  expect_refused(two("[1,3]", "[3,5]", 5), {"tensor \"a\"", "hole", "begin at 1", "end at 0"});
  expect_refused(two("[0,2]", "[1,3]", 3), {"tensor \"b\"", "overlap", "begin at 1", "end at 2"});
  expect_refused(two("[0,2]", "[0,2]", 2), {"overlap", "begin at 0", "end at 2"});
  expect_refused(two("[0,2]", "[4,2]", 4), {"tensor \"b\"", "run backward", "[4, 2]"});
  expect_refused(two("[0,2]", "[2,4]", 3), {"tensor \"b\"", "truncated", "end at 4", "3 bytes"});
  expect_refused(two("[0,2]", "[2,4]", 2), {"tensor \"b\"", "truncated", "end at 4", "2 bytes"});
  expect_refused(two("[0,2]", "[2,4]", 5), {"trailing bytes", "end at 4", "5 bytes"});
  expect_refused(file_of("{}", "d"), {"trailing bytes", "end at 0", "1 bytes"});
  expect_refused(two("[0,2]", "[18446744073709551613,18446744073709551615]", 4), {"tensor \"b\"", "hole"});
  expect_refused(file_of("{" + entry("a", "U8", "[0]", "[5,5]") + "}"), {"tensor \"a\"", "hole", "begin at 5"});
}

TEST(SafetensorsHeader, LongAndHostileNamesFitOneLine) {
  const std::string name = std::string(5000, 'n') + "\\n\\u0000\\u001b[31m";
  expect_refused(file_of("{" + entry(name, "F33", "[1]", "[0,4]") + "}"), {"tensor \"nnn", "… (50", "unknown dtype \"F33\""});
  expect_refused(file_of("{" + entry("a\\nb\\u001b", std::string(5000, 'x'), "[1]", "[0,4]") + "}"),
                 {"tensor \"a\\x0Ab\\x1B\"", "unknown dtype"});
  expect_refused(with_shape("[" + std::string(5000, '9') + "]", "[0,4]", 4), {"not valid JSON", "number overflow"});
  expect_refused(with_shape("[0." + std::string(5000, '9') + "]", "[0,4]", 4), {"tensor \"t\"", "got 0.999"});
}

TEST(SafetensorsHeader, ManyEntriesTakeBoundedTimeAndMemory) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) header += (i > 0 ? "," : "") + entry("t" + std::to_string(i), "U8", "[0]", "[0,0]");
  EXPECT_EQ(parse(file_of(header + "}")).entries.size(), 100'000u);
  std::string metadata = "{\"__metadata__\":{";
  for (int i = 0; i <= 1'000'000; ++i) metadata += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  expect_refused(file_of(metadata + "}}"), {"__metadata__ has more than 1000000 pairs"});
}

}  // namespace
}  // namespace multihead::testing
