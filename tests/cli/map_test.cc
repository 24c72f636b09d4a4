// multihead map: the files hold what the map's tiles say, and the terminal gets what it can show.
#include <cmath>

#include "cli/run_command.h"
#include "cli/run_in_terminal.h"
#include "multihead/attention_map.h"
#include "picture/picture_testing.h"

namespace multihead::cli_test {
namespace {

using picture_test::decoded;
using picture_test::elements_of;
using Words = std::vector<std::string>;

constexpr int kFailed = 1, kUsage = 2;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class CliMap : public CommandTest {
 protected:
  // Two batch entries, four heads over two key/value heads, causal: row i sees i + 13 keys.
  static constexpr Index kQueries = 37, kKeys = 50, kHead = 3, kBatch = 1;

  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    AttentionOptions options;
    options.causal = true;
    options.scale = 2;  // coefficients of every size
    capture_ = std::make_shared<const Capture>(made(options));
    save_capture(folder() / "c.safetensors", *capture_);
  }

  static Capture made(const AttentionOptions& options, DType dtype = DType::kF32) {
    const Tensor query = random_tensor({2, 4, kQueries, 8}, 1, dtype), key = random_tensor({2, 2, kKeys, 8}, 2, dtype),
                 value = random_tensor({2, 2, kKeys, 8}, 3, dtype);
    Tensor output(dtype, query.shape());
    Capture capture = multihead::capture(query, key, value, output, options);
    capture.labels.layer = 6;
    capture.labels.model = "tests <&>";
    for (Index i = 0; i < kKeys; ++i) capture.labels.key_tokens.push_back("k" + std::to_string(i));
    for (Index i = 0; i < kQueries; ++i) capture.labels.query_tokens.push_back("q" + std::to_string(i));
    return capture;
  }

  static Words map(const Words& more) {
    return with({"map", "c.safetensors", "--head", std::to_string(kHead), "--batch", std::to_string(kBatch)}, more);
  }
  // What `map` writes as .npy.
  Tensor values(const Words& more) const {
    run_ok(with(map(more), {"--output", "m.npy"}));
    return read("m.npy");
  }
  AttentionMap attention_map() const { return AttentionMap(capture_, kBatch); }

  std::shared_ptr<const Capture> capture_;
};

// Bits, NaN for masked.
void expect_tile(const Tensor& values, const Tile& tile) {
  ASSERT_EQ(values.shape(), (Dims{tile.height, tile.width}));
  for (std::size_t i = 0; i < tile.log2.size(); ++i) {
    const float value = values.data<float>()[i];
    if (tile.state[i] == CellState::kMasked) {
      EXPECT_TRUE(std::isnan(value)) << i;
    } else {
      EXPECT_EQ(value, tile.log2[i]) << i;
    }
  }
}

TEST_F(CliMap, NpyIsTheTile) {
  const AttentionMap map = attention_map();
  expect_tile(values({}), map.tile(kHead, {{0, kQueries}, {0, kKeys}, kQueries, kKeys, Pooling::kMax}));
  const std::pair<const char*, Pooling> kPoolings[] = {
      {"max", Pooling::kMax}, {"mean", Pooling::kMean}, {"mass", Pooling::kMass}};
  for (const auto& [name, pooling] : kPoolings) {
    SCOPED_TRACE(name);
    // 50 keys in at most 16 cells: 4 x 4 coefficients each, the last ones partly beyond the map.
    expect_tile(values({"--pool", name, "--size", "16"}), map.tile(kHead, {{0, 40}, {0, 52}, 10, 13, pooling}));
    // A part that ends before the map is not filled up: 20 rows are 6 cells of 3 or 4.
    expect_tile(values({"--pool", name, "--rows", "0:20", "--size", "17"}),
                map.tile(kHead, {{0, 20}, {0, 51}, 6, 17, pooling}));
    expect_tile(values({"--pool", name, "--rows", "5:", "--keys", "7:30"}),
                map.tile(kHead, {{5, kQueries}, {7, 30}, kQueries - 5, 23, pooling}));
  }
}

TEST_F(CliMap, LinearValuesAreTheCoefficients) {
  Tensor probabilities(DType::kF32, {2, 4, kQueries, kKeys});
  attention_probabilities(capture_->query, capture_->key, capture_->lse, probabilities, capture_->options);
  const Tensor linear = values({"--scale", "linear"});
  for (Index i = 0; i < kQueries; ++i) {
    for (Index j = 0; j < kKeys; ++j) {
      const float value = linear.view().at<float>(i, j), exact = probabilities.view().at<float>(kBatch, kHead, i, j);
      if (j > i + kKeys - kQueries) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, exact) << i << ", " << j << ": not the kernel's bits";
      }
    }
  }
}

// By definition, from all coefficients: a pooled one over what the same pooling makes of 1 / V(i).
void expect_lift(const Capture& capture, const Tensor& lift, Pooling pooling, Index batch, Index head) {
  const AttentionMap map(std::make_shared<const Capture>(capture.copy()), batch);
  const Index height = lift.shape()[0], width = lift.shape()[1], k = (map.key_len() + width - 1) / width;
  for (Index r = 0; r < height; ++r) {
    for (Index c = 0; c < width; ++c) {
      const Index i0 = r * k, i1 = std::min(i0 + k, map.query_len());
      const Index j0 = c * k, j1 = std::min(j0 + k, map.key_len());
      double sum = 0, even = 0, best = 0, best_lift = 0;
      Index pairs = 0;
      for (Index i = i0; i < i1; ++i) {
        const double seen = static_cast<double>(map.visible_keys(head, i));
        for (Index j = j0; j < j1; ++j) {
          if (!map.visible(head, i, j)) continue;
          const double p = std::exp2(map.at(head, i, j).log2);
          ++pairs;
          sum += p;
          even += 1 / seen;
          if (p > best) best_lift = std::log2(p * seen);
          best = std::max(best, p);
        }
      }
      const float value = lift.view().at<float>(r, c);
      if (pairs == 0) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_NEAR(value, pooling == Pooling::kMax ? best_lift : std::log2(sum / even), 1e-4) << r << ", " << c;
      }
    }
  }
}

TEST_F(CliMap, LiftIsOverEvenAttention) {
  for (const auto& [name, pooling] : {std::pair{"max", Pooling::kMax}, {"mean", Pooling::kMean}, {"mass", Pooling::kMass}}) {
    SCOPED_TRACE(name);
    expect_lift(*capture_, values({"--scale", "lift", "--pool", name, "--size", "16"}), pooling, kBatch, kHead);
    expect_lift(*capture_, values({"--scale", "lift", "--pool", name}), pooling, kBatch, kHead);
  }
}

TEST_F(CliMap, LiftKeepsEveryKindOfVisibility) {
  const Tensor mask = test::filled(DType::kBool, {kQueries, kKeys}, [](Index i) { return i % 7 == 3 ? 0 : 1; });
  Tensor bias = random_tensor({1, 4, kQueries, kKeys}, 9);
  for (Index i = 0; i < bias.size(); i += 5) bias.data<float>()[i] = -INFINITY;
  AttentionOptions options;
  options.mask = mask.view();
  options.attention_bias = bias.view();
  options.window = Window{20, 3};
  options.alibi_slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  options.sinks = {1, 2, 3, 4};
  options.softcap = 3;
  const Capture capture = made(options);
  save_capture(folder() / "c.safetensors", capture);
  for (const auto& [name, pooling] : {std::pair{"max", Pooling::kMax}, {"mean", Pooling::kMean}, {"mass", Pooling::kMass}}) {
    SCOPED_TRACE(name);
    expect_lift(capture, values({"--scale", "lift", "--pool", name, "--size", "16"}), pooling, kBatch, kHead);
  }
}

TEST_F(CliMap, NotFiniteIsInfinityInNpy) {
  const Tensor query = random_tensor({1, 1, 4, 2}, 1), value = random_tensor({1, 1, 4, 2}, 2);
  Tensor key = random_tensor({1, 1, 4, 2}, 3), output(DType::kF32, {1, 1, 4, 2});
  key.data<float>()[2 * 2] = std::nanf("");  // key 2
  AttentionOptions options;
  options.causal = true;
  save_capture(folder() / "nan.safetensors", multihead::capture(query, key, value, output, options));
  run_ok({"map", "nan.safetensors", "--head", "0", "--output", "m.npy"});
  const Tensor map = read("m.npy");
  EXPECT_EQ(map.view().at<float>(2, 2), INFINITY);
  EXPECT_TRUE(std::isnan(map.view().at<float>(1, 2))) << "masked";
  EXPECT_TRUE(std::isfinite(map.view().at<float>(1, 1)));
}

TEST_F(CliMap, PicturesCanBeReadAndSayWhatTheyShow) {
  run_ok(map({"--output", "m.png"}));
  const std::string png = bytes_of(folder() / "m.png");
  const auto pixels = decoded(png);
  EXPECT_GT(pixels.width(), 768);
  EXPECT_NE(png.find("Layer 6, head 3 (key/value head 1), batch entry 1"), std::string::npos);
  EXPECT_NE(png.find("tests <&>"), std::string::npos);
  run_ok(map({"--output", "m.svg", "--size", "400"}));
  const std::string svg = bytes_of(folder() / "m.svg");
  const auto elements = elements_of(svg);
  EXPECT_EQ(elements.at("title"), 1 + kQueries * kKeys);
  for (const char* word :
       {"Layer 6, head 3 (key/value head 1), batch entry 1", "tests &lt;&amp;&gt;", "37 queries × 50 keys, causal",
        "each cell is one coefficient", "log₂ p", "masked", "query 0 'q0', key 0 'k0'"}) {
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  }
  run_ok(map({"--output", "p.svg", "--size", "16", "--pool", "mass", "--scale", "lift"}));
  const std::string pooled = bytes_of(folder() / "p.svg");
  EXPECT_NE(pooled.find("each cell is the sum over keys, averaged over queries, of 4 queries × 4 keys"), std::string::npos);
}

TEST_F(CliMap, SamePixelsEveryTime) {
  run_ok(map({"--output", "a.png", "--threads", "1"}));
  run_ok(map({"--output", "b.png", "--threads", "2"}));
  EXPECT_EQ(bytes_of(folder() / "a.png"), bytes_of(folder() / "b.png"));
}

TEST_F(CliMap, ReportTellsWhatWasWritten) {
  const auto json = run_ok(map({"--output", "m.png", "--size", "16", "--domain", "-12.5:-1", "--json"})).json();
  EXPECT_EQ(json["command"], "map");
  EXPECT_EQ(json["map"], kHead);
  EXPECT_EQ(json["cells"], (std::vector<Index>{10, 13}));
  EXPECT_EQ(json["rows"], (std::vector<Index>{0, kQueries})) << "the last cell reaches beyond, the rows do not";
  EXPECT_EQ(json["scale"], (std::vector<double>{-12.5, -1}));
  EXPECT_EQ(json["written"], "m.png");
  Index all = 0;
  for (const auto& [kind, count] : json["counts"].items()) all += count.get<Index>();
  EXPECT_EQ(all, 10 * 13);
  EXPECT_GT(json["counts"]["masked"], 0);
  const std::string text = run_ok(map({"--output", "m.png"})).out;
  for (const char* word : {"head 3", "37 x 50", "written", "m.png", "masked"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

TEST_F(CliMap, PipesGetPlainText) {
  const std::string text = run_ok(map({"--terminal"}), {"COLORTERM=truecolor", "TERM=xterm-256color", "COLUMNS=100"}).out;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  for (const char* word : {"Layer 6, head 3", "key 0", "log₂ p", "(blank) masked", "largest", "query token"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(picture::characters_of(line).size(), 100U) << line;
}

TEST_F(CliMap, TheLargestPairsAreTheLargest) {
  run_ok(map({"--scale", "linear", "--output", "m.npy"}));
  const Tensor values = read("m.npy");
  double best = 0;
  Index query = 0, key = 0;
  for (Index i = 0; i < values.size(); ++i) {
    if (!(values.data<float>()[i] > best)) continue;
    best = values.data<float>()[i];
    query = i / kKeys;
    key = i % kKeys;
  }
  const std::string text = run_ok(map({"--terminal", "--size", "256"}), {"COLUMNS=200"}).out;
  std::istringstream table(text.substr(text.find("largest  query")));
  std::string line;
  std::getline(table, line);
  double shown = 0;
  Index shown_query = -1, shown_key = -1;
  std::string query_token, key_token;
  table >> shown >> shown_query >> shown_key >> query_token >> key_token;
  EXPECT_NEAR(shown, best, 1e-4);
  EXPECT_EQ(shown_query, query);
  EXPECT_EQ(shown_key, key);
  EXPECT_EQ(query_token, "q" + std::to_string(query));
  EXPECT_EQ(key_token, "k" + std::to_string(key));
}

TEST_F(CliMap, TerminalsGetTheColorsThatTheyHave) {
  const auto screen = [&](unsigned short columns, const Words& environment) {
    const TerminalResult result = run_in_terminal(folder(), map({"--terminal"}), columns, environment);
    EXPECT_EQ(result.status, 0) << result.screen;
    return result.screen;
  };
  const std::string true_color = screen(90, {"TERM=xterm-256color", "COLORTERM=truecolor"});
  EXPECT_NE(true_color.find("\x1b[38;2;"), std::string::npos);
  EXPECT_NE(true_color.find("▀"), std::string::npos);
  const std::string indexed = screen(90, {"TERM=xterm-256color"});
  EXPECT_NE(indexed.find("\x1b[38;5;"), std::string::npos);
  EXPECT_EQ(indexed.find("\x1b[38;2;"), std::string::npos);
  for (const Words& environment :
       {Words{"TERM=xterm-256color", "COLORTERM=truecolor", "NO_COLOR=1"}, Words{"TERM=dumb"}, Words{}}) {
    const std::string plain = screen(90, environment);
    EXPECT_EQ(plain.find("\x1b["), std::string::npos) << testing::PrintToString(environment);
    EXPECT_NE(plain.find("Layer 6, head 3"), std::string::npos);
  }
  EXPECT_NE(screen(90, {"TERM=xterm-256color", "NO_COLOR="}).find("\x1b["), std::string::npos) << "an empty NO_COLOR is none";
  // 50 keys do not fit in 30 columns: two coefficients a cell.
  EXPECT_NE(screen(30, {"TERM=xterm-256color"}).find("the largest of"), std::string::npos);
}

TEST_F(CliMap, RefusesWhatTheCaptureHasNot) {
  expect_failure(with({"map", "c.safetensors"}, {"--head", "4", "--output", "m.png"}), kFailed, {"--head", "0 to 3", "got 4"});
  expect_failure(map({"--batch", "2", "--output", "m.png"}), kUsage, {"--batch"});  // given twice
  expect_failure({"map", "c.safetensors", "--head", "0", "--batch", "2", "--output", "m.png"}, kFailed, {"batch", "2"});
  expect_failure(map({"--rows", "0:38", "--output", "m.png"}), kFailed, {"--rows", "0:37", "0:38"});
  expect_failure(map({"--keys", "50:", "--output", "m.png"}), kFailed, {"--keys", "0:50", "50:50"});
  expect_failure({"map", "none.safetensors", "--head", "0", "--output", "m.png"}, kFailed,
                 {"none.safetensors", "No such file"});
  write_bytes("other.safetensors", "not a capture");
  expect_failure({"map", "other.safetensors", "--head", "0", "--output", "m.png"}, kFailed, {"other.safetensors"});
}

TEST_F(CliMap, RefusesSenselessCommandLines) {
  expect_failure({"map", "c.safetensors", "--output", "m.png"}, kUsage, {"--head is required", "multihead map --help"});
  expect_failure({"map", "--head", "0", "--output", "m.png"}, kUsage, {"CAPTURE is required"});
  expect_failure(map({}), kUsage, {"--output PATH or --terminal"});
  expect_failure(map({"--terminal", "--json"}), kUsage, {"--json", "--output"});
  for (const char* name : {"m.jpg", "m", "png", "m.PNG", ""}) {
    expect_failure(map({"--output", name}), kUsage, {"--output", ".png, .svg or .npy"});
  }
  for (const char* range : {"5", "5:5", "6:5", "-1:5", "a:b", "1:2:3", "1.5:2", ""}) {
    expect_failure(map({"--rows", range, "--output", "m.png"}), kUsage, {"--rows", "FIRST:END"});
  }
  for (const char* domain : {"1", "1:1", "2:1", "nan:1", "0:inf", "a:1", ":1"}) {
    expect_failure(map({"--domain", domain, "--output", "m.png"}), kUsage, {"--domain", "LOW:HIGH"});
  }
  expect_failure(map({"--pool", "sum", "--output", "m.png"}), kUsage, {"--pool", "max|mean|mass", "'sum'"});
  expect_failure(map({"--scale", "log2", "--output", "m.png"}), kUsage, {"--scale", "linear|log|lift", "'log2'"});
  for (const char* size : {"15", "8193", "big"}) expect_failure(map({"--size", size, "--output", "m.png"}), kUsage, {"--size"});
  expect_failure(map({"--output", "c.safetensors"}), kUsage, {"--output"});
  fs::create_symlink("c.safetensors", folder() / "link.npy");
  expect_failure(map({"--output", "link.npy"}), kFailed, {"link.npy", "given as CAPTURE"});
  expect_failure(map({"--output", "none/m.png"}), kFailed, {"none does not exist"});
}

}  // namespace
}  // namespace multihead::cli_test
