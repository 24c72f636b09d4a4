#include "multihead/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "attention_checks.h"
#include "random_inputs.h"

namespace multihead::test {
namespace {

ConstTensorView positions(const Tensor& tensor, Index begin, Index end) { return tensor.view().slice(2, begin, end); }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data<char>(), b.data<char>(), static_cast<std::size_t>(a.size()) * size_of(a.dtype())) == 0;
}

// Appends and attends in pieces of the given lengths, and returns output and lse of all positions.
struct Answer {
  Tensor output, lse;
};

Answer in_pieces(KvCache& cache, const Problem& problem, const std::vector<Index>& pieces) {
  const Shape& shape = problem.shape;
  Answer answer{Tensor(DType::kF32, shape.output()), Tensor(DType::kF32, shape.lse())};
  Index at = 0;
  for (const Index piece : pieces) {
    cache.append(positions(problem.inputs.key, at, at + piece), positions(problem.inputs.value, at, at + piece));
    cache.attend(positions(problem.inputs.query, at, at + piece), answer.output.view().slice(2, at, at + piece),
                 problem.options, answer.lse.view().slice(2, at, at + piece));
    at += piece;
  }
  return answer;
}

std::vector<Index> cut(Index length, Index piece) {
  std::vector<Index> pieces;
  for (Index at = 0; at < length; at += piece) pieces.push_back(std::min(piece, length - at));
  return pieces;
}

// Stored in 16 bits, the keys and values are rounded numbers; the pass over all of them sees the same.
Problem self_attention(const Shape& shape, std::uint64_t seed, DType storage) {
  Problem problem = make_problem(shape, seed);
  problem.inputs.key = Tensor::converted(Tensor::converted(problem.inputs.key, storage), DType::kF32);
  problem.inputs.value = Tensor::converted(Tensor::converted(problem.inputs.value, storage), DType::kF32);
  problem.options.causal = true;
  return problem;
}

Answer whole(const Problem& problem) {
  Answer answer{Tensor(DType::kF32, problem.shape.output()), Tensor(DType::kF32, problem.shape.lse())};
  attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, answer.output, problem.options, answer.lse);
  return answer;
}

TEST(KvCache, PromptChunksAndTokensGiveTheBitsOfOneCausalPass) {
  for_each_target([] {
    for (const DType storage : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const Index group : {1, 2, 4, 5}) {
        const Shape shape{2, 2 * group, 2, 130, 130, 40, 24};
        const Problem problem = self_attention(shape, 7, storage);
        const Answer expected = whole(problem);
        for (const Index piece : {130, 50, 3, 1}) {
          SCOPED_TRACE(to_string(shape) + ", storage " + std::string(name_of(storage)) + ", pieces of " +
                       std::to_string(piece));
          KvCache cache({2, 2, 40, 24, storage, 130});
          const Answer answer = in_pieces(cache, problem, cut(130, piece));
          EXPECT_TRUE(same_bits(answer.output, expected.output));
          EXPECT_TRUE(same_bits(answer.lse, expected.lse));
        }
      }
    }
  });
}

TEST(KvCache, LongCachesAreSharedOutAmongThreadsWithoutATrace) {
  const Shape shape{1, 4, 1, 5000, 5000, 64, 64};
  Problem problem = self_attention(shape, 11, DType::kF32);
  KvCache cache({1, 1, 64, 64, DType::kF32, 5000});
  cache.append(problem.inputs.key, problem.inputs.value);
  for (const Index queries : {1, 2, 7}) {
    Answer expected;
    for (const int threads : {1, 2, 3, 7}) {
      set_num_threads(threads);
      Answer answer{Tensor(DType::kF32, {1, 4, queries, 64}), Tensor(DType::kF32, {1, 4, queries})};
      cache.attend(positions(problem.inputs.query, 5000 - queries, 5000), answer.output, problem.options, answer.lse.view());
      if (threads == 1) {
        expected = std::move(answer);
        continue;
      }
      EXPECT_TRUE(same_bits(answer.output, expected.output)) << queries << " queries, " << threads << " threads";
      EXPECT_TRUE(same_bits(answer.lse, expected.lse)) << queries << " queries, " << threads << " threads";
    }
  }
  set_num_threads(0);
}

// Reported: hyprstream#1521. Rows 4 and 5 of the full causal run, whatever the chunking.
TEST(KvCache, SeveralNewTokensSeeTheHistory) {
  Problem problem = grid_problem({1, 1, 1, 6, 6, 2, 2});
  problem.options.causal = true;
  const float expected[2][2] = {{-0.023875732f, -0.719664792f}, {-0.136700475f, 0.169810491f}};
  for (const std::vector<Index>& pieces : {std::vector<Index>{4, 2}, {4, 1, 1}, {1, 5}, {3, 3}, {6}}) {
    KvCache cache({1, 1, 2, 2, DType::kF32, 6});
    const Answer answer = in_pieces(cache, problem, pieces);
    for (Index i = 0; i < 2; ++i) {
      for (Index t = 0; t < 2; ++t) EXPECT_NEAR(answer.output.view().at<float>(0, 0, 4 + i, t), expected[i][t], 2e-6);
    }
  }
}

// Reported: transformers#37574. A window of 8 at the moment it fills, and after.
TEST(KvCache, ASlidingCacheKeepsExactlyItsWindow) {
  KvCache cache({1, 1, 1, 1, DType::kF32, 8, true});
  const auto append = [&](std::vector<float> values) {
    const Index count = static_cast<Index>(values.size());
    const Tensor zeros(DType::kF32, {1, count, 1});
    cache.append(0, zeros, ConstTensorView(values.data(), {1, count, 1}));
  };
  const auto mean = [&] {
    const Tensor query(DType::kF32, {1, 1, 1, 1});
    Tensor output(DType::kF32, {1, 1, 1, 1});
    cache.attend(query, output);
    return *output.data<float>();
  };
  append({10.0f, 10.1f, 10.2f, 10.3f, 10.4f, 10.5f});
  append({10.6f});
  const struct { float next, first, last; } steps[] = {{10.7f, 10.0f, 10.7f}, {10.8f, 10.1f, 10.8f}, {10.9f, 10.2f, 10.9f}};
  for (const auto& step : steps) {
    append({step.next});
    const Tensor kept = cache.values(0);
    ASSERT_EQ(kept.shape(), Dims({1, 8, 1}));
    EXPECT_EQ(kept.data<float>()[0], step.first);
    EXPECT_EQ(kept.data<float>()[7], step.last);
    EXPECT_NEAR(mean(), (step.first + step.last) / 2, 2e-6);
  }
  EXPECT_EQ(cache.length(0), 10);
  EXPECT_EQ(cache.first_position(0), 2);
}

TEST(KvCache, ASlidingCacheGivesTheBitsOfAWindow) {
  const Shape shape{1, 2, 1, 1500, 1500, 16, 16};
  for (const Index window : {1, 8, 95, 96, 200}) {
    for (const Index piece : {1, 7, 300}) {
      Problem problem = self_attention(shape, 23, DType::kF32);
      KvCache cache({1, 1, 16, 16, DType::kF32, window, true});
      ASSERT_GE(cache.max_append(), 300);
      const Answer answer = in_pieces(cache, problem, cut(1500, piece));
      problem.options.window = last_keys(window);
      EXPECT_TRUE(same_bits(answer.output, whole(problem).output)) << "window " << window << ", pieces of " << piece;
    }
  }
}

TEST(KvCache, SequencesOfDifferentLengthsShareACall) {
  const Shape shape{3, 2, 2, 40, 40, 8, 8};
  const Problem problem = self_attention(shape, 5, DType::kF32);
  const std::vector<Index> lengths{40, 3, 17};
  KvCache cache({3, 2, 8, 8, DType::kF32, 40});
  const auto of = [](const Tensor& tensor, Index s, Index length) {
    const Dims& d = tensor.shape();
    const ConstTensorView view = tensor.view();
    return ConstTensorView(view.offset_by(s * view.strides[0]), view.dtype, {d[1], length, d[3]},
                           {view.strides[1], view.strides[2], 1});
  };
  for (Index s = 0; s < 3; ++s) {
    const Index length = lengths[static_cast<std::size_t>(s)];
    cache.append(s, of(problem.inputs.key, s, length), of(problem.inputs.value, s, length));
  }
  const Tensor query = Tensor::copy_of(positions(problem.inputs.query, 0, 2));
  Tensor together(DType::kF32, {3, 2, 2, 8});
  cache.attend(query, together);
  for (const Index s : {2, 0, 1}) {
    Tensor alone(DType::kF32, {1, 2, 2, 8});
    cache.attend(query.view().slice(0, s, s + 1), alone, KvCache::causal_options(), std::nullopt, {s});
    EXPECT_EQ(std::memcmp(alone.data<float>(), &together.view().at<float>(s, 0, 0, 0), 32 * sizeof(float)), 0)
        << "sequence " << s;
  }
}

TEST(KvCache, TruncatingForgetsAndRewrites) {
  const Shape shape{1, 1, 1, 50, 50, 8, 8};
  const Problem problem = self_attention(shape, 3, DType::kF32);
  KvCache cache({1, 1, 8, 8, DType::kF32, 50});
  const Answer expected = in_pieces(cache, problem, {50});
  cache.truncate(0, 20);
  EXPECT_EQ(cache.length(0), 20);
  cache.append(positions(problem.inputs.key, 20, 50), positions(problem.inputs.value, 20, 50));
  Tensor again(DType::kF32, {1, 1, 30, 8});
  cache.attend(positions(problem.inputs.query, 20, 50), again);
  EXPECT_EQ(std::memcmp(again.data<float>(), &expected.output.view().at<float>(0, 0, 20, 0), 240 * sizeof(float)), 0);
}

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(KvCache, RefusesWhatDoesNotFit) {
  KvCache cache({1, 2, 4, 4, DType::kF32, 3});
  const Tensor four(DType::kF32, {1, 2, 4, 4}), narrow(DType::kF32, {1, 2, 1, 3});
  EXPECT_NE(refusal([&] { cache.append(four, four); }).find("holds 0 of 3 positions; got 4 more"), std::string::npos);
  EXPECT_NE(refusal([&] { cache.append(narrow, narrow); }).find("[1, 2, 1, 4]"), std::string::npos);
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_NE(refusal([&] { cache.truncate(0, 1); }).find("expected 0 … 0"), std::string::npos);
  EXPECT_NE(refusal([&] { cache.length(1); }).find("got 1"), std::string::npos);
  Tensor out(DType::kF32, {1, 2, 1, 4});
  EXPECT_NE(refusal([&] {
              cache.attend(Tensor(DType::kF32, {1, 2, 1, 4}), out);
            }).find("at most the 0 positions"),
            std::string::npos);
  AttentionOptions dropping;
  dropping.dropout = Dropout{0.1f, 1};
  EXPECT_NE(refusal([&] {
              cache.attend(Tensor(DType::kF32, {1, 2, 0, 4}), Tensor(DType::kF32, {1, 2, 0, 4}), dropping);
            }).find("expected no dropout"),
            std::string::npos);

  KvCache sliding({1, 1, 4, 4, DType::kF32, 8, true});
  const Tensor many(DType::kF32, {1, 1, sliding.max_append() + 1, 4});
  EXPECT_NE(refusal([&] { sliding.append(many, many); }).find("append them in pieces"), std::string::npos);
  EXPECT_NE(refusal([] { KvCache({1, 1, 4, 4, DType::kI32, 8}); }).find("got i32"), std::string::npos);
}

}  // namespace
}  // namespace multihead::test
