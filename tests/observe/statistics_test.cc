// Statistics against sums over exact float64 probabilities, one pair at a time, and the laws that they obey.
#include <algorithm>
#include <map>
#include <numbers>

#include "observe_testing.h"
#include "peak_memory.h"

namespace multihead::test {
namespace {

// One head's coefficients in float64, with what the definitions need besides.
struct Exact64 {
  const Problem& problem;
  const AttentionMap& map;
  Index batch, head;
  Tensor p;
  Visibility sees;

  Exact64(const Problem& of, const AttentionMap& on, Index b, Index h)
      : problem(of), map(on), batch(b), head(h), p(exact_probabilities(of)), sees(of) {}
  double at(Index i, Index j) const { return p.view().at<double>(batch, head, i, j); }
  bool visible(Index i, Index j) const { return sees(batch, head, i, j); }
  Index distance(Index i, Index j) const { return Visibility::distance(problem, batch, i, j); }
  Index first_key(Index i) const {
    if (!problem.options.packed) return 0;
    std::size_t s = 0;
    while (problem.options.packed->query_starts[s + 1] <= i) ++s;
    return problem.options.packed->key_starts[s];
  }
};

// Mean over live rows of sum_j weight(i, j) p_ij, and the same for 1 / V(i).
template <typename Weight>
Measured mean_of(const Exact64& exact, const Weight& weight) {
  double value = 0, uniform = 0, live = 0;
  for (Index i = 0; i < exact.map.query_len(); ++i) {
    const Index visible = exact.map.visible_keys(exact.head, i);
    if (visible == 0) continue;
    ++live;
    for (Index j = 0; j < exact.map.key_len(); ++j) {
      if (!exact.visible(i, j)) continue;
      value += weight(i, j) * exact.at(i, j);
      uniform += weight(i, j) / static_cast<double>(visible);
    }
  }
  live = std::max(live, 1.0);
  return {value / live, uniform / live};
}

void expect_measured(const Measured& got, const Measured& want, double tolerance, const char* name) {
  EXPECT_NEAR(got.value, want.value, tolerance * (1 + std::abs(want.value))) << name;
  EXPECT_NEAR(got.uniform, want.uniform, 1e-9 * (1 + std::abs(want.uniform))) << name << " (uniform)";
}

void expect_rows(const Exact64& exact, const HeadStatistics& got, double tolerance) {
  for (Index i = 0; i < exact.map.query_len(); ++i) {
    SCOPED_TRACE("row " + std::to_string(i));
    const auto at = static_cast<std::size_t>(i);
    double mass = 0, entropy = 0, squares = 0, largest = 0, distance = 0;
    Index visible = 0;
    for (Index j = 0; j < exact.map.key_len(); ++j) {
      const double p = exact.at(i, j);
      visible += exact.visible(i, j) ? 1 : 0;
      mass += p;
      squares += p * p;
      largest = std::max(largest, p);
      distance += p * std::abs(static_cast<double>(exact.distance(i, j)));
    }
    for (Index j = 0; j < exact.map.key_len(); ++j) {
      const double p = exact.at(i, j) / (mass > 0 ? mass : 1);
      if (p > 0) entropy -= p * std::log(p);
    }
    const RowStatistics& rows = got.rows;
    ASSERT_EQ(rows.visible[at], visible);
    ASSERT_NEAR(static_cast<double>(rows.mass[at]), mass, tolerance);
    ASSERT_NEAR(static_cast<double>(rows.entropy[at]), entropy, 10 * tolerance);
    ASSERT_NEAR(static_cast<double>(rows.max_probability[at]), largest, tolerance);
    ASSERT_NEAR(static_cast<double>(rows.mean_distance[at]), distance, tolerance * (1 + distance));
    if (visible == 0) continue;
    ASSERT_NEAR(static_cast<double>(rows.effective_keys[at]), mass * mass / squares, 10 * tolerance * mass * mass / squares);
    // Laws: 0 <= H <= ln V, 1 <= N2 <= e^H <= V, max p >= sum p^2 / mass.
    const double v = static_cast<double>(visible), slack = 1 + 1e-4;
    ASSERT_LE(static_cast<double>(rows.entropy[at]), std::log(v) + 1e-4);
    ASSERT_GE(static_cast<double>(rows.effective_keys[at]) * slack, 1);
    ASSERT_LE(static_cast<double>(rows.effective_keys[at]), std::exp(static_cast<double>(rows.entropy[at])) * slack);
    ASSERT_GE(static_cast<double>(rows.max_probability[at]) * slack, squares / mass);
  }
}

void expect_means(const Exact64& exact, const StatisticsRequest& request, const HeadStatistics& got, double tolerance) {
  expect_measured(got.row_mass, mean_of(exact, [](Index, Index) { return 1.0; }), tolerance, "row mass");
  expect_measured(got.mean_distance,
                  mean_of(exact, [&](Index i, Index j) { return std::abs(static_cast<double>(exact.distance(i, j))); }),
                  tolerance, "distance");
  for (Index k = 0; k < kSinkKeys; ++k) {
    expect_measured(got.sink_mass[static_cast<std::size_t>(k)],
                    mean_of(exact, [&](Index i, Index j) { return j - exact.first_key(i) <= k ? 1.0 : 0.0; }), tolerance,
                    "sink");
  }
  for (std::size_t n = 0; n < request.offsets.size(); ++n) {
    expect_measured(got.offset_mass[n],
                    mean_of(exact, [&](Index i, Index j) { return exact.distance(i, j) == request.offsets[n] ? 1.0 : 0.0; }),
                    tolerance, "offset");
  }
  double squares = 0;
  std::array<double, kSinkKeys> without{};
  for (Index i = 0; i < exact.map.query_len(); ++i) {
    std::array<double, kSinkKeys> largest{};
    for (Index j = 0; j < exact.map.key_len(); ++j) {
      squares += exact.at(i, j) * exact.at(i, j);
      for (Index k = 0; k < kSinkKeys; ++k) {
        double& max = largest[static_cast<std::size_t>(k)];
        if (j - exact.first_key(i) > k) max = std::max(max, exact.at(i, j));
      }
    }
    for (std::size_t k = 0; k < kSinkKeys; ++k) without[k] += largest[k];
  }
  EXPECT_NEAR(got.squares, squares, tolerance * (1 + squares));
  for (std::size_t k = 0; k < kSinkKeys; ++k) {
    EXPECT_NEAR(got.confidence_without_first[k].value, without[k] / static_cast<double>(std::max<Index>(1, got.live_rows)),
                tolerance);
  }
}

void expect_columns(const Exact64& exact, const HeadStatistics& got, double tolerance) {
  double total = 0;
  for (Index j = 0; j < exact.map.key_len(); ++j) {
    double received = 0, uniform = 0;
    Index seen = 0;
    for (Index i = 0; i < exact.map.query_len(); ++i) {
      received += exact.at(i, j);
      if (!exact.visible(i, j)) continue;
      ++seen;
      uniform += 1 / static_cast<double>(exact.map.visible_keys(exact.head, i));
    }
    const auto at = static_cast<std::size_t>(j);
    ASSERT_NEAR(got.received[at], received, tolerance * (1 + received));
    ASSERT_NEAR(got.received_uniform[at], uniform, 1e-9 * (1 + uniform));
    ASSERT_EQ(got.seen_by[at], seen);
    total += got.received[at];
  }
  double mass = 0;
  for (const float row : got.rows.mass) mass += static_cast<double>(row);
  EXPECT_NEAR(total, mass, 1e-5 * (1 + mass));
  EXPECT_EQ(got.is_sink_head, got.sink_alpha.value > 0.3);
}

void expect_distances(const Exact64& exact, const HeadStatistics& got, double tolerance) {
  std::map<Index, double> mass, uniform;
  std::map<Index, Index> pairs;
  for (Index i = 0; i < exact.map.query_len(); ++i) {
    for (Index j = 0; j < exact.map.key_len(); ++j) {
      if (!exact.visible(i, j)) continue;
      const Index d = exact.distance(i, j);
      mass[d] += exact.at(i, j);
      uniform[d] += 1 / static_cast<double>(exact.map.visible_keys(exact.head, i));
      ++pairs[d];
    }
  }
  for (std::size_t n = 0; n < got.distance_mass.size(); ++n) {
    const Index d = got.first_distance + static_cast<Index>(n);
    ASSERT_NEAR(got.distance_mass[n], mass[d], tolerance * (1 + mass[d])) << d;
    ASSERT_NEAR(got.distance_uniform[n], uniform[d], 1e-9) << d;
    ASSERT_EQ(got.distance_pairs[n], pairs[d]) << d;
    if (pairs[d] > 0) {
      EXPECT_EQ(got.mean_at_distance(static_cast<Index>(n)), got.distance_mass[n] / static_cast<double>(pairs[d]));
    }
    pairs.erase(d);
  }
  for (const auto& [d, count] : pairs) EXPECT_EQ(count, 0) << "distance " << d << " is missing";
}

void expect_statistics(const Problem& problem) {
  const Index batch = problem.shape.batch - 1, head = problem.shape.heads - 1;
  const AttentionMap map(shared_capture_of(problem), batch);
  const Exact64 exact(problem, map, batch, head);
  StatisticsRequest request;
  request.heads = {head};
  request.offsets = {0, 1, -2, 7};
  const HeadStatistics got = statistics(map, request).front();
  const std::vector<double> growth = exact_of(problem, exact.sees).growth;
  const double tolerance = 4e-6 * *std::max_element(growth.begin(), growth.end());
  expect_rows(exact, got, tolerance);
  expect_means(exact, request, got, tolerance);
  expect_columns(exact, got, tolerance);
  expect_distances(exact, got, tolerance);
  Index pairs = 0, visible = 0;
  double mass = 0;
  for (std::size_t b = 0; b < kHistogramBins; ++b) pairs += got.histogram_pairs[b], mass += got.histogram_mass[b];
  for (const Index v : got.rows.visible) visible += v;
  EXPECT_EQ(pairs, visible);
  EXPECT_NEAR(mass, got.row_mass.value * static_cast<double>(got.live_rows), 1e-5 * (1 + mass));
}

TEST(Statistics, OfEveryKindOfCall) {
  for_each_combination(1, 707, [](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    expect_statistics(problem);
  });
}

TEST(Statistics, OfPairsOfConstraintsOnEveryTarget) {
  for_each_target([] {
    int count = 0;
    for_each_combination(2, 808, [&](Problem& problem, const std::string& name) {
      if (++count % 12 != 0) return;
      SCOPED_TRACE(name);
      expect_statistics(problem);
    });
  });
}

TEST(Statistics, OfLongerMapsWithSeveralBlocks) {
  Problem problem = causal_problem(2, 700, 8, 3);
  problem.options.window = Window{333, 0};
  expect_statistics(problem);
}

TEST(Statistics, OfUniformAttentionAreTheBaselines) {
  Problem problem = uniform_problem({.query_len = 64, .key_len = 64, .head_dim = 2});
  problem.options.causal = true;
  const HeadStatistics head = statistics(AttentionMap(shared_capture_of(problem))).front();
  for (const Measured& measured : {head.entropy, head.normalized_entropy, head.confidence, head.effective_keys,
                                   head.mean_distance, head.row_mass, head.sink_mass[0], head.sink_mass[3], head.offset_mass[0],
                                   head.offset_mass[1], head.confidence_without_first[0], head.sink_alpha}) {
    EXPECT_NEAR(measured.value, measured.uniform, 1e-5 * (1 + measured.uniform));
  }
  EXPECT_NEAR(head.mean_distance.uniform, 63.0 / 4, 1e-9);  // mean of i / 2
  double harmonic = 0;
  for (int n = 1; n <= 64; ++n) harmonic += 1.0 / n;
  EXPECT_NEAR(head.received_uniform[0], harmonic, 1e-9);
  EXPECT_NEAR(head.received[0], harmonic, 1e-5);
}

// Every row looks at the key before it alone.
TEST(Statistics, OfAPreviousTokenHead) {
  constexpr Index n = 50;
  Problem problem = make_problem({.query_len = n, .key_len = n, .head_dim = n}, 1);
  for (Index i = 0; i < n; ++i) {
    for (Index t = 0; t < n; ++t) {
      problem.inputs.query.data<float>()[i * n + t] = t == i - 1 ? 500.0f : 0.0f;
      problem.inputs.key.data<float>()[i * n + t] = t == i ? 1.0f : 0.0f;
    }
  }
  problem.options.causal = true;
  const HeadStatistics head = statistics(AttentionMap(shared_capture_of(problem))).front();
  EXPECT_NEAR(head.offset_mass[1].value, static_cast<double>(n - 1) / n, 1e-6);
  EXPECT_NEAR(head.offset_mass[0].value, 1.0 / n, 1e-6);
  EXPECT_NEAR(head.mean_distance.value, static_cast<double>(n - 1) / n, 1e-5);
  EXPECT_NEAR(head.entropy.value, 0, 1e-5);
  EXPECT_NEAR(head.confidence.value, 1, 1e-5);  // the scores reach 70
  EXPECT_NEAR(head.max_score, 500 / std::sqrt(static_cast<double>(n)), 1e-3);
}

TEST(Statistics, TokensAndInduction) {
  constexpr Index n = 90;
  Problem problem = causal_problem(1, n, 8, 3);
  Capture capture = capture_of(problem);
  Random random(4);
  for (Index i = 0; i < n; ++i) capture.labels.query_tokens.push_back("t" + std::to_string(random.between(0, 6)));
  capture.labels.key_tokens = capture.labels.query_tokens;
  const std::vector<std::string> tokens = capture.labels.key_tokens;
  const AttentionMap map(std::make_shared<const Capture>(std::move(capture)));
  const Exact64 exact(problem, map, 0, 0);
  const auto token = [&](Index i) { return tokens[static_cast<std::size_t>(i)]; };
  const HeadStatistics head = statistics(map).front();
  ASSERT_TRUE(head.has_tokens);
  expect_measured(head.duplicate_mass,
                  mean_of(exact, [&](Index i, Index j) { return j < i && token(i) == token(j) ? 1.0 : 0.0; }), 1e-5,
                  "duplicate");
  expect_measured(head.induction_mass,
                  mean_of(exact, [&](Index i, Index j) { return j > 0 && token(i) == token(j - 1) ? 1.0 : 0.0; }), 1e-5,
                  "induction");
  EXPECT_FALSE(statistics(map, {.tokens = false}).front().has_tokens);
}

TEST(Statistics, EveryBatchEntryMayHaveTokensOfItsOwn) {
  constexpr Index n = 20;
  const Shape shape{.batch = 2, .heads = 1, .kv_heads = 1, .query_len = n, .key_len = n, .head_dim = 4, .value_dim = 4};
  Capture both = capture_of(make_problem(shape, 5));
  Random random(6);
  for (Index i = 0; i < 2 * n; ++i) both.labels.query_tokens.push_back("t" + std::to_string(random.between(0, 6)));
  both.labels.key_tokens = both.labels.query_tokens;
  Capture shared = both.copy();
  for (auto* tokens : {&shared.labels.query_tokens, &shared.labels.key_tokens})
    tokens->erase(tokens->begin(), tokens->begin() + n);
  const AttentionMap own(std::make_shared<const Capture>(std::move(both)), 1);
  const AttentionMap same(std::make_shared<const Capture>(std::move(shared)), 1);
  EXPECT_EQ(own.query_tokens().size(), n);
  EXPECT_TRUE(std::ranges::equal(own.query_tokens(), same.query_tokens()));
  EXPECT_TRUE(std::ranges::equal(own.key_tokens(), same.key_tokens()));
  const HeadStatistics head = statistics(own).front(), expected = statistics(same).front();
  ASSERT_TRUE(head.has_tokens);
  EXPECT_EQ(head.duplicate_mass.value, expected.duplicate_mass.value);
  EXPECT_EQ(head.induction_mass.value, expected.induction_mass.value);
}

TEST(Statistics, ValuesAndOutputsBehindTheOutputWeight) {
  const Shape shape{.heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 40, .head_dim = 8, .value_dim = 5};
  const Problem problem = make_problem(shape, 3, DType::kBF16);
  for (const bool weighted : {false, true}) {
    Capture capture = capture_of(problem);
    const Index outputs = weighted ? 11 : 5;
    if (weighted) capture.output_weight = grid({outputs, 20}, 5, DType::kF16);
    const Tensor output = capture.output.copy();
    const AttentionMap map(std::make_shared<const Capture>(std::move(capture)));
    const Tensor weight = grid({11, 20}, 5);
    // ‖x W_O^h‖ for head 3, which reads key/value head 1.
    const auto length = [&](const ConstTensorView& rows, Index row) {
      double sum = 0;
      for (Index o = 0; o < outputs; ++o) {
        double y = 0;
        for (Index t = 0; t < 5; ++t) {
          const double w = weighted ? static_cast<double>(weight.data<float>()[o * 20 + 3 * 5 + t]) : (o == t ? 1.0 : 0.0);
          y += load_as_double(rows, row * 5 + t) * w;
        }
        sum += y * y;
      }
      return std::sqrt(sum);
    };
    const HeadStatistics head = statistics(map, {.heads = {3}}).front();
    ASSERT_TRUE(head.has_values && head.has_output);
    double sum = 0, sink = 0, squared = 0;
    for (Index j = 0; j < 40; ++j) {
      const double norm = length(problem.inputs.value, 40 + j);
      ASSERT_NEAR(static_cast<double>(head.value_norms[static_cast<std::size_t>(j)]), norm, 1e-5 * norm);
      sum += norm * head.received[static_cast<std::size_t>(j)];
      if (j < 2) sink += norm * head.received[static_cast<std::size_t>(j)];
    }
    EXPECT_EQ(value_norms(map, 3), head.value_norms);
    EXPECT_NEAR(head.value_weighted_mass.value, sum / 30, 1e-5 * sum / 30);
    EXPECT_NEAR(head.value_weighted_sink[1].value, sink / sum, 1e-5);
    for (Index i = 0; i < 30; ++i) squared += std::pow(length(output, 3 * 30 + i), 2);
    EXPECT_NEAR(head.output_norm, std::sqrt(squared), 1e-9 * std::sqrt(squared));
  }
}

TEST(Statistics, NanInInvisiblePlacesChangesNothing) {
  Problem problem = causal_problem(1, 120, 8, 3);
  problem.options.key_lengths = {100};
  problem.options.query_offsets = {0};
  const HeadStatistics clean = statistics(AttentionMap(shared_capture_of(problem))).front();
  for (Index n = 100 * 8; n < 120 * 8; ++n) problem.inputs.key.data<float>()[n] = std::numeric_limits<float>::quiet_NaN();
  const HeadStatistics poisoned = statistics(AttentionMap(shared_capture_of(problem))).front();
  EXPECT_EQ(clean.received, poisoned.received);
  EXPECT_EQ(clean.rows.entropy, poisoned.rows.entropy);
  EXPECT_EQ(clean.histogram_pairs, poisoned.histogram_pairs);
  EXPECT_EQ(clean.entropy.value, poisoned.entropy.value);
}

TEST(Statistics, AVisibleNanIsTold) {
  Problem problem = causal_problem(1, 60, 8, 3);
  problem.inputs.key.data<float>()[50 * 8] = std::numeric_limits<float>::quiet_NaN();
  const HeadStatistics head = statistics(AttentionMap(shared_capture_of(problem))).front();
  EXPECT_TRUE(std::isnan(head.entropy.value));
  EXPECT_TRUE(std::isnan(head.rows.entropy[55]));
  EXPECT_FALSE(std::isnan(head.rows.entropy[49]));
}

// ---- by-products of the forward pass ----------------------------------------------------------------------------------------

void expect_forward(const Problem& problem) {
  const Shape& shape = problem.shape;
  const Result plain = run(problem);
  Tensor output(problem.output_dtype, shape.output()), lse(DType::kF32, shape.lse());
  const ForwardStatistics got = attention_with_statistics(problem.inputs.query, problem.inputs.key, problem.inputs.value,
                                                          output, problem.options, lse.view());
  EXPECT_TRUE(same_bits(output, plain.output));
  EXPECT_TRUE(same_bits(lse, plain.lse));
  const Visibility sees(problem);
  const std::vector<double> growth = exact_of(problem, sees).growth;
  auto shared = shared_capture_of(problem);
  for (Index b = 0; b < shape.batch; ++b) {
    const std::vector<HeadStatistics> swept = statistics(AttentionMap(shared, b));
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index i = 0; i < shape.query_len; ++i) {
        const auto n = static_cast<std::size_t>((b * shape.heads + h) * shape.query_len + i), at = static_cast<std::size_t>(i);
        const RowStatistics& rows = swept[static_cast<std::size_t>(h)].rows;
        const double tolerance = 1e-5 * growth[n];
        const auto expect = [&](const Tensor& tensor, const std::vector<float>& want, const char* name) {
          const double value = static_cast<double>(want[at]);
          ASSERT_NEAR(static_cast<double>(tensor.data<float>()[n]), value, tolerance * (1 + value)) << name << " of row " << i;
        };
        expect(got.entropy, rows.entropy, "entropy");
        expect(got.max_probability, rows.max_probability, "largest");
        expect(got.effective_keys, rows.effective_keys, "effective keys");
        expect(got.mean_distance, rows.mean_distance, "distance");
      }
    }
  }
}

TEST(ForwardStatistics, AreThoseOfASweepAndLeaveTheOutputsBitsAlone) {
  for_each_combination(1, 1001, [](Problem& problem, const std::string& name) {
    SCOPED_TRACE(name);
    expect_forward(problem);
  });
}

TEST(ForwardStatistics, OfLongRowsOnEveryTarget) {
  for_each_target([] {
    Problem problem = make_problem(
        {.batch = 2, .heads = 6, .kv_heads = 2, .query_len = 90, .key_len = 1300, .head_dim = 9, .value_dim = 7}, 4);
    problem.options.causal = true;
    expect_forward(problem);
    for (const auto& [family, name] : kFamilies) {
      SCOPED_TRACE(name);
      expect_forward(make_problem({.query_len = 20, .key_len = 800, .head_dim = 8, .value_dim = 2}, 4, DType::kF32, family));
    }
  });
}

// The plain forward lets more lanes share a converted block than this one has room for.
TEST(ForwardStatistics, OfMoreSixteenBitLanesThanABlockHolds) {
  set_num_threads(1);
  expect_forward(make_problem({.query_len = 900, .key_len = 40, .head_dim = 8, .value_dim = 4}, 6, DType::kBF16));
  set_num_threads(0);
}

TEST(HeadSimilarity, IsTheProductOfMaps) {
  for_each_target([] {
    Problem problem = make_problem({.heads = 3, .kv_heads = 1, .query_len = 130, .key_len = 210, .head_dim = 8}, 3);
    problem.options.causal = true;
    Random random(5);
    problem.set_mask(random_mask({1, 3, 130, 210}, 0.7, random));
    const AttentionMap map(shared_capture_of(problem));
    const Tensor p = exact_probabilities(problem);
    const HeadSimilarity similarity = head_similarity(map);
    const std::vector<HeadStatistics> heads = statistics(map);
    for (Index a = 0; a < 3; ++a) {
      for (Index b = 0; b < 3; ++b) {
        double want = 0;
        for (Index n = 0; n < 130 * 210; ++n) want += p.data<double>()[a * 130 * 210 + n] * p.data<double>()[b * 130 * 210 + n];
        EXPECT_NEAR(similarity.gram[static_cast<std::size_t>(a * 3 + b)], want, 1e-5 * want);
      }
      const auto at = static_cast<std::size_t>(a);
      EXPECT_NEAR(similarity.gram[at * 3 + at], heads[at].squares, 1e-5 * heads[at].squares) << "the self-check";
      EXPECT_NEAR(similarity.cosine(at, at), 1, 1e-12);
    }
  });
}

TEST(HeadSimilarity, EqualHeadsAreTold) {
  Problem problem = causal_problem(2, 60, 8, 3);
  std::copy_n(problem.inputs.query.data<float>(), 60 * 8, problem.inputs.query.data<float>() + 60 * 8);
  const HeadSimilarity similarity = head_similarity(AttentionMap(shared_capture_of(problem)), {1, 0});
  EXPECT_NEAR(similarity.cosine(0, 1), 1, 1e-12);
}

TEST(Statistics, ReportProgressAndCanBeCancelled) {
  const AttentionMap map(shared_capture_of(causal_problem(3, 800, 4, 3)));
  double last = 0;
  statistics(map, {}, [&](double done) {
    EXPECT_GE(done, last);
    last = done;
    return true;
  });
  EXPECT_NEAR(last, 1, 1e-9);
  EXPECT_THROW(statistics(map, {}, [](double done) { return done < 0.3; }), Cancelled);
  EXPECT_THROW(head_similarity(map, {}, [](double) { return false; }), Cancelled);
}

TEST(Statistics, RefuseAHeadThatIsNotThere) {
  const AttentionMap map(shared_capture_of(causal_problem(2, 10, 4, 3)));
  EXPECT_NE(refusal_of([&] { statistics(map, {.heads = {2}}); }).find("head"), std::string::npos);
  EXPECT_NE(refusal_of([&] { head_similarity(map, {-1}); }).find("head"), std::string::npos);
  EXPECT_NE(refusal_of([&] {
              Capture capture = capture_of(causal_problem(2, 10, 4, 3));
              capture.value = Tensor();
              value_norms(AttentionMap(std::make_shared<const Capture>(std::move(capture))), 0);
            }).find("values"),
            std::string::npos);
}

// A map of 2^28 coefficients would be 1 GiB.
TEST(ObservationMemory, IsLinearInTheLengths) {
  constexpr Index n = 16384;
  const AttentionMap map(shared_capture_of(causal_problem(1, n, 2, 3)));
  PeakMemory peak;
  if (!peak.works()) GTEST_SKIP() << "peak memory is not to be had here";
  statistics(map, {.histogram = false});
  map.tile(0, TileAddress{0, 0, 0}, Pooling::kMass);
  map.row(0, n - 1);
  EXPECT_LT(peak.bytes(), 48 << 20);
}

}  // namespace
}  // namespace multihead::test
