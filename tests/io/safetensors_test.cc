#include <cstdlib>

#include "io/io_testing.h"
#include "multihead/io.h"

namespace multihead::testing {
namespace {

namespace fs = std::filesystem;

Tensor floats(const Dims& shape, float first = 0) {
  Tensor tensor(DType::kF32, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = first + static_cast<float>(i);
  return tensor;
}

// A shard with tensors of one float each, whose value is the length of the name.
void write_shard(const fs::path& path, const std::vector<std::string>& names,
                 const std::map<std::string, std::string>& metadata = {}) {
  std::vector<Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(floats({1}, static_cast<float>(name.size())));
  std::vector<std::pair<std::string, ConstTensorView>> views;
  for (std::size_t i = 0; i < names.size(); ++i) views.emplace_back(names[i], tensors[i]);
  write_safetensors(path, views, metadata);
}

std::string index_of(const std::string& weight_map) {
  return "{\"metadata\": {\"total_size\": 8, \"more\": [1.5, {\"a\": null}]},\n \"weight_map\": " + weight_map + "}\n";
}

TEST(Safetensors, WritesAndReadsEveryDtype) {
  const TempFolder folder;
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, ConstTensorView>> views;
  for (int code = 0; code <= static_cast<int>(DType::kF64); ++code) {
    const auto dtype = static_cast<DType>(code);
    Tensor& tensor = tensors.emplace_back(dtype, Dims{3, 1});
    for (std::size_t i = 0; i < 3 * size_of(dtype); ++i) {
      tensor.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(dtype == DType::kBool ? i % 2 : 41 * i + 7);
    }
  }
  for (const Tensor& tensor : tensors) views.emplace_back(name_of(tensor.dtype()), tensor);
  write_safetensors(folder / "a.safetensors", views, {{"format", "pt"}, {"quote\"", "new\nline é"}});
  const Safetensors file = Safetensors::open(folder / "a.safetensors");
  EXPECT_EQ(file.entries().size(), tensors.size());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"quote\"", "new\nline é"}}));
  for (const Tensor& tensor : tensors) {
    const Tensor back = file.read(std::string(name_of(tensor.dtype())));
    EXPECT_EQ(back.dtype(), tensor.dtype());
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(back.data<void>(), tensor.data<void>(), 3 * size_of(tensor.dtype())), 0) << name_of(tensor.dtype());
    EXPECT_EQ(file.find(std::string(name_of(tensor.dtype())))->begin % size_of(tensor.dtype()), 0u)
        << "aligned to its elements";
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.safetensors"});
}

TEST(Safetensors, BytesOfAFile) {
  const TempFolder folder;
  const std::uint8_t small[] = {7, 8};
  const float wide[] = {1};
  write_safetensors(folder / "a", {{"b", ConstTensorView(small, {2})}, {"é\"", ConstTensorView(wide, {})}}, {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"é\"":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "a"), little_endian(header.size(), 8) + header + bytes_of<float>({1}) + "\x07\x08");
  write_safetensors(folder / "empty", {});
  EXPECT_EQ(read_file(folder / "empty"), little_endian(8, 8) + "{}      ");
  EXPECT_TRUE(Safetensors::open(folder / "empty").entries().empty());
}

TEST(Safetensors, TheSameFileWhateverTheOrderOfTheCaller) {
  const TempFolder folder;
  const Tensor a = floats({2}), b = floats({3}, 5);
  write_safetensors(folder / "1", {{"a", a}, {"b", b}});
  write_safetensors(folder / "2", {{"b", b}, {"a", a}});
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "2"));
}

TEST(Safetensors, RefusesNamesThatCannotBeWritten) {
  const TempFolder folder;
  const Tensor a = floats({2});
  const auto path = folder / "a";
  expect_error<InvalidArgument>(
      [&] {
        write_safetensors(path, {{"a", a}, {"b", a}, {"a", a}});
      },
      {"write_safetensors", "duplicate", "\"a\""});
  expect_error<InvalidArgument>([&] { write_safetensors(path, {{"__metadata__", a}}); }, {"write_safetensors", "reserved"});
  expect_error<InvalidArgument>([&] { write_safetensors(path, {{"\xFF", a}}); }, {"write_safetensors", "UTF-8", "\\xFF"});
  expect_error<InvalidArgument>(
      [&] {
        write_safetensors(path, {}, {{"a", "\xFF"}});
      },
      {"write_safetensors", "metadata", "UTF-8"});
  expect_error<InvalidArgument>(
      [&] {
        write_safetensors(path, {{"n", ConstTensorView(nullptr, DType::kF32, {1})}});
      },
      {"write_safetensors", "\"n\"", "null pointer"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, UnknownNamesAreAnsweredWithTheNearest) {
  const TempFolder folder;
  write_shard(folder / "a", {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.1.attn.c_attn.weight", "wte.weight"});
  const Safetensors file = Safetensors::open(folder / "a");
  EXPECT_EQ(file.find("wte"), nullptr);
  EXPECT_EQ(file.find("zzz"), nullptr);
  expect_error<InvalidArgument>(
      [&] { file.read("transformer.h.0.attn.c_attn.weight"); },
      {"Safetensors::read: no tensor \"transformer.h.0.attn.c_attn.weight\"; nearest of 4: \"h.0.attn.c_attn.weight\""});
  expect_error<InvalidArgument>([&] { file.read(std::string(100'000, 'x')); }, {"no tensor \"xxx"});
  write_safetensors(folder / "none", {});
  expect_error<InvalidArgument>([&] { Safetensors::open(folder / "none").read("a"); }, {"no tensor \"a\"", "no tensors"});
}

TEST(Safetensors, NoticesThatTheFileChangedOrVanished) {
  const TempFolder folder;
  write_shard(folder / "a", {"t"});
  const Safetensors file = Safetensors::open(folder / "a");
  EXPECT_EQ(values_of<float>(file.read("t")), std::vector<float>{1});
  write_shard(folder / "a", {"t"});  // same bytes, another file
  expect_error<IoError>([&] { file.read("t"); }, {"/a:", "changed after it was opened"});
  fs::remove(folder / "a");
  expect_error<IoError>([&] { file.read("t"); }, {"/a:", "No such file"});
}

TEST(Safetensors, OutlivesAChangeOfTheWorkingFolder) {
  const TempFolder folder;
  write_shard(folder / "a", {"t"});
  const fs::path before = fs::current_path();
  fs::current_path(folder / "");
  Safetensors file = Safetensors::open("a");
  fs::current_path(before);
  EXPECT_EQ(values_of<float>(file.read("t")), std::vector<float>{1});
  Safetensors moved = std::move(file);
  EXPECT_EQ(values_of<float>(moved.read("t")), std::vector<float>{1});
}

TEST(Safetensors, OpensOnlyFiles) {
  const TempFolder folder;
  expect_error<IoError>([&] { Safetensors::open(folder / "a.safetensors"); }, {"a.safetensors", "No such file"});
  expect_error<IoError>([&] { Safetensors::open(folder / ""); }, {"expected a regular file", "a folder"});
}

TEST(Shards, AreOneCheckpoint) {
  const TempFolder folder;
  fs::create_directory(folder / "sub");
  write_shard(folder / "1.safetensors", {"z", "aa"}, {{"format", "pt"}});
  write_shard(folder / "sub/2.safetensors", {"mmm"}, {{"format", "other"}});
  write_file(folder / "model.safetensors.index.json",
             index_of(R"({"z": "1.safetensors", "aa": "./1.safetensors", "mmm": "sub/2.safetensors"})"));
  const Safetensors file = Safetensors::open(folder / "model.safetensors.index.json");
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.entries()[0].name, "aa");
  EXPECT_EQ(file.entries()[1].name, "mmm");
  EXPECT_EQ(file.entries()[2].name, "z");
  for (const auto& entry : file.entries()) {
    EXPECT_EQ(values_of<float>(file.read(entry.name)), std::vector<float>{static_cast<float>(entry.name.size())});
  }
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Shards, ThatDisagreeWithTheIndexAreRefused) {
  const TempFolder folder;
  const fs::path index = folder / "model.safetensors.index.json";
  const auto open = [&](const std::string& weight_map) {
    write_file(index, index_of(weight_map));
    Safetensors::open(index);
  };
  write_shard(folder / "1.safetensors", {"a", "b"});
  write_shard(folder / "2.safetensors", {"b", "c"});
  expect_error<IoError>([&] { open(R"({"a": "1.safetensors", "x": "3.safetensors"})"); },
                        {"3.safetensors", "No such file", "shard", "index.json", "\"x\""});
  expect_error<FormatError>([&] { open(R"({"a": "1.safetensors", "x": "1.safetensors"})"); },
                            {"1.safetensors", "tensor \"x\" is missing in this shard", "index.json"});
  expect_error<FormatError>([&] { open(R"({"a": "1.safetensors", "c": "2.safetensors"})"); },
                            {"tensor \"b\" stands in two shards", "1.safetensors", "2.safetensors"});
  write_file(folder / "3.safetensors", little_endian(2, 8) + "{]");
  expect_error<FormatError>([&] { open(R"({"x": "3.safetensors"})"); }, {"3.safetensors", "not valid JSON"});
}

TEST(Shards, NeverLeadOutOfTheFolder) {
  const TempFolder folder;
  fs::create_directory(folder / "in");
  write_shard(folder / "out.safetensors", {"a"});
  const fs::path index = folder / "in/model.safetensors.index.json";
  for (const std::string& shard :
       {(folder / "out.safetensors").string(), "../out.safetensors"s, "x/../../out.safetensors"s, ".."s, ""s}) {
    write_file(index, index_of("{\"a\": \"" + shard + "\"}"));
    expect_error<FormatError>([&] { Safetensors::open(index); },
                              {"index.json", "tensor \"a\"", "inside the index's folder", quote(shard)});
  }
  write_file(index, index_of(R"({"a": "b\u0000c"})"));
  expect_error<FormatError>([&] { Safetensors::open(index); }, {"tensor \"a\"", "b\\x00c"});
}

TEST(Shards, MalformedIndexes) {
  const TempFolder folder;
  const fs::path index = folder / "model.safetensors.index.json";
  const auto refused = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    write_file(index, text);
    expect_error<FormatError>([&] { Safetensors::open(index); }, parts);
    expect_error<FormatError>([&] { Safetensors::open(index); }, {"index.json: "});
  };
  refused("", {"not valid JSON", "end of input"});
  refused("version https://git-lfs.github.com/spec/v1\n", {"Git LFS pointer"});
  refused("[]", {"expected a JSON object", "an array"});
  refused("\"a\"", {"expected a JSON object", "the string \"a\""});
  refused("{}", {"\"weight_map\" is missing"});
  refused(R"({"weight_map": []})", {"\"weight_map\" must be an object", "an array"});
  refused(R"({"weight_map": 1})", {"\"weight_map\" must be an object", "1"});
  refused(R"({"weight_map": {"a": 1}})", {"tensor \"a\"", "must be a string", "1"});
  refused(R"({"weight_map": {"a": ["1"]}})", {"tensor \"a\"", "must be a string", "an array"});
  refused(R"({"weight_map": {"a": "1", "b": "2", "a": "1"}})", {"duplicate tensor \"a\""});
  refused(R"({"weight_map": {}, "weight_map": {}})", {"duplicate \"weight_map\""});
  refused(index_of("{}") + "x", {"not valid JSON"});
  refused("{\"metadata\": " + std::string(100'000, '['), {"nested deeper than 64 levels"});
}

TEST(Safetensors, RealCheckpoint) {
  const char* shared = std::getenv("MULTIHEAD_SHARED_DATA");
  const fs::path path =
      fs::path(shared != nullptr ? shared : MULTIHEAD_SOURCE_DIR "/../shared/data") / "stories260k/model.safetensors";
  if (!fs::exists(path)) GTEST_SKIP() << "no checkpoint " << path << "; MULTIHEAD_SHARED_DATA names its folder's parent";
  const Safetensors file = Safetensors::open(path);
  EXPECT_EQ(file.find("model.layers.0.self_attn.k_proj.weight")->shape, (Dims{32, 64}));
  for (const auto& entry : file.entries()) EXPECT_EQ(file.read(entry.name).shape(), entry.shape);
}

}  // namespace
}  // namespace multihead::testing
