#include "layer/relative_bias.h"

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

// T5's encoder: 32 buckets, 16 a side, 8 exact; then borders at 8 * 16^(k/8) = 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5, 128.
TEST(RelativeBucket, BidirectionalBorders) {
  const RelativeBias bias{128, true};
  const auto bucket = [&](Index distance) { return relative_bucket(bias, 32, distance); };
  for (Index n = 0; n < 8; ++n) EXPECT_EQ(bucket(-n), n);
  const Index starts[] = {8, 12, 16, 23, 32, 46, 64, 91};
  for (Index b = 0; b < 8; ++b) {
    EXPECT_EQ(bucket(-starts[b]), 8 + b) << starts[b];
    EXPECT_EQ(bucket(-(starts[b] - 1)), 7 + b) << starts[b] - 1;
    EXPECT_EQ(bucket(starts[b]), 16 + 8 + b);
  }
  EXPECT_EQ(bucket(-127), 15);
  EXPECT_EQ(bucket(-128), 15);
  EXPECT_EQ(bucket(-1'000'000'000), 15);
  EXPECT_EQ(bucket(1), 17);
  EXPECT_EQ(bucket(1'000'000'000), 31);
}

// T5's decoder: all 32 buckets look back, 16 exact; the future shares bucket 0.
TEST(RelativeBucket, UnidirectionalLooksBack) {
  const RelativeBias bias{128, false};
  for (Index n = 0; n < 16; ++n) EXPECT_EQ(relative_bucket(bias, 32, -n), n);
  EXPECT_EQ(relative_bucket(bias, 32, 5), 0);
  EXPECT_EQ(relative_bucket(bias, 32, -16), 16);
  EXPECT_EQ(relative_bucket(bias, 32, -32), 16 + 5);    // ln 2 / ln 8 * 16 = 5.33
  EXPECT_EQ(relative_bucket(bias, 32, -113), 16 + 15);  // ln 7.06 / ln 8 * 16 = 15.04
  EXPECT_EQ(relative_bucket(bias, 32, -112), 16 + 14);  // ln 7 / ln 8 * 16 = 14.97
  EXPECT_EQ(relative_bucket(bias, 32, -4000), 31);
}

// The strided view is the matrix table[bucket(key - query)][head], and it does not grow with query_len * key_len.
TEST(RelativeBiasLines, AreTheMatrix) {
  const RelativeBias bias{20, true};
  const Tensor table = RandomNumbers(1).tensor({8, 3}, DType::kBF16);
  for (const auto& [query_len, key_len, offset] : {std::array<Index, 3>{5, 7, 0}, {1, 40, 39}, {9, 2, -3}, {4, 4, 1000}}) {
    const RelativeBiasLines lines(bias, table, query_len, key_len, offset);
    const ConstTensorView view = lines.view();
    EXPECT_EQ(view.shape, (Dims{1, 3, query_len, key_len}));
    for (Index h = 0; h < 3; ++h) {
      for (Index i = 0; i < query_len; ++i) {
        for (Index j = 0; j < key_len; ++j) {
          const Index bucket = relative_bucket(bias, 8, j - (offset + i));
          EXPECT_EQ(static_cast<double>(view.at<float>(0, h, i, j)), load_as_double(table, bucket * 3 + h));
        }
      }
    }
  }
}

TEST(RelativeBiasLines, EmptyLengths) {
  const Tensor table = RandomNumbers(1).tensor({8, 3});
  for (const auto& [query_len, key_len] : {std::pair<Index, Index>{0, 0}, {0, 5}, {5, 0}}) {
    const RelativeBiasLines lines({}, table, query_len, key_len, 0);
    EXPECT_EQ(lines.view().shape, (Dims{1, 3, query_len, key_len}));
  }
}

}  // namespace
}  // namespace multihead
