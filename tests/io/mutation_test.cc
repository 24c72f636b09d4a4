// The fuzzers' entry functions over random mutations of their seeds: what a fuzzer finds in its first second, in every test
// run.
#include <random>

#include "fuzz/npy_fuzz.h"
#include "fuzz/safetensors_fuzz.h"
#include "io/io_testing.h"

namespace multihead::testing {
namespace {

std::vector<std::string> seeds(const char* format) {
  std::vector<std::string> result;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "fuzz/seeds" / format)) {
    result.push_back(read_file(entry.path()));
  }
  std::sort(result.begin(), result.end());
  return result;
}

// One change of the kinds that break parsers: bits, lost and doubled pieces, other numbers.
void mutate(std::string& bytes, std::mt19937_64& random) {
  static const std::vector<std::string> kTokens = {"0",
                                                   "1",
                                                   "2",
                                                   "8",
                                                   "-1",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "18446744073709551615",
                                                   "1e3",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "(",
                                                   ")",
                                                   ",",
                                                   "\"",
                                                   "'",
                                                   "\\u0000",
                                                   "\n",
                                                   "\xFF",
                                                   "\0"s,
                                                   "null"};
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1)); };
  const std::size_t at = below(bytes.size());
  const std::size_t count = std::min(1 + below(8), bytes.size() - at);
  switch (below(6)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      bytes.erase(at, count);
      break;
    case 2:
      bytes.insert(at, bytes.substr(at, count));
      break;
    case 3:
      bytes.insert(at, kTokens[below(kTokens.size())]);
      break;
    case 4: {  // a digit, wherever it is, becomes another number
      const std::size_t digit = bytes.find_first_of("0123456789", at);
      if (digit != std::string::npos) bytes.replace(digit, 1, kTokens[below(9)]);
      break;
    }
    default:
      bytes.resize(at);
      break;
  }
}

template <typename Check>
void expect_robust(const char* format, const Check& check) {
  const std::vector<std::string> valid = seeds(format);
  ASSERT_FALSE(valid.empty());
  const auto as_span = [](const std::string& bytes) {
    return std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  for (const std::string& seed : valid) EXPECT_TRUE(check(as_span(seed))) << quote(seed);
  std::mt19937_64 random(1);
  int accepted = 0;
  constexpr int kRuns = 20'000;
  for (int run = 0; run < kRuns; ++run) {
    std::string bytes = valid[random() % valid.size()];
    for (auto changes = 1 + random() % 4; changes > 0; --changes) mutate(bytes, random);
    try {
      accepted += check(as_span(bytes)) ? 1 : 0;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\nfor the file " << quote(bytes, 4000);
    }
  }
  EXPECT_GT(accepted, kRuns / 1000) << "mutations so rough that they never reach the readers' depths test nothing";
  EXPECT_LT(accepted, kRuns / 2);
}

TEST(Mutations, OfNpyFilesAreReadOrRefused) { expect_robust("npy", fuzz_npy); }
TEST(Mutations, OfSafetensorsFilesAreReadOrRefused) { expect_robust("safetensors", fuzz_safetensors); }

}  // namespace
}  // namespace multihead::testing
