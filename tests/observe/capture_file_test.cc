// Captures as files: back to the last bit, or refused by name.
#include "io/io_testing.h"
#include "multihead/io.h"
#include "observe_testing.h"

namespace multihead::test {
namespace {

using testing::read_file;
using testing::TempFolder;
using testing::write_file;

void expect_equal(const Capture& a, const Capture& b) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    if (x.rank() == 0 || y.rank() == 0) return x.rank() == y.rank();
    return bool(same_bits(x, y));
  };
  EXPECT_TRUE(same(a.query, b.query));
  EXPECT_TRUE(same(a.key, b.key));
  EXPECT_TRUE(same(a.lse, b.lse));
  EXPECT_TRUE(same(a.value, b.value));
  EXPECT_TRUE(same(a.output, b.output));
  EXPECT_TRUE(same(a.output_weight, b.output_weight));
  const AttentionOptions &x = a.options, &y = b.options;
  EXPECT_EQ(x.scale, y.scale);
  EXPECT_EQ(x.softcap, y.softcap);
  EXPECT_EQ(x.causal, y.causal);
  EXPECT_EQ(x.top_left, y.top_left);
  EXPECT_EQ(x.query_offsets, y.query_offsets);
  EXPECT_EQ(x.key_lengths, y.key_lengths);
  EXPECT_EQ(x.alibi_slopes, y.alibi_slopes);
  EXPECT_EQ(x.sinks, y.sinks);
  ASSERT_EQ(x.window.has_value(), y.window.has_value());
  if (x.window) {
    EXPECT_EQ(x.window->left, y.window->left);
    EXPECT_EQ(x.window->right, y.window->right);
  }
  ASSERT_EQ(x.packed.has_value(), y.packed.has_value());
  if (x.packed) {
    EXPECT_EQ(x.packed->query_starts, y.packed->query_starts);
    EXPECT_EQ(x.packed->key_starts, y.packed->key_starts);
  }
  ASSERT_EQ(x.mask.has_value(), y.mask.has_value());
  if (x.mask) {
    EXPECT_TRUE(same_bits(Tensor::copy_of(*x.mask), Tensor::copy_of(*y.mask)));
  }
  ASSERT_EQ(x.attention_bias.has_value(), y.attention_bias.has_value());
  if (x.attention_bias) {
    EXPECT_TRUE(same_bits(Tensor::copy_of(*x.attention_bias), Tensor::copy_of(*y.attention_bias)));
  }
  EXPECT_EQ(a.labels.name, b.labels.name);
  EXPECT_EQ(a.labels.model, b.labels.model);
  EXPECT_EQ(a.labels.layer, b.labels.layer);
  EXPECT_EQ(a.labels.positions, b.labels.positions);
  EXPECT_EQ(a.labels.query_tokens, b.labels.query_tokens);
  EXPECT_EQ(a.labels.key_tokens, b.labels.key_tokens);
}

TEST(CaptureFile, EveryKindOfCallComesBackToTheLastBit) {
  const TempFolder folder;
  for_each_combination(1, 909, [&](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    const Capture capture = capture_of(problem);
    save_capture(folder / "c.safetensors", capture);
    const Capture again = load_capture(folder / "c.safetensors");
    expect_equal(capture, again);
    EXPECT_EQ(AttentionMap(std::make_shared<const Capture>(again.copy())).row(0, 0).log2,
              AttentionMap(std::make_shared<const Capture>(capture.copy())).row(0, 0).log2);
  });
  EXPECT_EQ(folder.names(), std::vector<std::string>{"c.safetensors"}) << "nothing is left beside the file";
}

Capture labelled() {
  Problem problem = causal_problem(2, 5, 3, 1);
  problem.options.scale = 0.1f;
  problem.bias = grid({2, 9}, 2);
  problem.options.attention_bias = ConstTensorView(problem.bias.data<float>() + 4, DType::kF32, {1, 2, 5, 5}, {0, 9, -1, 1});
  Capture capture = capture_of(problem);
  capture.output_weight = grid({4, 6}, 3, DType::kF16);
  capture.labels = {"model.layers.3", "tiny", 3, "rotary", {"a", "б", "字", "\"", "\n"}, {"a", "б", "字", "\"", ""}};
  return capture;
}

TEST(CaptureFile, LabelsAndOverlappingBiasesToo) {
  const TempFolder folder;
  const Capture capture = labelled();
  save_capture(folder / "c.safetensors", capture);
  expect_equal(capture, load_capture(folder / "c.safetensors"));
}

TEST(CaptureFile, SavingRefusesWhatDoesNotFit) {
  const TempFolder folder;
  Capture capture = labelled();
  capture.labels.name = "\xFF";
  EXPECT_NE(refusal_of([&] { save_capture(folder / "c.safetensors", capture); }).find("UTF-8"), std::string::npos);
  capture = labelled();
  capture.lse = Tensor(DType::kF32, {1, 2, 4});
  EXPECT_NE(refusal_of([&] { save_capture(folder / "c.safetensors", capture); }).find("lse"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

std::string refused(const std::filesystem::path& path) {
  try {
    load_capture(path);
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find(path.filename().string()), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected FormatError";
  return "";
}

// The file's tensors and metadata, one thing changed.
std::string refused_when(
    const std::function<void(std::map<std::string, Tensor>&, std::map<std::string, std::string>&)>& change) {
  const TempFolder folder;
  save_capture(folder / "c.safetensors", labelled());
  const Safetensors file = Safetensors::open(folder / "c.safetensors");
  std::map<std::string, Tensor> tensors;
  for (const SafetensorsEntry& entry : file.entries()) tensors[entry.name] = file.read(entry.name);
  std::map<std::string, std::string> metadata = file.metadata();
  change(tensors, metadata);
  std::vector<std::pair<std::string, ConstTensorView>> views;
  for (const auto& [name, tensor] : tensors) views.emplace_back(name, tensor);
  write_safetensors(folder / "changed.safetensors", views, metadata);
  return refused(folder / "changed.safetensors");
}

std::string refused_options(const std::string& options) {
  return refused_when([&](auto&, auto& metadata) { metadata["options"] = options; });
}

void expect_text(const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

TEST(CaptureFile, ForeignAndNewerFilesAreRefusedByName) {
  expect_text(refused_when([](auto&, auto& m) { m.clear(); }), "no capture");
  expect_text(refused_when([](auto&, auto& m) { m["format"] = "pt"; }), "\"pt\"");
  expect_text(refused_when([](auto&, auto& m) { m["version"] = "2"; }), "newer");
  expect_text(refused_when([](auto&, auto& m) { m.erase("version"); }), "version");
  expect_text(refused_when([](auto&, auto& m) { m.erase("labels"); }), "no labels");
  expect_text(refused_when([](auto& t, auto&) { t.erase("lse"); }), "no tensor lse");
  expect_text(refused_when([](auto& t, auto&) { t["weights"] = Tensor(DType::kF32, {1}); }), "weights");
  expect_text(refused_when([](auto& t, auto&) { t["mask"] = Tensor(DType::kBool, {1}); }), "mask");
  expect_text(refused_when([](auto& t, auto&) { t["sinks"] = Tensor(DType::kF16, {2}); }), "sinks");
  expect_text(refused_when([](auto& t, auto&) { t["key"] = Tensor(DType::kF32, {1, 1, 5, 4}); }), "do not fit");
  expect_text(refused_when([](auto& t, auto&) { t["attention_bias"] = Tensor(DType::kF32, {17}); }), "of a tensor of 17");
  expect_text(refused_when([](auto&, auto& m) { m["labels"] = R"({"key_tokens": ["a"]})"; }), "key_tokens");
}

TEST(CaptureFile, OptionsAreReadStrictly) {
  expect_text(refused_options("{"), "not valid JSON");
  expect_text(refused_options("[]"), "an object");
  expect_text(refused_options(R"({"causal": 1})"), "true or false");
  expect_text(refused_options(R"({"scale": 1e300})"), "finite");
  expect_text(refused_options(R"({"dropout": 0.5})"), "not known");
  expect_text(refused_options(R"({"query_offsets": [18446744073709551615]})"), "64 bits");
  expect_text(refused_options(R"({"query_offsets": [1.5]})"), "64 bits");
  expect_text(refused_options(R"({"window": {"top": 1}})"), "not known");
  expect_text(refused_options(R"({"window": {"left": -1}, "attention_bias": {"shape": [5], "strides": [1], "origin": 0}})"),
              "window.left");
  expect_text(refused_options("[[[[[[[[[[[[1]]]]]]]]]]]]"), "nested");
  const std::string bias = R"({"attention_bias": {"shape": [1, 2, 5, 5], "strides": [0, 9, -1, 1], "origin": )";
  expect_text(refused_options(bias + "3}}"), "elements -1");
  expect_text(refused_options(bias + "9223372036854775807}}"), "too far");
  expect_text(refused_options(R"({"attention_bias": {"shape": [5], "strides": [1, 1], "origin": 0}})"), "one length");
  expect_text(refused_options(R"({"attention_bias": {"shape": [-5], "strides": [1], "origin": 0}})"), "too far");
  expect_text(refused_options(R"({"causal": true})"), "no attention_bias in the options");
}

TEST(CaptureFile, ForeignBytesAreRefused) {
  const TempFolder folder;
  write_file(folder / "text.safetensors", "not a file of tensors");
  refused(folder / "text.safetensors");
  EXPECT_THROW(load_capture(folder / "missing.safetensors"), IoError);
}

// Any change of a file is either refused with FormatError or gives a capture that can be looked at.
TEST(CaptureFile, MutationsAreReadOrRefused) {
  const TempFolder folder;
  save_capture(folder / "c.safetensors", labelled());
  const std::string valid = read_file(folder / "c.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, valid.data(), 8);
  Random random(1);
  int accepted = 0;
  constexpr int kRuns = 3000;
  for (int run = 0; run < kRuns; ++run) {
    std::string bytes = valid;
    for (Index changes = random.between(1, 3); changes > 0; --changes) {
      // Mostly in the header, where the structure is.
      const Index limit = random.chance(0.8) ? static_cast<Index>(header) + 8 : static_cast<Index>(bytes.size());
      const auto at = static_cast<std::size_t>(random.between(0, std::min(limit, static_cast<Index>(bytes.size())) - 1));
      if (random.chance(0.5)) {
        bytes[at] = static_cast<char>(random.between(32, 126));
      } else if (random.chance(0.5)) {
        bytes[at] = static_cast<char>(random.between('0', '9'));
      } else if (random.chance(0.9)) {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.between(0, 7)));
      } else {
        bytes.resize(std::max<std::size_t>(at, 1));
      }
    }
    write_file(folder / "m.safetensors", bytes);
    try {
      auto capture = std::make_shared<const Capture>(load_capture(folder / "m.safetensors"));
      ++accepted;
      if (capture->batch() == 0 || capture->num_heads() == 0) continue;
      const AttentionMap map(capture);
      map.tile(0, TileAddress{});
      if (map.query_len() > 0) map.row(0, 0);
      statistics(map);
    } catch (const FormatError&) {
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\nfor the file " << quote(bytes, 4000);
    }
  }
  EXPECT_GT(accepted, kRuns / 1000) << "mutations so rough that nothing is ever read test nothing";
  EXPECT_LT(accepted, kRuns);
}

}  // namespace
}  // namespace multihead::test
