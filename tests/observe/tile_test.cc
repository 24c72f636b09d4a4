// Tiles and pyramids against cells pooled one coefficient at a time in float64.
#include <atomic>

#include "multihead/runtime.h"
#include "observe_testing.h"

namespace multihead::test {
namespace {

// A cell by the definitions, from the rows of the map.
struct Cell {
  Index visible = 0;
  double log2_sum = -kInfinity;
  float max_log2 = -HUGE_VALF;
  Index max_row = -1, max_key = -1;
};

class Rows {
 public:
  Rows(const AttentionMap& map, Index head) : map_(map) {
    for (Index i = 0; i < map.query_len(); ++i) rows_.push_back(map.row(head, i));
  }

  Cell pool(IndexRange rows, IndexRange keys) const {
    Cell cell;
    for (Index i = rows.begin; i < std::min(rows.end, map_.query_len()); ++i) {
      for (Index j = keys.begin; j < std::min(keys.end, map_.key_len()); ++j) {
        const auto row = static_cast<std::size_t>(i), key = static_cast<std::size_t>(j);
        if (rows_[row].state[key] != CellState::kValue) continue;
        ++cell.visible;
        const float log2 = rows_[row].log2[key];
        if (log2 > cell.max_log2) cell.max_log2 = log2, cell.max_row = i, cell.max_key = j;
        const double a = std::max(cell.log2_sum, static_cast<double>(log2)),
                     b = std::min(cell.log2_sum, static_cast<double>(log2));
        cell.log2_sum = a + std::log2(1 + std::exp2(b - a));
      }
    }
    return cell;
  }

 private:
  const AttentionMap& map_;
  std::vector<MapRow> rows_;
};

double pooled(const Cell& cell, Pooling pooling, Index rows) {
  if (pooling == Pooling::kMax) return static_cast<double>(cell.max_log2);
  return cell.log2_sum - std::log2(static_cast<double>(pooling == Pooling::kMean ? cell.visible : rows));
}

void expect_tile(const AttentionMap& map, const Rows& rows, const Tile& tile, double tolerance = 3e-6) {
  for (Index r = 0; r < tile.height; ++r) {
    for (Index c = 0; c < tile.width; ++c) {
      const auto edge = [](IndexRange range, Index n, Index cells) { return range.begin + n * range.size() / cells; };
      const IndexRange rows_of{edge(tile.rows, r, tile.height), edge(tile.rows, r + 1, tile.height)};
      const IndexRange keys_of{edge(tile.keys, c, tile.width), edge(tile.keys, c + 1, tile.width)};
      const std::size_t n = tile.at(r, c);
      if (rows_of.begin >= map.query_len() || keys_of.begin >= map.key_len()) {
        ASSERT_EQ(tile.state[n], CellState::kOutside);
        continue;
      }
      const Cell cell = rows.pool(rows_of, keys_of);
      ASSERT_EQ(tile.state[n], cell.visible > 0 ? CellState::kValue : CellState::kMasked) << r << ", " << c;
      if (cell.visible == 0) {
        ASSERT_EQ(tile.log2[n], -HUGE_VALF);
        continue;
      }
      ASSERT_TRUE(same_float(tile.max_log2[n], cell.max_log2)) << r << ", " << c;
      ASSERT_EQ(tile.max_row[n], cell.max_row) << r << ", " << c;
      ASSERT_EQ(tile.max_key[n], cell.max_key) << r << ", " << c;
      const double want = pooled(cell, tile.pooling, std::min(rows_of.end, map.query_len()) - rows_of.begin);
      ASSERT_NEAR(static_cast<double>(tile.log2[n]), want, tolerance + 2e-7 * std::abs(want)) << r << ", " << c;
    }
  }
}

constexpr std::array kPoolings{Pooling::kMax, Pooling::kMean, Pooling::kMass};

// A few rectangles of a map: all of it, beyond it, odd pieces, single coefficients.
void expect_tiles(const Problem& problem, Random& random) {
  const AttentionMap map(shared_capture_of(problem), problem.shape.batch - 1);
  const Index head = random.between(0, problem.shape.heads - 1);
  const Rows rows(map, head);
  for (const Pooling pooling : kPoolings) {
    expect_tile(map, rows, map.tile(head, TileAddress{}, pooling));
    for (int n = 0; n < 3; ++n) {
      TileRequest request{{0, 0}, {0, 0}, 1, 1, pooling};
      request.rows.begin = random.between(0, map.query_len());
      request.rows.end = request.rows.begin + random.between(1, map.query_len());
      request.keys.begin = random.between(0, map.key_len());
      request.keys.end = request.keys.begin + random.between(1, map.key_len());
      request.height = random.between(1, request.rows.size());
      request.width = random.between(1, request.keys.size());
      expect_tile(map, rows, map.tile(head, request));
    }
  }
}

TEST(Tiles, OfEveryKindOfCall) {
  Random random(1);
  for_each_combination(1, 303, [&](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    expect_tiles(problem, random);
  });
}

TEST(Tiles, OfPairsOfConstraints) {
  Random random(2);
  int count = 0;
  for_each_combination(2, 505, [&](Problem& problem, const std::string& name) {
    if (++count % 5 != 0) return;
    SCOPED_TRACE(name);
    expect_tiles(problem, random);
  });
}

TEST(Tiles, OfFamiliesThatStrainASoftmax) {
  for (const auto& [family, name] : kFamilies) {
    SCOPED_TRACE(name);
    const Problem problem = make_problem({.query_len = 130, .key_len = 250, .head_dim = 16}, 6, DType::kF32, family);
    const AttentionMap map(shared_capture_of(problem));
    const Rows rows(map, 0);
    for (const Pooling pooling : kPoolings) expect_tile(map, rows, map.tile(0, {{0, 130}, {0, 250}, 9, 13, pooling}));
  }
}

// Everything far below 2^-126: sums of what f32 cannot hold.
TEST(Tiles, SumsSurviveUnderflow) {
  Problem problem = make_problem({.query_len = 40, .key_len = 60, .head_dim = 1}, 1);
  problem.options.scale = 1.0f;
  Random random(3);
  for (Index i = 0; i < 40; ++i) problem.inputs.query.data<float>()[i] = 1.0f;
  for (Index j = 0; j < 60; ++j)
    problem.inputs.key.data<float>()[j] = j == 0 ? 0.0f : static_cast<float>(-30.0 * static_cast<double>(j) + random.normal());
  const AttentionMap map(shared_capture_of(problem));
  const Rows rows(map, 0);
  for (const Pooling pooling : kPoolings) {
    expect_tile(map, rows, map.tile(0, {{0, 40}, {0, 60}, 4, 6, pooling}));
    expect_tile(map, rows, map.tile(0, {{0, 40}, {0, 60}, 1, 2, pooling}));
  }
}

TEST(Tiles, AtFullZoomAreTheCoefficients) {
  const AttentionMap map(shared_capture_of(causal_problem(1, 300, 8, 4)));
  ASSERT_EQ(map.max_zoom(), 1);
  const Tile tile = map.tile(0, TileAddress{1, 0, 1}, Pooling::kMean);
  for (Index i = 256; i < 300; ++i) {
    const MapRow row = map.row(0, i);
    for (Index j = 0; j < 256; ++j)
      ASSERT_TRUE(same_float(tile.log2[tile.at(i - 256, j)], row.log2[static_cast<std::size_t>(j)]));
  }
  EXPECT_EQ(tile.state[tile.at(44, 0)], CellState::kOutside);
}

TEST(Tiles, PooledRowsStillSumToOne) {
  const AttentionMap map(shared_capture_of(causal_problem(1, 700, 16, 4)));
  for (const int z : {0, 1, 2}) {
    for (Index y = 0; y < Index{1} << z; ++y) {
      std::vector<double> sums(256, 0);
      for (Index x = 0; x < Index{1} << z; ++x) {
        const Tile tile = map.tile(0, TileAddress{z, x, y}, Pooling::kMass);
        for (Index r = 0; r < 256; ++r) {
          for (Index c = 0; c < 256; ++c)
            sums[static_cast<std::size_t>(r)] += std::exp2(static_cast<double>(tile.log2[tile.at(r, c)]));
        }
      }
      for (Index r = 0; r < 256; ++r) {
        const bool inside = (y * 256 + r) * map.cell_size(z) < 700;
        ASSERT_NEAR(sums[static_cast<std::size_t>(r)], inside ? 1 : 0, 1e-5) << z << ", " << y << ", " << r;
      }
    }
  }
}

TEST(Tiles, SwappingTwoHeadsSwapsTwoMapsAndNothingElse) {
  Problem problem = make_problem({.heads = 3, .kv_heads = 3, .query_len = 33, .key_len = 45, .head_dim = 8}, 9);
  auto before = shared_capture_of(problem);
  for (Tensor* tensor : {&problem.inputs.query, &problem.inputs.key}) {
    const Index size = tensor->size() / 3;
    std::swap_ranges(tensor->data<float>(), tensor->data<float>() + size, tensor->data<float>() + 2 * size);
  }
  const AttentionMap a(before), b(shared_capture_of(problem));
  const TileRequest request{{0, 33}, {0, 45}, 7, 9, Pooling::kMass};
  for (const auto& [from, to] : {std::pair<Index, Index>{0, 2}, {1, 1}, {2, 0}}) {
    EXPECT_EQ(a.tile(from, request).log2, b.tile(to, request).log2);
  }
}

TEST(Tiles, SampledAtStepOneIsTheTile) {
  const AttentionMap map(shared_capture_of(causal_problem(2, 100, 8, 4)));
  const TileRequest request{{0, 100}, {0, 100}, 10, 10, Pooling::kMass};
  const Tile all = map.tile(1, request), sampled = map.sampled_tile(1, request, 1);
  EXPECT_FALSE(sampled.sampled);
  EXPECT_EQ(all.log2, sampled.log2);
  EXPECT_EQ(all.max_key, sampled.max_key);
}

// A sample sees exactly the coefficients of its rows and keys, on the grid of absolute positions.
TEST(Tiles, ASampleIsEveryStepthRowAndKey) {
  Random random(5);
  for (Index step : {Index{2}, Index{3}, Index{5}}) {
    for_each_combination(1, 606, [&](Problem& problem, const std::string& name) {
      SCOPED_TRACE(name + ", step " + std::to_string(step));
      if (!problem.options.alibi_slopes.empty()) return;  // positions are exact to rounding there, not to the bit
      const AttentionMap map(shared_capture_of(problem));
      const TileRequest request{{0, map.query_len()}, {0, map.key_len()}, map.query_len(), map.key_len(), Pooling::kMax};
      const Tile sample = map.sampled_tile(0, request, step);
      EXPECT_TRUE(sample.sampled);
      const Tile all = map.tile(0, request);
      for (Index i = 0; i < map.query_len(); ++i) {
        Index first_key = 0;
        if (problem.options.packed) {
          for (std::size_t s = 0; problem.options.packed->query_starts[s + 1] <= i; ++s)
            first_key = problem.options.packed->key_starts[s + 1];
        }
        for (Index j = 0; j < map.key_len(); ++j) {
          const std::size_t n = sample.at(i, j);
          const bool on_grid = map.position(i) % step == 0 && (j - first_key) % step == 0;
          if (on_grid) {
            ASSERT_EQ(sample.state[n], all.state[n]) << i << ", " << j;
            ASSERT_TRUE(same_float(sample.log2[n], all.log2[n])) << i << ", " << j;
          } else {
            ASSERT_EQ(sample.state[n], CellState::kMasked) << i << ", " << j;
          }
        }
      }
    });
  }
}

TEST(Tiles, ASampleOfUniformAttentionEstimatesMassExactly) {
  Problem problem = uniform_problem({.query_len = 512, .key_len = 512, .head_dim = 2});
  const AttentionMap map(shared_capture_of(problem));
  const TileRequest request{{0, 512}, {0, 512}, 4, 4, Pooling::kMass};
  const Tile tile = map.sampled_tile(0, request, 8);
  for (const float log2 : tile.log2) EXPECT_NEAR(static_cast<double>(log2), -2, 1e-6);
}

// ---- pyramids ---------------------------------------------------------------------------------------------------------------

void expect_pyramid(const Problem& problem, Index head) {
  const AttentionMap map(shared_capture_of(problem));
  const Pyramid pyramid(map, head);
  EXPECT_EQ(pyramid.max_zoom(), std::min(4, map.max_zoom()));
  for (int z = 0; z <= pyramid.max_zoom(); ++z) {
    for (Index y = 0; y < Index{1} << z; ++y) {
      for (Index x = 0; x < Index{1} << z; ++x) {
        SCOPED_TRACE(std::to_string(z) + "/" + std::to_string(x) + "/" + std::to_string(y));
        for (const Pooling pooling : kPoolings) {
          const Tile got = pyramid.tile({z, x, y}, pooling), want = map.tile(head, TileAddress{z, x, y}, pooling);
          ASSERT_EQ(got.state, want.state);
          for (std::size_t n = 0; n < got.log2.size(); ++n) {
            if (got.state[n] != CellState::kValue) continue;
            ASSERT_TRUE(same_float(got.max_log2[n], want.max_log2[n]));
            ASSERT_EQ(got.max_row[n], want.max_row[n]);
            ASSERT_EQ(got.max_key[n], want.max_key[n]);
            ASSERT_NEAR(static_cast<double>(got.log2[n]), static_cast<double>(want.log2[n]),
                        1e-5 + 1e-6 * std::abs(static_cast<double>(want.log2[n])));
          }
        }
      }
    }
  }
}

TEST(Pyramid, HasTheTilesOfTheMap) {
  expect_pyramid(causal_problem(2, 1100, 8, 3), 1);
  Problem rectangular = make_problem({.query_len = 90, .key_len = 700, .head_dim = 8}, 4);
  rectangular.options.window = Window{200, 30};
  expect_pyramid(rectangular, 0);
}

TEST(Pyramid, UnderAMask) {
  Problem problem = causal_problem(1, 600, 4, 3);
  Random random(8);
  problem.set_mask(random_mask({600, 600}, 0.02, random));
  expect_pyramid(problem, 0);
}

TEST(Pyramid, LeavesOutWhatNobodySees) {
  const AttentionMap causal(shared_capture_of(causal_problem(1, 2000, 4, 3)));
  const AttentionMap full(shared_capture_of(make_problem({.query_len = 2000, .key_len = 2000, .head_dim = 4}, 3)));
  // Of 4^z tiles, 2^z (2^z + 1) / 2 are not above the diagonal: 1 + 3 + 10 + 36 of 85.
  EXPECT_EQ(Pyramid(full, 0).bytes(), 85 * 65536 * 12);
  EXPECT_EQ(Pyramid(causal, 0).bytes(), 50 * 65536 * 12);
}

TEST(Pyramid, ReportsProgressAndCanBeCancelled) {
  const AttentionMap map(shared_capture_of(causal_problem(1, 1200, 4, 3)));
  std::vector<double> reports;
  const Pyramid pyramid(map, 0, [&](double done) {
    reports.push_back(done);
    return true;
  });
  ASSERT_GT(reports.size(), 5u);
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_NEAR(reports.back(), 1, 1e-9);
  int calls = 0;
  EXPECT_THROW(Pyramid(map, 0, [&](double) { return ++calls < 3; }), Cancelled);
  EXPECT_LT(calls, static_cast<int>(reports.size()));
}

// ---- determinism ------------------------------------------------------------------------------------------------------------

TEST(Observation, HasTheSameBitsForAnyNumberOfThreadsOnEveryTarget) {
  Problem problem = causal_problem(2, 500, 16, 3);
  problem.options.query_offsets = {-20};
  const std::string before = active_target();
  for (const std::string& target : targets()) {
    SCOPED_TRACE(target);
    force_target(target);
    const AttentionMap map(shared_capture_of(problem));
    std::optional<Tile> tile;
    std::optional<HeadStatistics> numbers;
    std::vector<double> gram;
    for (int threads = 1; threads <= 7; ++threads) {
      set_num_threads(threads);
      const Tile now = map.tile(1, {{3, 490}, {1, 480}, 37, 41, Pooling::kMass});
      HeadStatistics now_numbers = statistics(map, {.heads = {1}}).front();
      const HeadSimilarity similarity = head_similarity(map);
      if (!tile) tile = now, numbers = now_numbers, gram = similarity.gram;
      EXPECT_EQ(now.log2, tile->log2);
      EXPECT_EQ(now.max_key, tile->max_key);
      EXPECT_EQ(now_numbers.received, numbers->received);
      EXPECT_EQ(now_numbers.distance_mass, numbers->distance_mass);
      EXPECT_EQ(now_numbers.histogram_mass, numbers->histogram_mass);
      EXPECT_EQ(now_numbers.rows.entropy, numbers->rows.entropy);
      EXPECT_EQ(now_numbers.entropy.value, numbers->entropy.value);
      EXPECT_EQ(similarity.gram, gram);
    }
  }
  force_target(before);
  set_num_threads(0);
}

}  // namespace
}  // namespace multihead::test
