// Every size against the definition: head and value widths, key and query lengths, their tails and block borders.
#include <gtest/gtest.h>

#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

std::vector<Index> counting(Index first, Index last, std::vector<Index> more) {
  std::vector<Index> all;
  for (Index n = first; n <= last; ++n) all.push_back(n);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

DType rotating_dtype(Index n) {
  constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};
  return kTypes[static_cast<std::size_t>(n) % kTypes.size()];
}

class AttentionSizes : public ::testing::Test {
 protected:
  // A fresh seed for every problem, the same in every run.
  std::uint64_t seed_ = 4000;

  void expect_right_at(const Shape& shape, DType dtype, bool causal) {
    Problem problem = make_problem(shape, ++seed_, dtype);
    problem.options.causal = causal;
    expect_right(problem);
  }
};

TEST_F(AttentionSizes, EveryHeadDim) {
  for (const Index dim : counting(1, 130, {159, 160, 191, 192, 255, 256, 257, 320, 576})) {
    for (const DType dtype : {DType::kF32, rotating_dtype(dim)}) {
      expect_right_at({.heads = 2, .query_len = 26, .key_len = 37, .head_dim = dim, .value_dim = dim}, dtype, dim % 2 == 0);
    }
    expect_right_at({.heads = 3, .query_len = 3, .key_len = 11, .head_dim = dim, .value_dim = dim}, DType::kF32, false);
  }
}

TEST_F(AttentionSizes, EveryValueDim) {
  for (const Index dim : counting(0, 130, {159, 160, 191, 192, 255, 256, 257, 512})) {
    for (const Index head_dim : {Index{7}, dim + 1, Index{64}}) {
      expect_right_at({.heads = 2, .query_len = 5, .key_len = 19, .head_dim = head_dim, .value_dim = dim},
                      rotating_dtype(dim + head_dim), false);
    }
    expect_right_at({.query_len = 25, .key_len = 21, .head_dim = 3, .value_dim = dim}, DType::kF32, true);
  }
}

TEST_F(AttentionSizes, EveryKeyLength) {
  for (const Index keys :
       counting(1, 130, {191, 192, 193, 255, 256, 257, 383, 384, 385, 500, 511, 512, 513, 767, 768, 769, 1000})) {
    for (const Index queries : {1, 5, 24, 25}) {
      expect_right_at({.heads = 2, .query_len = queries, .key_len = keys, .head_dim = 16, .value_dim = 16},
                      rotating_dtype(keys + queries), (keys + queries) % 2 == 0);
    }
  }
}

TEST_F(AttentionSizes, EveryQueryLength) {
  for (const Index queries : counting(0, 33, {47, 48, 49, 63, 64, 65, 71, 72, 73, 95, 96, 97, 191, 192, 193, 200, 384, 385})) {
    for (const Index keys : {1, 40, 97, 200}) {
      expect_right_at({.heads = 2, .query_len = queries, .key_len = keys, .head_dim = 8, .value_dim = 9}, rotating_dtype(keys),
                      false);
      expect_right_at({.heads = 1, .query_len = queries, .key_len = keys, .head_dim = 8, .value_dim = 9}, DType::kF32, true);
    }
  }
}

// A decoding step over a long cache, where work may be split along the keys.
TEST_F(AttentionSizes, FewQueriesLongCache) {
  for (const Index keys : {2047, 2048, 2049, 4095, 4097, 8191, 8193, 20000}) {
    for (const Index queries : {1, 2, 3}) {
      expect_right_at({.heads = 4, .kv_heads = 2, .query_len = queries, .key_len = keys, .head_dim = 16, .value_dim = 16},
                      rotating_dtype(keys + queries), queries > 1);
    }
  }
}

TEST_F(AttentionSizes, RandomShapes) {
  Random random(77);
  for (int n = 0; n < 300; ++n) {
    const Index kv_heads = random.between(1, 3);
    const Shape shape{.batch = random.between(1, 3),
                      .heads = kv_heads * random.between(1, 4),
                      .kv_heads = kv_heads,
                      .query_len = random.between(1, 60),
                      .key_len = random.between(1, 120),
                      .head_dim = random.between(1, 40),
                      .value_dim = random.between(1, 40)};
    expect_right_at(shape, rotating_dtype(n), random.chance(0.5));
  }
}

}  // namespace
}  // namespace multihead::test
