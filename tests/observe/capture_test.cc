// Captures keep what a call used, own it, and change nothing about the call.
#include <cstring>

#include "observe_testing.h"

namespace multihead::test {
namespace {

TEST(Capture, TheCallHasTheBitsOfAttention) {
  for_each_combination(1, 11, [](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    const Result plain = run(problem);
    Tensor output(problem.output_dtype, problem.shape.output()), lse(DType::kF32, problem.shape.lse());
    const Capture with_lse =
        capture(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, {}, lse.view());
    EXPECT_TRUE(same_bits(output, plain.output));
    EXPECT_TRUE(same_bits(lse, plain.lse));
    EXPECT_EQ(with_lse.lse.dtype(), DType::kF64);
    EXPECT_TRUE(same_bits(Tensor::converted(with_lse.lse, DType::kF32), plain.lse));
    EXPECT_TRUE(same_bits(with_lse.query, problem.inputs.query));
    EXPECT_TRUE(same_bits(with_lse.key, problem.inputs.key));
    EXPECT_EQ(with_lse.value.rank(), 0);
    EXPECT_EQ(with_lse.output.rank(), 0);
    const Capture all = capture_of(problem);
    EXPECT_TRUE(same_bits(all.value, problem.inputs.value));
    EXPECT_TRUE(same_bits(all.output, plain.output));
  });
}

TEST(Capture, OwnsMasksAndBiasesAndSurvivesMovesAndCopies) {
  Problem problem =
      make_problem({.batch = 2, .heads = 3, .kv_heads = 3, .query_len = 5, .key_len = 7, .head_dim = 4, .value_dim = 4}, 1);
  Random random(2);
  problem.set_mask(random_mask({2, 1, 1, 7}, 0.6, random));
  problem.set_bias(filled(DType::kF32, {1, 3, 5, 7}, [&](Index) { return random.normal(); }));
  const std::string before(problem.mask.data<char>(), static_cast<std::size_t>(problem.mask.size()));
  Capture first = capture_of(problem);
  const Capture copied = first.copy();
  const Capture moved = std::move(first);
  std::memset(problem.mask.data<char>(), 0, static_cast<std::size_t>(problem.mask.size()));
  for (const Capture* capture : {&moved, &copied}) {
    const Tensor mask = Tensor::copy_of(*capture->options.mask);
    EXPECT_EQ(std::string(mask.data<char>(), static_cast<std::size_t>(mask.size())), before);
    EXPECT_TRUE(same_bits(*capture->options.attention_bias, problem.bias));
    EXPECT_EQ(capture->mask_memory.size(), 14) << "broadcast axes are not expanded";
  }
  EXPECT_NE(moved.options.mask->data, copied.options.mask->data);
}

// T5's bias: each query sees the same line of numbers, one step further.
TEST(Capture, ABiasOfOverlappingRowsIsNotExpanded) {
  constexpr Index n = 40;
  Problem problem = make_problem({.heads = 2, .kv_heads = 2, .query_len = n, .key_len = n, .head_dim = 8, .value_dim = 8}, 3);
  problem.bias = grid({2, 2 * n - 1}, 4);
  problem.options.attention_bias =
      ConstTensorView(problem.bias.data<float>() + n - 1, DType::kF32, {1, 2, n, n}, {0, 2 * n - 1, -1, 1});
  const Capture capture = capture_of(problem);
  EXPECT_LE(capture.bias_memory.size(), 2 * (2 * n - 1));
  EXPECT_TRUE(same_bits(*capture.options.attention_bias, *problem.options.attention_bias));
}

TEST(Capture, OfTransposedHeadsIsDense) {
  const Problem problem = causal_problem(2, 9, 4, 5);
  Tensor interleaved = Tensor::copy_of(problem.inputs.query.view().transposed(1, 2));
  Tensor output(DType::kF32, problem.shape.output());
  const Capture capture = multihead::capture(interleaved.view().transposed(1, 2), problem.inputs.key, problem.inputs.value,
                                             output, problem.options);
  EXPECT_TRUE(same_bits(capture.query, problem.inputs.query));
}

TEST(Capture, RefusesWhatAttentionRefuses) {
  const Problem problem = causal_problem(2, 9, 4, 5);
  Tensor output(DType::kF32, {1, 2, 9, 4});
  const std::string text =
      refusal_of([&] { capture(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options); });
  EXPECT_NE(text.find("output"), std::string::npos) << text;
}

TEST(Capture, CheckNamesThePartThatDoesNotFit) {
  const Problem problem = causal_problem(2, 9, 4, 5);
  const auto text_of = [&](const std::function<void(Capture&)>& spoil) {
    Capture capture = capture_of(problem);
    spoil(capture);
    return refusal_of([&] { check(capture); });
  };
  EXPECT_NE(text_of([](Capture& c) { c.lse = Tensor(DType::kF32, {1, 2, 8}); }).find("lse"), std::string::npos);
  EXPECT_NE(text_of([](Capture& c) { c.key = Tensor(DType::kF32, {1, 1, 9, 5}); }).find("head_dim"), std::string::npos);
  EXPECT_NE(text_of([](Capture& c) { c.output = Tensor(DType::kF32, {1, 2, 9, 4}); }).find("output"), std::string::npos);
  EXPECT_NE(text_of([](Capture& c) {
              c.output_weight = Tensor(DType::kF32, {5, 7});
            }).find("output_weight"),
            std::string::npos);
  EXPECT_NE(text_of([](Capture& c) { c.labels.key_tokens = {"a"}; }).find("key_tokens"), std::string::npos);
  EXPECT_NE(text_of([](Capture& c) { c.labels.query_tokens.resize(3 * 9); }).find("query_tokens"), std::string::npos);
  EXPECT_NE(text_of([](Capture& c) { c = Capture(); }).find("query"), std::string::npos);
}

// ---- caches -----------------------------------------------------------------------------------------------------------------

// A capture over a cache has the coefficients of one pass over everything, restricted to its rows and to the keys it kept.
void expect_rows_of_one_pass(const KvCacheConfig& config, Index chunk, Index length) {
  Problem problem = make_problem({.batch = config.sequences,
                                  .heads = 2,
                                  .kv_heads = config.num_kv_heads,
                                  .query_len = length,
                                  .key_len = length,
                                  .head_dim = config.head_dim,
                                  .value_dim = config.head_dim},
                                 7);
  for (Tensor* tensor : {&problem.inputs.key, &problem.inputs.value}) {  // what the storage keeps of them
    *tensor = Tensor::converted(Tensor::converted(*tensor, config.dtype), DType::kF32);
  }
  problem.options.causal = true;
  if (config.sliding) problem.options.window = last_keys(config.capacity);
  const AttentionMap whole(shared_capture_of(problem), config.sequences - 1);
  KvCache cache(config);
  for (Index begin = 0; begin < length; begin += chunk) {
    const Index end = std::min(length, begin + chunk);
    const auto part = [&](const Tensor& tensor) { return Tensor::copy_of(tensor.view().slice(2, begin, end)); };
    cache.append(part(problem.inputs.key), part(problem.inputs.value));
    const Tensor query = part(problem.inputs.query);
    Tensor output(DType::kF32, {config.sequences, 2, end - begin, config.head_dim});
    auto shared = std::make_shared<const Capture>(capture(cache, query, output));
    const AttentionMap map(shared, config.sequences - 1);
    const Index first = end - map.key_len();
    for (Index i = begin; i < end; ++i) {
      const MapRow got = map.row(1, i - begin), want = whole.row(1, i);
      for (Index j = 0; j < map.key_len(); ++j) {
        const auto at = static_cast<std::size_t>(j);
        ASSERT_TRUE(same_float(got.log2[at], want.log2[static_cast<std::size_t>(first + j)])) << i << ", " << first + j;
        ASSERT_EQ(got.state[at], want.state[static_cast<std::size_t>(first + j)]);
      }
      for (Index j = 0; j < first; ++j)
        ASSERT_EQ(want.state[static_cast<std::size_t>(j)], CellState::kMasked) << "a key was lost";
    }
  }
}

TEST(CaptureOverCache, ChunksHaveTheCoefficientsOfOnePass) {
  expect_rows_of_one_pass({.sequences = 1, .num_kv_heads = 2, .head_dim = 5, .capacity = 40}, 7, 40);
  expect_rows_of_one_pass({.sequences = 2, .num_kv_heads = 1, .head_dim = 8, .capacity = 40}, 1, 12);
}
TEST(CaptureOverCache, SixteenBitStorageUnderF32Queries) {
  expect_rows_of_one_pass({.sequences = 1, .num_kv_heads = 1, .head_dim = 8, .dtype = DType::kBF16, .capacity = 30}, 6, 30);
}
TEST(CaptureOverCache, ASlidingCacheKeepsWhatItsChunkSaw) {
  expect_rows_of_one_pass({.sequences = 1, .num_kv_heads = 1, .head_dim = 8, .capacity = 11, .sliding = true}, 5, 900);
}

TEST(CaptureOverCache, SequencesOfDifferentLengths) {
  KvCache cache({.sequences = 2, .num_kv_heads = 1, .head_dim = 4, .capacity = 20});
  const Tensor first = grid({1, 6, 4}, 1), second = grid({1, 13, 4}, 2);
  cache.append(0, first, first);
  cache.append(1, second, second);
  const Tensor query = grid({2, 1, 3, 4}, 3);
  Tensor output(DType::kF32, {2, 1, 3, 4}), lse(DType::kF32, {2, 1, 3});
  auto shared =
      std::make_shared<const Capture>(capture(cache, query, output, KvCache::causal_options(), {true, false}, lse.view()));
  EXPECT_EQ(to_string(shared->key.shape()), "[2, 1, 13, 4]");
  EXPECT_EQ(shared->options.key_lengths, (std::vector<Index>{6, 13}));
  for (Index b = 0; b < 2; ++b) {
    const AttentionMap map(shared, b);
    for (Index i = 0; i < 3; ++i) {
      EXPECT_EQ(map.visible_keys(0, i), (b == 0 ? 4 : 11) + i);
      double sum = 0;
      for (const float p : map.row(0, i).probability) sum += static_cast<double>(p);
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

TEST(CaptureOverCache, MasksOverAbsolutePositions) {
  KvCache cache({.sequences = 1, .num_kv_heads = 1, .head_dim = 4, .capacity = 5, .sliding = true});
  const Tensor rows = grid({1, 1, 1, 4}, 1);
  for (int i = 0; i < 9; ++i) cache.append(rows, rows);
  AttentionOptions options = KvCache::causal_options();
  const Tensor mask = filled(DType::kBool, {9}, [](Index j) { return j == 6 ? 0.0 : 1.0; });
  options.mask = mask.view();
  Tensor output(DType::kF32, {1, 1, 1, 4});
  const AttentionMap map(std::make_shared<const Capture>(capture(cache, rows, output, options)));
  ASSERT_EQ(map.key_len(), 5);  // positions 4 … 8
  EXPECT_FALSE(map.visible(0, 0, 2));
  EXPECT_EQ(map.visible_keys(0, 0), 4);
}

}  // namespace
}  // namespace multihead::test
