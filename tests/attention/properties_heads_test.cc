// Groups of heads, batches, packed sequences and zero lengths against the definition.
#include <gtest/gtest.h>

#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

TEST(AttentionHeads, EveryGroupSize) {
  std::uint64_t seed = 5000;
  for (const Index group : {1, 2, 3, 4, 5, 7, 8, 16, 25}) {
    for (const Index kv_heads : {1, 2, 3}) {
      for (const Index queries : {1, 2, 9, 30}) {
        Problem problem = make_problem({.batch = 2,
                                        .heads = group * kv_heads,
                                        .kv_heads = kv_heads,
                                        .query_len = queries,
                                        .key_len = 35,
                                        .head_dim = 12,
                                        .value_dim = 10},
                                       ++seed);
        problem.options.causal = queries % 2 == 0;
        expect_right(problem);
      }
    }
  }
}

// Each head on its own gives the bits that it has among the others.
TEST(AttentionHeads, HeadsAndBatchEntriesDoNotMix) {
  const Problem problem = make_problem(
      {.batch = 3, .heads = 6, .kv_heads = 2, .query_len = 13, .key_len = 50, .head_dim = 20, .value_dim = 20}, 5100);
  for_each_target([&] {
    const Result all = run(problem);
    for (Index b = 0; b < 3; ++b) {
      for (Index h = 0; h < 6; ++h) {
        const auto part = [&](const Tensor& tensor, Index head) {
          return ConstTensorView(tensor.view().slice(0, b, b + 1).slice(1, head, head + 1));
        };
        const Result one = run(part(problem.inputs.query, h), part(problem.inputs.key, h / 3),
                               part(problem.inputs.value, h / 3), {}, DType::kF32);
        EXPECT_TRUE(same_bits(one.output, part(all.output, h))) << "batch " << b << ", head " << h;
        EXPECT_TRUE(same_bits(one.lse, part(all.lse, h))) << "batch " << b << ", head " << h;
      }
    }
  });
}

TEST(AttentionHeads, KeyLengthsEqualShorterCalls) {
  Problem problem = make_problem(
      {.batch = 5, .heads = 4, .kv_heads = 2, .query_len = 9, .key_len = 110, .head_dim = 16, .value_dim = 16}, 5200);
  problem.options.key_lengths = {0, 1, 47, 96, 110};
  problem.options.causal = true;
  for_each_target([&] {
    const Result all = run(problem);
    for (Index b = 0; b < 5; ++b) {
      AttentionOptions options = problem.options;
      options.key_lengths.clear();
      const Index length = problem.options.key_lengths[static_cast<std::size_t>(b)];
      const auto part = [&](const Tensor& tensor) { return ConstTensorView(tensor.view().slice(0, b, b + 1)); };
      const Result one = run(part(problem.inputs.query), part(problem.inputs.key).slice(2, 0, length),
                             part(problem.inputs.value).slice(2, 0, length), options, DType::kF32);
      EXPECT_TRUE(same_bits(one.output, part(all.output))) << length;
      EXPECT_TRUE(same_bits(one.lse, part(all.lse))) << length;
    }
  });
}

struct Packing {
  std::vector<Index> query_lengths, key_lengths;
};

PackedSequences starts_of(const Packing& packing) {
  PackedSequences starts{{0}, {0}};
  for (const Index length : packing.query_lengths) starts.query_starts.push_back(starts.query_starts.back() + length);
  for (const Index length : packing.key_lengths) starts.key_starts.push_back(starts.key_starts.back() + length);
  return starts;
}

const std::vector<Packing> kPackings{{{5, 1, 30, 2}, {5, 60, 30, 97}},
                                     {{0, 3, 0, 4, 0}, {7, 3, 0, 0, 2}},
                                     {{1, 1, 1, 1, 1}, {9, 0, 33, 100, 1}},
                                     {{12}, {12}},
                                     {{}, {}}};

TEST(AttentionHeads, PackedSequencesAgainstTheDefinition) {
  std::uint64_t seed = 5300;
  for (const Packing& packing : kPackings) {
    const PackedSequences starts = starts_of(packing);
    for (int variant = 0; variant < 4; ++variant) {
      Problem problem = make_problem({.heads = 4,
                                      .kv_heads = 2,
                                      .query_len = starts.query_starts.back(),
                                      .key_len = starts.key_starts.back(),
                                      .head_dim = 16,
                                      .value_dim = 12},
                                     ++seed);
      problem.options.packed = starts;
      problem.options.causal = variant % 2 == 1;
      if (variant >= 2) problem.options.window = Window{10, 3};
      if (variant == 3) problem.options.query_offsets.assign(packing.query_lengths.size(), 4);
      expect_right(problem);
    }
  }
}

TEST(AttentionHeads, PackedSequencesEqualSeparateCalls) {
  for (const Packing& packing : kPackings) {
    const PackedSequences starts = starts_of(packing);
    Problem problem = make_problem({.heads = 4,
                                    .kv_heads = 2,
                                    .query_len = starts.query_starts.back(),
                                    .key_len = starts.key_starts.back(),
                                    .head_dim = 16,
                                    .value_dim = 16},
                                   5400, DType::kBF16);
    problem.options.causal = true;
    for_each_target([&] {
      AttentionOptions options = problem.options;
      options.packed = starts;
      const Result all = run(problem.inputs.query, problem.inputs.key, problem.inputs.value, options, DType::kBF16);
      for (std::size_t s = 0; s + 1 < starts.query_starts.size(); ++s) {
        const auto queries = [&](const Tensor& t) {
          return ConstTensorView(t.view().slice(2, starts.query_starts[s], starts.query_starts[s + 1]));
        };
        const auto keys = [&](const Tensor& t) {
          return ConstTensorView(t.view().slice(2, starts.key_starts[s], starts.key_starts[s + 1]));
        };
        const Result one = run(queries(problem.inputs.query), keys(problem.inputs.key), keys(problem.inputs.value),
                               problem.options, DType::kBF16);
        EXPECT_TRUE(same_bits(one.output, queries(all.output))) << "sequence " << s;
        EXPECT_TRUE(same_bits(one.lse, queries(all.lse))) << "sequence " << s;
      }
    });
  }
}

TEST(AttentionHeads, OneOffsetForAllOrOneEach) {
  Problem problem =
      make_problem({.batch = 3, .heads = 2, .kv_heads = 2, .query_len = 6, .key_len = 20, .head_dim = 8, .value_dim = 8}, 5500);
  problem.options.causal = true;
  problem.options.query_offsets = {9};
  expect_right(problem);
  for_each_target([&] {
    const Result one = run(problem);
    AttentionOptions options = problem.options;
    options.query_offsets = {9, 9, 9};
    EXPECT_TRUE(same_bits(one, run(problem.inputs.query, problem.inputs.key, problem.inputs.value, options, DType::kF32)));
  });
  problem.options.query_offsets = {-3, 5, 100};
  expect_right(problem);
}

TEST(AttentionHeads, ZeroLengthsInABatch) {
  Problem problem =
      make_problem({.batch = 4, .heads = 2, .kv_heads = 1, .query_len = 5, .key_len = 9, .head_dim = 8, .value_dim = 8}, 5600);
  problem.options.key_lengths = {0, 9, 0, 1};
  problem.options.sinks = {0.5f, -2.0f};
  expect_right(problem);
  problem.options.key_lengths = {0, 0, 0, 0};
  expect_right(problem);
  for_each_target([&] {
    const Result result = run(problem);
    EXPECT_TRUE(same_bits(result.output, Tensor(DType::kF32, problem.shape.output())));
  });
}

}  // namespace
}  // namespace multihead::test
