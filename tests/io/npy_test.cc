#include "io/npy.h"

#include <limits>

#include "io/io_testing.h"
#include "io/npy_header.h"
#include "multihead/io.h"

namespace multihead::testing {
namespace {

// A file of the given version whose header is exactly `dict`.
std::string npy(const std::string& dict, const std::string& data, int major = 1) {
  return "\x93NUMPY"s + static_cast<char>(major) + '\0' + little_endian(dict.size(), major == 1 ? 2 : 4) + dict + data;
}

std::string dict(const std::string& descr, const std::string& shape, const char* fortran_order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
}

Tensor parse(const std::string& bytes) { return read_npy(Bytes(bytes, "x.npy")); }

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  expect_error<FormatError>([&] { parse(bytes); }, parts);
  expect_error<FormatError>([&] { parse(bytes); }, {"x.npy: "});
}

const std::string kSixFloats = bytes_of<float>({0, 1, 2, 3, 4, 5});
const std::vector<float> kSix = {0, 1, 2, 3, 4, 5};

TEST(NpyRead, EveryVersion) {
  for (const int version : {1, 2, 3}) {
    const Tensor tensor = parse(npy(dict("<f4", "(2, 3)"), kSixFloats, version));
    EXPECT_EQ(tensor.shape(), (Dims{2, 3}));
    EXPECT_EQ(values_of<float>(tensor), kSix);
  }
  const std::string wide = dict("<f4", "(6,)") + std::string(70'000, ' ') + "\n";
  EXPECT_EQ(values_of<float>(parse(npy(wide, kSixFloats, 2))), kSix) << "header longer than 16 bits count";
}

TEST(NpyRead, HeaderWrittenInOtherWays) {
  for (const char* header : {
           "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
           "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
           "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
           "{ 'descr' : \"<f4\" ,\n\t'fortran_order' : False , 'shape' : ( 2 , 3 , ) , }  \n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
           "{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3), }",
       }) {
    const Tensor tensor = parse(npy(header, kSixFloats));
    EXPECT_EQ(tensor.shape(), (Dims{2, 3})) << header;
    EXPECT_EQ(values_of<float>(tensor), kSix) << header;
  }
}

TEST(NpyRead, EveryDtype) {
  const auto check = [](const char* descr, auto low, auto high) {
    using T = decltype(low);
    const std::string data = bytes_of<T>({low, high});
    std::string reversed;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string element = data.substr(i * sizeof(T), sizeof(T));
      reversed.append(element.rbegin(), element.rend());
    }
    const std::string code = descr;
    EXPECT_EQ(values_of<T>(parse(npy(dict("<" + code, "(2,)"), data))), (std::vector<T>{low, high})) << descr;
    EXPECT_EQ(values_of<T>(parse(npy(dict(">" + code, "(2,)"), reversed))), (std::vector<T>{low, high})) << descr;
    if (sizeof(T) == 1) {
      EXPECT_EQ(values_of<T>(parse(npy(dict("|" + code, "(2,)"), data))), (std::vector<T>{low, high})) << descr;
    }
  };
  check("b1", false, true);
  check("u1", std::uint8_t{1}, std::uint8_t{0xFE});
  check("i1", std::int8_t{1}, std::int8_t{-128});
  check("u2", std::uint16_t{0x0102}, std::uint16_t{0xFFFE});
  check("i2", std::int16_t{0x0102}, std::int16_t{-2});
  check("u4", 0x01020304u, 0xFFFFFFFEu);
  check("i4", 0x01020304, -2);
  check("u8", std::uint64_t{0x0102030405060708}, ~std::uint64_t{1});
  check("i8", std::int64_t{0x0102030405060708}, std::int64_t{-2});
  check("f4", 1.5f, -std::numeric_limits<float>::infinity());
  check("f8", 1.5, -std::numeric_limits<double>::denorm_min());
  const Tensor half = parse(npy(dict(">f2", "(2,)"), "\x3E\x00\xFC\x01"s));
  ASSERT_EQ(half.dtype(), DType::kF16);
  EXPECT_EQ(half.data<Float16>()[0].bits, 0x3E00);
  EXPECT_EQ(half.data<Float16>()[1].bits, 0xFC01) << "a signalling NaN keeps its bits";
}

TEST(NpyRead, ShapesAtTheEdge) {
  EXPECT_EQ(parse(npy(dict("<f4", "()"), bytes_of<float>({7}))).shape(), Dims{});
  EXPECT_EQ(values_of<float>(parse(npy(dict("<f4", "()", "True"), bytes_of<float>({7})))), std::vector<float>{7});
  EXPECT_EQ(parse(npy(dict("<f4", "( )"), bytes_of<float>({7}))).shape(), Dims{});
  EXPECT_EQ(parse(npy(dict("<f4", "(6,)"), kSixFloats)).shape(), Dims{6});
  EXPECT_EQ(parse(npy(dict("<f4", "(0, 3)"), "")).shape(), (Dims{0, 3}));
  EXPECT_EQ(parse(npy(dict("<f4", "(3, 0)", "True"), "")).shape(), (Dims{3, 0}));
  const Index huge = Index{1} << 62;
  EXPECT_EQ(parse(npy(dict("<f4", "(4611686018427387904, 4611686018427387904, 0)", "True"), "")).shape(),
            (Dims{huge, huge, 0}));
  EXPECT_EQ(parse(npy(dict("<f4", "(1, 1, 1, 6, 1, 1, 1, 1)"), kSixFloats)).shape(), (Dims{1, 1, 1, 6, 1, 1, 1, 1}));
}

TEST(NpyRead, FortranOrder) {
  const std::string columns = bytes_of<float>({0, 3, 1, 4, 2, 5});
  EXPECT_EQ(values_of<float>(parse(npy(dict("<f4", "(2, 3)", "True"), columns))), kSix);
  std::string swapped = columns;
  for (std::size_t at = 0; at < swapped.size(); at += 4) std::reverse(&swapped[at], &swapped[at] + 4);
  EXPECT_EQ(values_of<float>(parse(npy(dict(">f4", "(2, 3)", "True"), swapped))), kSix);
  EXPECT_EQ(values_of<float>(parse(npy(dict("<f4", "(6,)", "True"), kSixFloats))), kSix);
  // Rank 4: element [a, b, c, d] of shape (2, 3, 4, 5) lies at a + 2b + 6c + 24d.
  std::string data;
  for (int i = 0; i < 120; ++i) data += bytes_of<std::int32_t>({i});
  const Tensor tensor = parse(npy(dict("<i4", "(2, 3, 4, 5)", "True"), data));
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 4; ++c) {
        for (int d = 0; d < 5; ++d) EXPECT_EQ(tensor.view().at<std::int32_t>(a, b, c, d), a + 2 * b + 6 * c + 24 * d);
      }
    }
  }
}

TEST(NpyRead, BoolsAreZeroOrOne) {
  const Tensor tensor = parse(npy(dict("|b1", "(4,)"), "\x00\x01\x02\xFF"s));
  const auto* bytes = tensor.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(bytes, bytes + 4), (std::vector<int>{0, 1, 1, 1}));
}

TEST(NpyRead, RefusesWhatIsNotNpy) {
  expect_refused("", {"not a .npy file", "empty file"});
  expect_refused("\x93NUM", {"not a .npy file", "\\x93NUM"});
  expect_refused("PK\x03\x04 zip archive", {"not a .npy file", "PK\\x03\\x04"});
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", {"Git LFS pointer", "git lfs pull"});
  expect_refused("\x93NUMPY", {"truncated", "header's length"});
  expect_refused("\x93NUMPY\x01\x00\x05"s, {"truncated", "header's length"});
  expect_refused("\x93NUMPY\x02\x00\x05\x00\x00"s, {"truncated", "header's length"});
  expect_refused(npy(dict("<f4", "(6,)"), kSixFloats, 9), {"version 9.0", "expected 1.0, 2.0 or 3.0"});
  expect_refused("\x93NUMPY\x00\x00 and so on"s, {"version 0.0"});
  expect_refused("\x93NUMPY\x01\x01 and so on"s, {"version 1.1"});
}

TEST(NpyRead, NeverTrustsTheHeadersLength) {
  expect_refused("\x93NUMPY\x01\x00\xFF\xFF{}"s, {"truncated", "header takes 65535 bytes", "only 2 follow"});
  expect_refused("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}"s, {"truncated", "header takes 4294967295 bytes", "only 2 follow"});
  expect_refused(npy("{}" + std::string(1 << 20, ' '), "", 2), {"header takes 1048578 bytes", "the limit is 1048576"});
  expect_refused(npy("", ""), {"expected a Python dict", "the end of the header"});
}

TEST(NpyRead, RefusesSizesThatDisagree) {
  const std::string whole = npy(dict("<f4", "(2, 3)"), kSixFloats);
  expect_refused(whole.substr(0, whole.size() - 1), {"truncated", "[2, 3] of f32", "24 bytes", "only 23"});
  expect_refused(whole + "x", {"trailing bytes", "[2, 3] of f32", "24 bytes", "25 follow"});
  expect_refused(npy(dict("<f4", "(0, 3)"), "x"), {"trailing bytes", "[0, 3]", "0 bytes", "1 follow"});
  expect_refused(npy(dict("|u1", "(3000000000,)"), "short"), {"truncated", "[3000000000] of u8", "3000000000 bytes", "only 5"});
  expect_refused(npy(dict("<f4", "(4294967296, 4294967296)"), ""), {"[4294967296, 4294967296] of f32", "overflows"});
  expect_refused(npy(dict("<f8", "(1152921504606846976,)"), ""), {"[1152921504606846976] of f64", "overflows"});
  expect_refused(npy(dict("<f8", "(9223372036854775807, 2)"), ""), {"overflows"});
  expect_refused(npy(dict("|u1", "(2305843009213693951,)"), ""), {"truncated", "2305843009213693951 bytes", "only 0"});
  expect_refused(npy(dict("<f8", "(9223372036854775808,)"), ""), {"'shape'", "more than 63 bits", "9223372036854775808"});
}

TEST(NpyRead, RefusesShapesByName) {
  const auto with_shape = [](const char* shape) { return npy(dict("|u1", shape), ""); };
  expect_refused(with_shape("(184)"), {"'shape': (184) is a number, not a tuple", "(184,)"});
  expect_refused(with_shape("(np.int64(1), 2)"), {"expected an integer in 'shape'", "np.int64(1)"});
  expect_refused(with_shape("(2, -1)"), {"'shape': expected no negative extent", "-1"});
  expect_refused(with_shape("[2, 3]"), {"expected a tuple of integers as the value of 'shape'", "[2, 3]"});
  expect_refused(with_shape("2"), {"expected a tuple"});
  expect_refused(with_shape("None"), {"expected a tuple"});
  expect_refused(with_shape("(,)"), {"expected an integer in 'shape'"});
  expect_refused(with_shape("(2,,3)"), {"expected an integer in 'shape'"});
  expect_refused(with_shape("(2 3)"), {"expected ',' or ')' in 'shape'"});
  expect_refused(with_shape("(2.0, 3)"), {"expected ',' or ')' in 'shape'", ".0"});
  expect_refused(with_shape("(2, 3"), {"expected an integer in 'shape'", "}"});
  expect_refused(with_shape("(+2, 3)"), {"expected an integer in 'shape'"});
  expect_refused(with_shape("(02, 3)"), {"without leading zeros"});
  expect_refused(with_shape("(True, 3)"), {"expected an integer in 'shape'"});
  expect_refused(with_shape("(0x2, 3)"), {"expected ',' or ')' in 'shape'"});
  expect_refused(with_shape("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), {"'shape' has more than 8 axes"});
}

TEST(NpyRead, RefusesDtypesByName) {
  const auto with_descr = [](const char* descr) { return npy(dict(descr, "(1,)"), "\0\0\0\0"s); };
  expect_refused(with_descr("|O"), {"object array", "\"|O\"", "pickles are never read"});
  expect_refused(with_descr("O"), {"object array"});
  expect_refused(with_descr("|V2"), {"\"|V2\"", "bfloat16", "float32", "BF16"});
  expect_refused(with_descr("<V2"), {"\"<V2\"", "bfloat16"});
  for (const char* descr :
       {"<c8", "<f16", "<U4", "|S4", "<M8[ns]", "|V4", "<f3", "<i16", "", "<", "f4", "float32", "|f4", "|i8", "<f4 ", "b"}) {
    expect_refused(with_descr(descr), {"dtype " + quote(descr), "cannot be read", "f2, f4, f8"});
  }
  for (const char* descr : {"[('x', '<f4'), ('y', '<f4')]", "('<f4', (2,))", "[]"}) {
    expect_refused(npy("{'descr': "s + descr + ", 'fortran_order': False, 'shape': (1,), }", ""),
                   {"structured dtype in 'descr'"});
  }
}

TEST(NpyRead, RefusesDictsThatAreNotTheHeaders) {
  const auto with_dict = [](const std::string& text) { return npy(text, "\0"s); };
  expect_refused(with_dict("{}"), {"the key 'descr' is missing"});
  expect_refused(with_dict("{'descr': '|u1', 'shape': (1,)}"), {"the key 'fortran_order' is missing"});
  expect_refused(with_dict("{'descr': '|u1', 'fortran_order': False}"), {"the key 'shape' is missing"});
  expect_refused(with_dict("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}"),
                 {"'descr' stands there twice"});
  expect_refused(with_dict("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'fortran_order': True}"),
                 {"'fortran_order' stands there twice"});
  expect_refused(with_dict("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}"),
                 {"'shape' stands there twice"});
  expect_refused(with_dict("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'more': 1}"),
                 {"expected only the keys", "\"more\""});
  for (const char* value : {"0", "true", "'True'", "None", ""}) {
    expect_refused(with_dict("{'descr': '|u1', 'shape': (1,), 'fortran_order': "s + value + "}"),
                   {"expected True or False", "'fortran_order'"});
  }
  const std::string good = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}";
  expect_refused(with_dict(good + " x"), {"expected only blanks after the dict", "\"x\""});
  expect_refused(with_dict(good + "\0"s), {"expected only blanks after the dict", "\\x00"});
  expect_refused(with_dict(good.substr(0, good.size() - 1)), {"expected ',' or '}' after a value", "the end of the header"});
  expect_refused(with_dict("\xEF\xBB\xBF" + good), {"expected a Python dict"});
  expect_refused(with_dict("(1, 2)"), {"expected a Python dict"});
  expect_refused(with_dict("{'descr' '|u1'}"), {"expected ':' after a key"});
  expect_refused(with_dict("{descr: '|u1'}"), {"expected a key in quotes", "descr"});
  expect_refused(with_dict("{,}"), {"expected a key in quotes"});
  expect_refused(with_dict("{'descr': '|u1"), {"expected a plain string"});
  expect_refused(with_dict("{'descr': '|u1\"}"), {"expected a plain string"});
  expect_refused(with_dict("{'descr': '\\x7Cu1'}"), {"without escapes"});
  expect_refused(with_dict("{'descr': u'|u1'}"), {"expected a dtype in quotes", "'descr'"});
  expect_refused(with_dict("{'descr': 1}"), {"expected a dtype in quotes"});
  expect_refused(with_dict(std::string(60'000, '{')), {"expected a key in quotes"});
  expect_refused(with_dict("{'shape': " + std::string(60'000, '(')), {"expected an integer in 'shape'"});
}

TEST(NpyWrite, HeaderIsWhatNumpyWouldRead) {
  const auto header = [](const Dims& shape) { return npy_header(DType::kF32, shape); };
  EXPECT_TRUE(header({}).find("'shape': (), }") != std::string::npos);
  EXPECT_TRUE(header({5}).find("'shape': (5,), }") != std::string::npos);
  EXPECT_TRUE(header({5, 0, 7}).find("'shape': (5, 0, 7), }") != std::string::npos);
  const Dims longest{INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{123456, 1}, longest}) {
    EXPECT_EQ(header(shape).size() % 64, 0u);
    EXPECT_EQ(header(shape).back(), '\n');
  }
  EXPECT_EQ(header({2, 3}), "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s +
                                std::string(58, ' ') + "\n");
}

TEST(NpyWrite, EveryDtypeComesBack) {
  const TempFolder folder;
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kU32, DType::kI32,
                            DType::kU64, DType::kI64, DType::kF16, DType::kF32, DType::kF64}) {
    Tensor tensor(dtype, {2, 3});
    for (std::size_t i = 0; i < 6 * size_of(dtype); ++i) {
      tensor.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(dtype == DType::kBool ? i % 2 : 37 * i + 1);
    }
    write_npy(folder / "a.npy", tensor);
    const Tensor back = read_npy(folder / "a.npy");
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(back.data<void>(), tensor.data<void>(), 6 * size_of(dtype)), 0) << name_of(dtype);
  }
}

TEST(NpyWrite, Bf16IsWidenedExactly) {
  const TempFolder folder;
  constexpr Index kCount = 70'000;  // more than one block of the conversion
  Tensor tensor(DType::kBF16, {kCount});
  for (Index i = 0; i < kCount; ++i) tensor.data<BFloat16>()[i] = BFloat16::from_bits(static_cast<std::uint16_t>(i));
  write_npy(folder / "a.npy", tensor.view().slice(0, 1, kCount));
  const Tensor back = read_npy(folder / "a.npy");
  ASSERT_EQ(back.dtype(), DType::kF32);
  for (Index i = 1; i < kCount; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(back.data<float>()[i - 1]);
    ASSERT_EQ(bits, static_cast<std::uint32_t>(static_cast<std::uint16_t>(i)) << 16);
  }
}

TEST(NpyWrite, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  const float value = 1;
  expect_error<InvalidArgument>([&] { write_npy(folder / "a", ConstTensorView(&value, {-1})); },
                                {"write_npy", "negative extent", "[-1]"});
  expect_error<InvalidArgument>([&] { write_npy(folder / "a", ConstTensorView(nullptr, DType::kF32, {2})); },
                                {"write_npy", "null pointer"});
  expect_error<InvalidArgument>(
      [&] {
        write_npy(folder / "a", ConstTensorView(&value, {INT64_MAX, INT64_MAX}));
      },
      {"write_npy", "too many bytes"});
  EXPECT_TRUE(folder.names().empty());
  write_npy(folder / "empty.npy", ConstTensorView(nullptr, DType::kF32, {2, 0}));
  EXPECT_EQ(read_npy(folder / "empty.npy").shape(), (Dims{2, 0}));
  expect_error<IoError>([&] { read_npy(folder / "missing.npy"); }, {"missing.npy", "No such file"});
}

}  // namespace
}  // namespace multihead::testing
