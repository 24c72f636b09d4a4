// A row's bits depend on its own inputs and the target, and on nothing else: not on threads, neighbours, callers or cuts.
#include <gtest/gtest.h>
#include <omp.h>

#include <string>
#include <thread>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

// Under every target, body() with fresh freedom over the number of threads.
template <typename Body>
void for_each_target_any_threads(Body body) {
  for_each_target([&] {
    body();
    set_num_threads(1);
  });
}

TEST(AttentionDeterminism, O24AnyNumberOfThreads) {
  std::vector<Problem> problems;
  for (const Index keys : {31, 32, 33, 64, 65, 257}) {
    problems.push_back(make_problem({.query_len = keys, .key_len = keys, .head_dim = 64, .value_dim = 64}, 22000));
  }
  problems.push_back(make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 64, .key_len = 64, .head_dim = 64, .value_dim = 64}, 22001));
  problems.push_back(
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 500, .key_len = 500, .head_dim = 40, .value_dim = 72}, 22002));
  // Work that may be split along the keys.
  problems.push_back(
      make_problem({.heads = 4, .kv_heads = 2, .query_len = 1, .key_len = 30000, .head_dim = 16, .value_dim = 16}, 22003));
  problems.push_back(make_problem({.query_len = 7, .key_len = 9000, .head_dim = 32, .value_dim = 32}, 22004, DType::kBF16));
  for (std::size_t n = 0; n < problems.size(); ++n) problems[n].options.causal = n % 2 == 0;
  for_each_target_any_threads([&] {
    for (const Problem& problem : problems) {
      set_num_threads(1);
      const Result one = run(problem);
      for (const int threads : {2, 3, 4, 7, 64}) {
        set_num_threads(threads);
        EXPECT_TRUE(same_bits(one, run(problem))) << threads << " threads; " << to_string(problem.shape);
      }
    }
  });
}

// Every option, for many queries and for few over many keys, which may be cut along the keys.
TEST(AttentionDeterminism, EveryOptionOnAnyNumberOfThreads) {
  for (const auto& [query_len, key_len] : std::vector<std::pair<Index, Index>>{{130, 700}, {1, 3000}, {3, 3000}}) {
    Problem problem = make_problem(
        {.batch = 2, .heads = 6, .kv_heads = 2, .query_len = query_len, .key_len = key_len, .head_dim = 24, .value_dim = 24},
        22100);
    Random random(22100);
    problem.options.causal = true;
    problem.options.window = Window{key_len / 2, 5};
    problem.options.key_lengths = {key_len, key_len / 2};
    problem.options.softcap = 5.0f;
    problem.options.alibi_slopes = alibi_slopes(6);
    problem.options.sinks = {0, 1, 2, 3, 4, -HUGE_VALF};
    problem.set_mask(random_mask({2, 1, query_len, key_len}, 0.7, random));
    problem.set_bias(filled(DType::kF32, {1, 6, 1, key_len}, [&](Index) { return random.normal(); }));
    const Exact exact = exact_of(problem);
    for_each_target_any_threads([&] {
      set_num_threads(1);
      const Result one = run(problem);
      EXPECT_TRUE(within_contract(exact, one)) << to_string(problem.shape);
      for (const int threads : {2, 3, 4, 7}) {
        set_num_threads(threads);
        for (int repeat = 0; repeat < 3; ++repeat) EXPECT_TRUE(same_bits(one, run(problem))) << threads << " threads";
      }
    });
  }
}

// Several callers at once, each with its own problem.
TEST(AttentionDeterminism, ManyCallersAtOnce) {
  std::vector<Problem> problems;
  for (std::uint64_t n = 0; n < 6; ++n) {
    problems.push_back(make_problem({.heads = 2,
                                     .kv_heads = 1,
                                     .query_len = 40 + static_cast<Index>(n),
                                     .key_len = 200,
                                     .head_dim = 16 + 8 * static_cast<Index>(n),
                                     .value_dim = 24},
                                    22200 + n));
  }
  for_each_target_any_threads([&] {
    std::vector<Result> expected(problems.size()), got(problems.size());
    for (std::size_t n = 0; n < problems.size(); ++n) expected[n] = run(problems[n]);
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      std::vector<std::thread> callers;
      for (std::size_t n = 0; n < problems.size(); ++n) {
        callers.emplace_back([&, n] {
          for (int repeat = 0; repeat < 5; ++repeat) got[n] = run(problems[n]);
        });
      }
      for (std::thread& caller : callers) caller.join();
      for (std::size_t n = 0; n < problems.size(); ++n) EXPECT_TRUE(same_bits(expected[n], got[n])) << "caller " << n;
    }
  });
}

TEST(AttentionDeterminism, InsideTheCallersParallelRegion) {
  std::vector<Problem> problems;
  for (std::uint64_t n = 0; n < 4; ++n) {
    problems.push_back(
        make_problem({.heads = 2, .kv_heads = 2, .query_len = 70, .key_len = 150, .head_dim = 32, .value_dim = 32}, 22300 + n));
  }
  for_each_target_any_threads([&] {
    std::vector<Result> expected(problems.size()), got(problems.size());
    for (std::size_t n = 0; n < problems.size(); ++n) expected[n] = run(problems[n]);
    set_num_threads(3);
    const int count = static_cast<int>(problems.size());
#pragma omp parallel for num_threads(4)
    for (int n = 0; n < count; ++n) got[static_cast<std::size_t>(n)] = run(problems[static_cast<std::size_t>(n)]);
    for (std::size_t n = 0; n < problems.size(); ++n) EXPECT_TRUE(same_bits(expected[n], got[n])) << "iteration " << n;
  });
}

// A prompt in one call, in chunks and token by token. `extra` keys lie behind the last one, as in a cache with room.
void expect_same_in_any_cut(const Problem& whole, const std::vector<Index>& chunk_lengths, Index extra) {
  const Shape& s = whole.shape;
  Shape longer = s;
  longer.key_len += extra;
  const auto with_room = [&](const Tensor& tensor, const Dims& shape) {
    Tensor room = filled(tensor.dtype(), shape, [](Index) { return kNaN; });
    const TensorView used = room.view().slice(2, 0, s.key_len);
    for (Index row = 0; row < s.batch * s.kv_heads * s.key_len; ++row) {
      const Index plane = row / s.key_len, j = row % s.key_len, width = shape[3];
      for (Index t = 0; t < width; ++t) {
        set_element(used, (plane * shape[2] + j) * width + t, load_as_double(tensor, (plane * s.key_len + j) * width + t));
      }
    }
    return room;
  };
  const Tensor key = with_room(whole.inputs.key, longer.key()), value = with_room(whole.inputs.value, longer.value());
  const Index history = s.key_len - s.query_len;
  for_each_target([&] {
    const Result right = run(whole);
    for (const Index length : chunk_lengths) {
      for (Index begin = 0; begin < s.query_len; begin += length) {
        const Index end = std::min(begin + length, s.query_len);
        AttentionOptions options = whole.options;
        options.key_lengths.assign(static_cast<std::size_t>(s.batch), history + end);
        options.query_offsets = {history + begin};
        const Result chunk = run(whole.inputs.query.view().slice(2, begin, end), key, value, options, whole.output_dtype);
        ASSERT_TRUE(same_bits(chunk.output, right.output.view().slice(2, begin, end))) << "rows " << begin << " to " << end;
        ASSERT_TRUE(same_bits(chunk.lse, right.lse.view().slice(2, begin, end))) << "rows " << begin << " to " << end;
      }
    }
  });
}

TEST(AttentionDeterminism, WholePromptChunksAndTokens) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Problem problem = make_problem(
        {.heads = 4, .kv_heads = 2, .query_len = 230, .key_len = 230, .head_dim = 20, .value_dim = 24}, 22400, dtype);
    problem.options.causal = true;
    expect_same_in_any_cut(problem, {1, 2, 3, 7, 24, 25, 100, 229}, 50);
  }
}

TEST(AttentionDeterminism, WholePromptChunksAndTokensUnderEveryOption) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 3, .kv_heads = 1, .query_len = 60, .key_len = 260, .head_dim = 16, .value_dim = 16}, 22500);
  problem.options.causal = true;
  problem.options.window = Window{150, std::nullopt};
  problem.options.softcap = 4.0f;
  problem.options.alibi_slopes = alibi_slopes(3);
  problem.options.sinks = {0.5f, -1.0f, 2.0f};
  expect_same_in_any_cut(problem, {1, 5, 31}, 7);
}

// Decoding over a cache long enough to be cut along the keys, against the same rows in a longer call.
TEST(AttentionDeterminism, DecodingALongCache) {
  Problem problem =
      make_problem({.heads = 4, .kv_heads = 2, .query_len = 33, .key_len = 5000, .head_dim = 16, .value_dim = 16}, 22600);
  problem.options.causal = true;
  expect_same_in_any_cut(problem, {1, 2, 8}, 100);
}

// Without causality too: a row on its own, and among any others.
TEST(AttentionDeterminism, RowsDoNotMix) {
  Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 210, .key_len = 310, .head_dim = 16, .value_dim = 16}, 22700);
  Random random(22700);
  problem.set_mask(random_mask({1, 1, 210, 310}, 0.5, random));
  for_each_target([&] {
    const Result all = run(problem);
    for (const auto& [begin, end] :
         std::vector<std::pair<Index, Index>>{{0, 1}, {1, 2}, {17, 20}, {23, 49}, {100, 210}, {209, 210}}) {
      AttentionOptions options;
      options.mask = problem.mask.view().slice(2, begin, end);
      const Result some =
          run(problem.inputs.query.view().slice(2, begin, end), problem.inputs.key, problem.inputs.value, options, DType::kF32);
      EXPECT_TRUE(same_bits(some.output, all.output.view().slice(2, begin, end))) << begin;
      EXPECT_TRUE(same_bits(some.lse, all.lse.view().slice(2, begin, end))) << begin;
    }
  });
}

// Columns of the output do not depend on the other columns of value.
TEST(AttentionDeterminism, ColumnsDoNotMix) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 30, .key_len = 310, .head_dim = 16, .value_dim = 50}, 22800);
  for_each_target([&] {
    const Result all = run(problem);
    for (const auto& [begin, end] : std::vector<std::pair<Index, Index>>{{0, 1}, {3, 10}, {48, 50}}) {
      const Result some =
          run(problem.inputs.query, problem.inputs.key, problem.inputs.value.view().slice(3, begin, end), {}, DType::kF32);
      EXPECT_TRUE(same_bits(some.output, all.output.view().slice(3, begin, end))) << begin;
      EXPECT_TRUE(same_bits(some.lse, all.lse));
    }
  });
}

TEST(AttentionDeterminism, WithAndWithoutLse) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 30, .key_len = 310, .head_dim = 16, .value_dim = 16}, 22900);
  for_each_target([&] {
    Tensor output(DType::kF32, problem.shape.output());
    attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options);
    EXPECT_TRUE(same_bits(output, run(problem).output));
  });
}

}  // namespace
}  // namespace multihead::test
