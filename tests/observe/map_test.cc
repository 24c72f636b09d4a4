// Coefficients and rows, against attention_probabilities to the last bit and against the definition in float64.
#include "observe_testing.h"

namespace multihead::test {
namespace {

// Every row of every head of a call.
void expect_rows(const Problem& problem) {
  auto shared = shared_capture_of(problem);
  const Shape& s = problem.shape;
  Tensor all(DType::kF32, s.scores());
  attention_probabilities(problem.inputs.query, problem.inputs.key, shared->lse, all, problem.options);
  const Visibility sees(problem);
  const Tensor exact = exact_probabilities(problem);
  const std::vector<double> growth = exact_of(problem, sees).growth;
  for (Index b = 0; b < s.batch; ++b) {
    const AttentionMap map(shared, b);
    for (Index h = 0; h < s.heads; ++h) {
      for (Index i = 0; i < s.query_len; ++i) {
        const MapRow row = map.row(h, i);
        Index visible = 0;
        const double bound = growth[static_cast<std::size_t>((b * s.heads + h) * s.query_len + i)] *
                             accuracy_of("probabilities", DType::kF32).absolute;
        for (Index j = 0; j < s.key_len; ++j) {
          const auto at = static_cast<std::size_t>(j);
          const bool seen = sees(b, h, i, j);
          visible += seen ? 1 : 0;
          ASSERT_EQ(map.visible(h, i, j), seen);
          ASSERT_EQ(row.state[at], seen ? CellState::kValue : CellState::kMasked) << i << ", " << j;
          ASSERT_TRUE(same_float(row.probability[at], all.view().at<float>(b, h, i, j))) << i << ", " << j;
          const double want = exact.view().at<double>(b, h, i, j);
          ASSERT_NEAR(static_cast<double>(row.probability[at]), want, bound);
          if (!seen) {
            ASSERT_EQ(row.log2[at], -HUGE_VALF);
          } else if (want > 1e-290) {
            ASSERT_NEAR(static_cast<double>(row.log2[at]), std::log2(want),
                        growth[static_cast<std::size_t>((b * s.heads + h) * s.query_len + i)] * 1e-5 +
                            1e-6 * std::abs(std::log2(want)));
          }
        }
        ASSERT_EQ(map.visible_keys(h, i), visible);
        const Index j = (i * 7 + h) % s.key_len;
        const Coefficient one = map.at(h, i, j);
        ASSERT_TRUE(same_float(one.probability, row.probability[static_cast<std::size_t>(j)]));
        ASSERT_TRUE(same_float(one.log2, row.log2[static_cast<std::size_t>(j)]));
        ASSERT_EQ(one.state, row.state[static_cast<std::size_t>(j)]);
      }
    }
  }
}

TEST(AttentionMap, RowsOfEveryKindOfCall) {
  for_each_combination(1, 101, [](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    expect_rows(problem);
  });
}

TEST(AttentionMap, RowsOfPairsOfConstraints) {
  int count = 0;
  for_each_combination(2, 202, [&](Problem& problem, const std::string& name) {
    if (++count % 4 != 0) return;
    SCOPED_TRACE(name);
    expect_rows(problem);
  });
  EXPECT_GT(count, 100);
}

TEST(AttentionMap, HasTheSameRowsOnEveryTargetAsAttentionProbabilities) {
  for_each_target([] {
    Problem problem = make_problem({.heads = 4, .kv_heads = 2, .query_len = 70, .key_len = 230, .head_dim = 19, .value_dim = 2},
                                   5, DType::kF16);
    problem.options.causal = true;
    problem.options.window = Window{120, 0};
    expect_rows(problem);
  });
}

// Scores of ±1000: p underflows to 0, its logarithm does not.
TEST(AttentionMap, LogarithmsSurviveUnderflow) {
  Problem problem = make_problem({.query_len = 1, .key_len = 3, .head_dim = 1, .value_dim = 1}, 1);
  problem.options.scale = 1.0f;
  problem.inputs.query.data<float>()[0] = 1;
  for (Index j = 0; j < 3; ++j) problem.inputs.key.data<float>()[j] = static_cast<float>(-1000 * j);
  const MapRow row = AttentionMap(shared_capture_of(problem)).row(0, 0);
  EXPECT_EQ(row.probability[2], 0.0f);
  EXPECT_EQ(row.state[2], CellState::kValue);
  EXPECT_NEAR(static_cast<double>(row.log2[2]), -2000 * std::log2(std::exp(1.0)), 1e-3);
}

// What is not visible may hold NaN; what is visible and NaN is told.
TEST(AttentionMap, NanInInvisiblePlacesChangesNothing) {
  Problem problem = causal_problem(2, 50, 8, 3);
  problem.options.key_lengths = {40};
  problem.options.query_offsets = {0};
  const AttentionMap clean(shared_capture_of(problem));
  Problem poisoned = causal_problem(2, 50, 8, 3);
  poisoned.options = problem.options;
  for (Index n = 40 * 8; n < 50 * 8; ++n) poisoned.inputs.key.data<float>()[n] = std::numeric_limits<float>::quiet_NaN();
  const AttentionMap map(shared_capture_of(poisoned));
  for (Index i = 0; i < 50; ++i) {
    ASSERT_EQ(clean.row(1, i).log2, map.row(1, i).log2);
    ASSERT_EQ(clean.row(1, i).state, map.row(1, i).state);
  }
  const TileRequest request{{0, 50}, {0, 50}, 5, 5, Pooling::kMass};
  EXPECT_EQ(clean.tile(0, request).log2, map.tile(0, request).log2);
}

TEST(AttentionMap, AVisibleNanIsTold) {
  Problem problem = causal_problem(1, 30, 8, 3);
  problem.inputs.key.data<float>()[20 * 8] = std::numeric_limits<float>::quiet_NaN();
  const AttentionMap map(shared_capture_of(problem));
  EXPECT_EQ(map.at(0, 19, 20).state, CellState::kMasked);
  EXPECT_EQ(map.at(0, 25, 20).state, CellState::kNonFinite);
  EXPECT_EQ(map.at(0, 19, 5).state, CellState::kValue);
  const Tile tile = map.tile(0, {{0, 30}, {0, 30}, 3, 3, Pooling::kMean});
  EXPECT_EQ(tile.state[tile.at(0, 0)], CellState::kValue);
  EXPECT_EQ(tile.state[tile.at(2, 2)], CellState::kNonFinite);
  EXPECT_EQ(tile.state[tile.at(0, 2)], CellState::kMasked);
}

TEST(AttentionMap, TopIsTheSortedRow) {
  for_each_combination(1, 404, [](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    const AttentionMap map(shared_capture_of(problem));
    const Index h = problem.shape.heads - 1, i = problem.shape.query_len - 1;
    const MapRow row = map.row(h, i);
    std::vector<Index> keys;
    for (Index j = 0; j < problem.shape.key_len; ++j) {
      if (row.state[static_cast<std::size_t>(j)] == CellState::kValue) keys.push_back(j);
    }
    std::stable_sort(keys.begin(), keys.end(), [&](Index a, Index b) {
      return row.log2[static_cast<std::size_t>(a)] > row.log2[static_cast<std::size_t>(b)];
    });
    for (const Index k : {Index{0}, Index{1}, Index{7}, Index{1000}}) {
      const std::vector<TopKey> top = map.top(h, i, k);
      ASSERT_EQ(top.size(), std::min(static_cast<std::size_t>(k), keys.size()));
      for (std::size_t n = 0; n < top.size(); ++n) {
        EXPECT_EQ(top[n].key, keys[n]);
        EXPECT_TRUE(same_float(top[n].probability, row.probability[static_cast<std::size_t>(keys[n])]));
      }
    }
  });
}

TEST(AttentionMap, TiesInTopGoByKey) {
  const AttentionMap map(shared_capture_of(uniform_problem({.query_len = 1, .key_len = 9000, .head_dim = 2})));
  const std::vector<TopKey> top = map.top(0, 0, 5);
  for (Index n = 0; n < 5; ++n) EXPECT_EQ(top[static_cast<std::size_t>(n)].key, n);
}

TEST(AttentionMap, PositionsCountFromTheSequencesFirstKey) {
  Problem problem = make_problem({.query_len = 7, .key_len = 12, .head_dim = 3, .value_dim = 3}, 1);
  problem.options.packed = PackedSequences{{0, 3, 3, 7}, {0, 5, 6, 12}};
  const AttentionMap map(shared_capture_of(problem));
  EXPECT_EQ(map.position(0), 2);
  EXPECT_EQ(map.position(3), 2);
  EXPECT_EQ(map.at(0, 0, 7).state, CellState::kMasked);
  EXPECT_FALSE(map.may_see({0, 3}, {5, 12}));
  EXPECT_TRUE(map.may_see({2, 4}, {5, 12}));
}

TEST(AttentionMap, EmptySizes) {
  const AttentionMap no_keys(shared_capture_of(make_problem({.query_len = 3, .key_len = 0, .head_dim = 2}, 1)));
  EXPECT_EQ(no_keys.row(0, 2).log2.size(), 0u);
  EXPECT_TRUE(no_keys.top(0, 0, 3).empty());
  EXPECT_EQ(no_keys.tile(0, TileAddress{}).state[0], CellState::kOutside);
  const AttentionMap no_rows(shared_capture_of(make_problem({.query_len = 0, .key_len = 4, .head_dim = 2}, 1)));
  EXPECT_EQ(no_rows.max_zoom(), 0);
  EXPECT_EQ(no_rows.tile(0, TileAddress{}).state[0], CellState::kOutside);
  EXPECT_EQ(statistics(no_rows).front().live_rows, 0);
  EXPECT_EQ(statistics(no_keys).front().live_rows, 0);
}

TEST(AttentionMap, RefusesWhatIsNotThere) {
  auto shared = shared_capture_of(causal_problem(2, 300, 4, 1));
  EXPECT_NE(refusal_of([&] { AttentionMap(shared, 1); }).find("batch"), std::string::npos);
  EXPECT_NE(refusal_of([&] { AttentionMap(nullptr); }).find("null"), std::string::npos);
  const AttentionMap map(shared);
  EXPECT_NE(refusal_of([&] { map.at(2, 0, 0); }).find("head"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.at(0, 300, 0); }).find("row"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.at(0, 0, -1); }).find("key"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.tile(0, TileAddress{2, 0, 0}); }).find("zoom"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.tile(0, TileAddress{1, 2, 0}); }).find("x and y"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.tile(0, {{5, 5}, {0, 3}, 1, 1, Pooling::kMax}); }).find("rows"), std::string::npos);
  EXPECT_NE(refusal_of([&] { map.tile(0, {{0, 5}, {0, 3}, 1, 4, Pooling::kMax}); }).find("width"), std::string::npos);
}

}  // namespace
}  // namespace multihead::test
