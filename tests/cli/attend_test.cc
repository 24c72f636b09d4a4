// multihead attend: files in, files out, every option heard.
#include "cli/run_command.h"
#include "multihead/attention.h"

namespace multihead::cli_test {
namespace {

const std::vector<std::string> kArrays{"attend", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class CliAttend : public CommandTest {
 protected:
  /// Zero queries and keys, values 0, 1, 2 …: a row's output is the mean of the keys that it sees.
  void write_means(Index query_len, Index key_len) const {
    std::vector<double> positions;
    for (Index j = 0; j < key_len; ++j) positions.push_back(static_cast<double>(j));
    write("q.npy", Tensor(DType::kF32, {1, query_len, 2}));
    write("k.npy", Tensor(DType::kF32, {1, key_len, 2}));
    write("v.npy", tensor_of({1, key_len, 1}, positions));
  }
  void write_random(const Dims& query, const Dims& key, const Dims& value, DType dtype = DType::kF32) const {
    write("q.npy", random_tensor(query, 1, dtype));
    write("k.npy", random_tensor(key, 2, dtype));
    write("v.npy", random_tensor(value, 3, dtype));
  }
  std::vector<double> output_with(const std::vector<std::string>& options) const {
    run_ok(with(kArrays, with({"--output", "o.npy"}, options)));
    return values_of(read("o.npy"));
  }
};

TEST_F(CliAttend, MeansOfWhatIsVisible) {
  write_means(6, 6);
  const struct {
    std::vector<std::string> options;
    std::vector<double> expected;
  } kCases[] = {
      {{}, {2.5, 2.5, 2.5, 2.5, 2.5, 2.5}},
      {{"--causal"}, {0, 0.5, 1, 1.5, 2, 2.5}},
      {{"--causal", "--window", "2,"}, {0, 0.5, 1, 2, 3, 4}},
      {{"--window", "1,1"}, {0.5, 1, 2, 3, 4, 4.5}},
      {{"--window", ",0"}, {0, 0.5, 1, 1.5, 2, 2.5}},
      {{"--window", "0,"}, {2.5, 3, 3.5, 4, 4.5, 5}},
      {{"--causal", "--query-offset", "-2"}, {0, 0, 0, 0.5, 1, 1.5}},
      {{"--causal", "--query-offset", "3"}, {1.5, 2, 2.5, 2.5, 2.5, 2.5}},
  };
  for (const auto& [options, expected] : kCases) {
    SCOPED_TRACE(testing::PrintToString(options));
    expect_near(output_with(options), expected, 1e-6);
  }
}

TEST_F(CliAttend, AlignsCausalRowsAtTheEndUnlessToldOtherwise) {
  write_means(2, 4);
  expect_near(output_with({"--causal"}), {1, 1.5}, 1e-6);
  expect_near(output_with({"--causal", "--top-left"}), {0, 0.5}, 1e-6);
}

TEST_F(CliAttend, ReadsMasksBiasesAndLists) {
  write_means(2, 4);
  write("mask.npy", tensor_of({2, 4}, {1, 0, 0, 1, 0, 0, 0, 0}, DType::kBool));
  expect_near(output_with({"--mask", "mask.npy"}), {1.5, 0}, 1e-6);
  write("keys.npy", tensor_of({4}, {0, 1, 1, 0}, DType::kU8));
  expect_near(output_with({"--mask", "keys.npy"}), {1.5, 1.5}, 1e-6);
  write("lengths.npy", tensor_of({1}, {3}, DType::kI32));
  expect_near(output_with({"--key-lengths", "lengths.npy"}), {1, 1}, 1e-6);

  const double log3 = std::log(3.0);
  write("bias.npy", tensor_of({4}, {0, log3, -INFINITY, -INFINITY}, DType::kF64));  // weights 1 : 3
  expect_near(output_with({"--bias", "bias.npy"}), {0.75, 0.75}, 1e-6);
  write("sinks.npy", tensor_of({1}, {std::log(4.0)}));  // as much as the four keys together
  expect_near(output_with({"--sinks", "sinks.npy"}), {0.75, 0.75}, 1e-6);
  write("slopes.npy", tensor_of({1}, {log3}, DType::kF64));
  const double last = (0.0 / 27 + 1.0 / 9 + 2.0 / 3 + 3) / (1.0 / 27 + 1.0 / 9 + 1.0 / 3 + 1);
  EXPECT_NEAR(output_with({"--alibi-slopes", "slopes.npy"})[1], last, 1e-6);
}

TEST_F(CliAttend, ScalesAndCaps) {
  write("q.npy", tensor_of({1, 1, 1}, {1}));
  write("k.npy", tensor_of({1, 3, 1}, {2, 1, 3}));
  write("v.npy", tensor_of({1, 3, 1}, {1, 10, 1000}));
  write("mask.npy", tensor_of({3}, {1, 1, 0}, DType::kBool));
  expect_near(output_with({"--softcap", "2", "--mask", "mask.npy"}), {4.191247352}, 1e-5);
  expect_near(output_with({"--scale", "0"}), {337}, 1e-3);
  const double weight = 1 / (1 + std::exp(-1.0));  // scores -2 and -1: the second key wins
  expect_near(output_with({"--scale", "-1", "--mask", "mask.npy"}), {1 - weight + 10 * weight}, 1e-5);
}

TEST_F(CliAttend, EveryResultAgreesWithTheDefinition) {
  const Dims query{2, 6, 33, 8}, key{2, 2, 47, 8}, value{2, 2, 47, 5};
  write_random(query, key, value);
  const std::vector<std::string> files{"--output", "o.npy", "--lse", "l.npy", "--probabilities", "p.npy"};
  run_ok(with(kArrays, with(files, {"--causal", "--window", "20,"})));

  AttentionOptions options;
  options.causal = true;
  options.window = Window{20, {}};
  Tensor output(DType::kF64, {2, 6, 33, 5}), lse(DType::kF64, {2, 6, 33}), probabilities(DType::kF64, {2, 6, 33, 47});
  reference_attention(read("q.npy"), read("k.npy"), read("v.npy"), output, options, lse.view(), probabilities.view());
  const std::pair<const char*, const Tensor*> kExpected[] = {{"o.npy", &output}, {"l.npy", &lse}, {"p.npy", &probabilities}};
  for (const auto& [name, expected] : kExpected) {
    const Tensor actual = read(name);
    EXPECT_EQ(actual.shape(), expected->shape()) << name;
    EXPECT_EQ(actual.dtype(), DType::kF32) << name;
    expect_near(values_of(actual), values_of(*expected), 2e-6);
  }

  run_ok(with(kArrays, with(files, {"--causal", "--window", "20,", "--reference"})));
  for (const auto& [name, expected] : kExpected) {
    EXPECT_EQ(read(name).dtype(), DType::kF64) << name;
    EXPECT_EQ(values_of(read(name)), values_of(*expected)) << name;
  }
}

TEST_F(CliAttend, KeepsTheRankOfItsInputs) {
  write_random({4, 5, 8}, {2, 7, 8}, {2, 7, 3});
  run_ok(with(kArrays, {"--output", "o.npy", "--lse", "l.npy", "--probabilities", "p.npy"}));
  EXPECT_EQ(read("o.npy").shape(), (Dims{4, 5, 3}));
  EXPECT_EQ(read("l.npy").shape(), (Dims{4, 5}));
  EXPECT_EQ(read("p.npy").shape(), (Dims{4, 5, 7}));
}

TEST_F(CliAttend, EmptyExtentsAreOrdinary) {
  const struct {
    Dims query, key, value, output;
  } kCases[] = {{{1, 2, 0, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 0, 4}},
                {{0, 2, 3, 4}, {0, 2, 3, 4}, {0, 2, 3, 4}, {0, 2, 3, 4}},
                {{1, 2, 3, 4}, {1, 2, 0, 4}, {1, 2, 0, 4}, {1, 2, 3, 4}}};
  for (const auto& [query, key, value, output] : kCases) {
    write_random(query, key, value);
    run_ok(with(kArrays, {"--output", "o.npy", "--lse", "l.npy", "--probabilities", "p.npy", "--compare"}));
    EXPECT_EQ(read("o.npy").shape(), output);
    for (const double element : values_of(read("o.npy"))) EXPECT_EQ(element, 0);
    for (const double element : values_of(read("l.npy"))) EXPECT_EQ(element, -INFINITY);
  }
}

TEST_F(CliAttend, ComputesInTheTypeThatWasAskedFor) {
  const Dims shape{1, 2, 9, 16};
  write_random(shape, shape, shape, DType::kF64);
  const struct {
    std::vector<std::string> options;
    DType file;
    double tolerance;
  } kCases[] = {{{}, DType::kF32, 1e-6},
                {{"--dtype", "f32"}, DType::kF32, 1e-6},
                {{"--dtype", "f16"}, DType::kF16, 2e-3},
                {{"--dtype", "bf16"}, DType::kF32, 1.6e-2},
                {{"--reference", "--dtype", "f16"}, DType::kF16, 2e-3}};
  Tensor exact(DType::kF64, shape);
  const Tensor query = Tensor::converted(read("q.npy"), DType::kF32), key = Tensor::converted(read("k.npy"), DType::kF32),
               value = Tensor::converted(read("v.npy"), DType::kF32);
  reference_attention(query, key, value, exact);
  for (const auto& [options, file, tolerance] : kCases) {
    SCOPED_TRACE(testing::PrintToString(options));
    const std::vector<double> values = output_with(options);
    EXPECT_EQ(read("o.npy").dtype(), file);
    expect_near(values, values_of(exact), tolerance);
  }
  output_with({"--dtype", "bf16"});
  for (const double element : values_of(read("o.npy"))) {
    EXPECT_EQ(element, static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(element))))) << "not a bf16 number";
  }
}

TEST_F(CliAttend, TypesOfFilesDecideWithoutAnOption) {
  const Dims shape{1, 2, 9, 16};
  write_random(shape, shape, shape, DType::kF16);
  output_with({});
  EXPECT_EQ(read("o.npy").dtype(), DType::kF16);
  write("k.npy", random_tensor(shape, 2, DType::kF32));
  expect_failure(with(kArrays, {"--output", "p.npy"}), 1, {"key k.npy is f32", "query q.npy is f16", "--dtype"});
}

TEST_F(CliAttend, JsonTellsWhatHappened) {
  write_random({2, 6, 8}, {2, 6, 8}, {2, 6, 8});
  const auto json =
      run_ok(with(kArrays, {"--output", "o.npy", "--lse", "l.npy", "--compare", "--threads", "2", "--json"})).json();
  EXPECT_EQ(json["command"], "attend");
  EXPECT_EQ(json["query"]["shape"], (std::vector<int>{2, 6, 8}));
  EXPECT_EQ(json["query"]["dtype"], "f32");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_FALSE(json["target"].get<std::string>().empty());
  EXPECT_GE(json["seconds"].get<double>(), 0);
  EXPECT_LT(json["error"]["output"]["relative"].get<double>(), 1e-6);
  EXPECT_LT(json["error"]["lse"]["max_abs"].get<double>(), 1e-6);
  EXPECT_FALSE(json["error"].contains("probabilities"));
  ASSERT_EQ(json["written"].size(), 2U);
  EXPECT_EQ(json["written"][0]["path"], "o.npy");
  EXPECT_EQ(json["written"][1]["shape"], (std::vector<int>{2, 6}));
}

TEST_F(CliAttend, TextTellsWhatHappened) {
  write_random({2, 6, 8}, {2, 6, 8}, {2, 6, 8});
  const std::string text = run_ok(with(kArrays, {"--output", "o.npy", "--compare"})).out;
  for (const char* word : {"query", "[2, 6, 8] f32", "target", "thread", "time", "error", "relative", "written", "o.npy"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in:\n" << text;
  }
}

TEST_F(CliAttend, ReplacesAnOldOutput) {
  write_means(2, 4);
  write_bytes("o.npy", "something old");
  expect_near(output_with({}), {1.5, 1.5}, 1e-6);
  EXPECT_EQ(files(), (std::vector<std::string>{"k.npy", "o.npy", "q.npy", "v.npy"}));
}

TEST_F(CliAttend, RefusesWhatHasNoMeaning) {
  write_random({1, 4, 5, 8}, {1, 2, 7, 8}, {1, 2, 7, 3});
  write("ints.npy", Tensor(DType::kI64, {1, 4, 5, 8}));
  write("flat.npy", Tensor(DType::kF32, {5, 8}));
  write("three.npy", Tensor(DType::kF32, {2, 7, 8}));
  write("short.npy", Tensor(DType::kF32, {1, 2, 6, 3}));
  write("odd.npy", Tensor(DType::kF32, {1, 3, 7, 8}));
  write("mask3.npy", Tensor(DType::kBool, {4, 5, 7}));
  write("mask_ints.npy", Tensor(DType::kI64, {5, 7}));
  write("lengths.npy", tensor_of({1}, {8}, DType::kI64));
  write("real_lengths.npy", tensor_of({1}, {7}));
  write("slopes.npy", Tensor(DType::kF32, {3}));
  write("huge.npy", tensor_of({1, 1, 1, 1}, {1e300}, DType::kF64));
  const auto case_of = [](const std::string& option, const std::string& file) {
    std::vector<std::string> arguments = with(kArrays, {"--output", "o.npy"});
    const auto at = std::find(arguments.begin(), arguments.end(), option);
    if (at == arguments.end()) return with(arguments, {option, file});
    *(at + 1) = file;
    return arguments;
  };
  expect_failure(case_of("--query", "ints.npy"), 1, {"query ints.npy", "f16, f32 or f64", "i64"});
  expect_failure(case_of("--query", "flat.npy"), 1, {"[5, 8]", "[heads, length, dim]"});
  expect_failure(case_of("--key", "three.npy"), 1, {"key three.npy", "batch axis", "[2, 7, 8]"});
  expect_failure(case_of("--key", "odd.npy"), 1, {"multiple of num_kv_heads", "[1, 3, 7, 8]"});
  expect_failure(case_of("--value", "short.npy"), 1, {"[1, 2, 7, 8]", "[1, 2, 6, 3]"});
  expect_failure(case_of("--query", "huge.npy"), 1, {"query huge.npy", "1.00e+300", "f32"});
  expect_failure(case_of("--mask", "mask3.npy"), 1, {"mask", "rank 3", "[4, 5, 7]"});
  expect_failure(case_of("--mask", "mask_ints.npy"), 1, {"mask", "bool or u8", "i64"});
  expect_failure(case_of("--bias", "ints.npy"), 1, {"bias", "i64"});
  expect_failure(case_of("--key-lengths", "lengths.npy"), 1, {"key_lengths", "7", "8"});
  expect_failure(case_of("--key-lengths", "real_lengths.npy"), 1, {"key_lengths real_lengths.npy", "integers", "f32"});
  expect_failure(case_of("--alibi-slopes", "slopes.npy"), 1, {"alibi_slopes", "[4]"});
  expect_failure(case_of("--softcap", "-1"), 1, {"softcap", "-1"});
  expect_failure(case_of("--scale", "nan"), 1, {"scale", "finite"});
}

}  // namespace
}  // namespace multihead::cli_test
