// No path needs memory that grows with query_len * key_len, and masks are never expanded.
#include <gtest/gtest.h>

#include <functional>

#include "backward_checks.h"
#include "peak_memory.h"

namespace multihead::test {
namespace {

constexpr long kMiB = 1 << 20;

// Peak of one call on two threads, inputs and outputs not counted. A first call has warmed what threads keep.
void expect_peak_below(long limit, const std::function<void()>& call) {
  set_num_threads(2);
  const PeakMemory peak;
  call();
  const long used = peak.bytes();
  set_num_threads(0);
  if (!peak.works()) GTEST_SKIP() << "this system or build does not tell a peak";
  EXPECT_LE(used, limit) << used / 1024 << " KiB";
}

TEST(AttentionMemory, TheInstrumentSeesAnAllocation) {
  const PeakMemory peak;
  if (!peak.works()) GTEST_SKIP() << "this system or build does not tell a peak";
  { const Tensor large(DType::kF32, {1000, 1000, 10}); }
  EXPECT_GE(peak.bytes(), 30 * kMiB);
}

// Expanded, the mask alone would be 128 MB of bytes or 512 MB of floats.
TEST(AttentionMemory, O26MaskIsNotExpanded) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 4, .query_len = 4000, .key_len = 4000, .head_dim = 8, .value_dim = 8}, 28000);
  const Inputs& in = problem.inputs;
  Tensor plain(DType::kF32, problem.shape.output()), masked(DType::kF32, problem.shape.output());
  attention(in.query, in.key, in.value, plain);
  problem.set_mask(filled(DType::kBool, {2, 1, 1, 4000}, [](Index) { return 1; }));
  expect_peak_below(8 * kMiB, [&] { attention(in.query, in.key, in.value, masked, problem.options); });
  EXPECT_TRUE(near(values_of(masked), values_of(plain), 1e-6));
}

TEST(AttentionMemory, BroadcastBiasIsNotExpanded) {
  Problem problem =
      make_problem({.heads = 4, .kv_heads = 4, .query_len = 2000, .key_len = 4000, .head_dim = 8, .value_dim = 8}, 28100);
  Random random(28100);
  problem.set_bias(filled(DType::kBF16, {1, 4, 1, 4000}, [&](Index) { return random.normal(); }));
  Tensor output(DType::kF32, problem.shape.output());
  expect_peak_below(
      8 * kMiB, [&] { attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options); });
}

// Full length on both sides: 131,072 positions, each seeing itself and 200 before. A row of scores each would be 64 GiB.
TEST(AttentionMemory, LongSequenceUnderAWindow) {
  Problem problem = make_problem({.query_len = 131072, .key_len = 131072, .head_dim = 64, .value_dim = 64}, 28200);
  problem.options.causal = true;
  problem.options.window = last_keys(201);
  Tensor output(DType::kF32, problem.shape.output()), lse(DType::kF32, problem.shape.lse());
  expect_peak_below(64 * kMiB, [&] {
    attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, lse.view());
  });
  // Three rows against the definition.
  for (const Index row : {0, 100000, 131071}) {
    Problem one;
    one.shape = {.query_len = 1, .key_len = 300, .head_dim = 64, .value_dim = 64};
    const Index begin = std::max<Index>(0, row - 299), end = begin + 300;
    one.inputs = {Tensor::copy_of(problem.inputs.query.view().slice(2, row, row + 1)),
                  Tensor::copy_of(problem.inputs.key.view().slice(2, begin, end)),
                  Tensor::copy_of(problem.inputs.value.view().slice(2, begin, end))};
    one.options = problem.options;
    one.options.query_offsets = {row - begin};
    const Result got{Tensor::copy_of(output.view().slice(2, row, row + 1)), Tensor::copy_of(lse.view().slice(2, row, row + 1))};
    EXPECT_TRUE(within_contract(exact_of(one), got)) << row;
  }
}

TEST(AttentionMemory, FewQueriesOverALongCache) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Problem problem = make_problem(
        {.heads = 2, .kv_heads = 1, .query_len = 200, .key_len = 131072, .head_dim = 16, .value_dim = 16}, 28300, dtype);
    Tensor output(dtype, problem.shape.output());
    for (const Index queries : {1, 30, 200}) {
      // 2 MiB of workspace for each of two threads, and what malloc keeps beside it.
      expect_peak_below(6 * kMiB, [&] {
        attention(problem.inputs.query.view().slice(2, 0, queries), problem.inputs.key, problem.inputs.value,
                  output.view().slice(2, 0, queries));
      });
    }
  }
}

TEST(AttentionMemory, CoefficientsNeedNoSecondMatrix) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 2, .query_len = 2000, .key_len = 2000, .head_dim = 16, .value_dim = 16}, 28400);
  const Result result = run(problem);
  Tensor probabilities(DType::kF32, problem.shape.scores());  // 32 MB, zeroed and so in memory
  expect_peak_below(8 * kMiB,
                    [&] { attention_probabilities(problem.inputs.query, problem.inputs.key, result.lse, probabilities); });
}

// Backwards: no score matrix (64 MB a head) and no expanded mask, on one head's chunks and on many heads alike.
TEST(AttentionMemory, GradientsWithoutAScoreMatrix) {
  for (const Index heads : {1, 4}) {
    Problem problem = make_problem(
        {.heads = heads, .kv_heads = heads, .query_len = 4000, .key_len = 4000, .head_dim = 8, .value_dim = 8}, 28500);
    problem.set_mask(filled(DType::kBool, {4000}, [](Index j) { return j % 3 == 0 ? 0 : 1; }));
    const Tensor grad_output = grad_output_of(problem, 1);
    const Result result = run(problem);
    Gradients gradients = gradients_filled(problem, DType::kF32, DType::kF32, kNaN);
    expect_peak_below(8 * kMiB, [&] {
      attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse, grad_output,
                         gradients.views(), problem.options);
    });
  }
}

TEST(AttentionMemory, GradientsOfALongSequenceUnderAWindow) {
  Problem problem = make_problem({.query_len = 131072, .key_len = 131072, .head_dim = 16, .value_dim = 16}, 28600);
  problem.options.causal = true;
  problem.options.window = last_keys(201);
  const Tensor grad_output = grad_output_of(problem, 1);
  const Result result = run(problem);
  Gradients gradients = gradients_filled(problem, DType::kF32, DType::kF32, kNaN);
  expect_peak_below(16 * kMiB, [&] {
    attention_backward(problem.inputs.query, problem.inputs.key, problem.inputs.value, result.output, result.lse, grad_output,
                       gradients.views(), problem.options);
  });
  // The sum over all queries of sum_j p_ij = 1 times grad_output, over keys instead.
  std::vector<double> from_keys(16), from_queries(16);
  for (Index n = 0; n < grad_output.size(); ++n) {
    from_keys[static_cast<std::size_t>(n % 16)] += load_as_double(gradients.value, n);
    from_queries[static_cast<std::size_t>(n % 16)] += load_as_double(grad_output, n);
  }
  for (std::size_t t = 0; t < 16; ++t) EXPECT_NEAR(from_keys[t], from_queries[t], 0.02);
}

}  // namespace
}  // namespace multihead::test
