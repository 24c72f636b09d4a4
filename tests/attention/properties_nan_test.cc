// A NaN that is visible goes exactly as far as the definition says, and not one element further: to the rows that see it.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

struct Scene {
  const char* name;
  std::function<void(Problem&, Random&)> apply;
};

// Ways of letting some rows see a key and others not.
const std::vector<Scene> kScenes{
    {"all visible", [](Problem&, Random&) {}},
    {"causal", [](Problem& p, Random&) { p.options.causal = true; }},
    {"window",
     [](Problem& p, Random&) {
       p.options.window = Window{9, 4};
     }},
    {"key lengths",
     [](Problem& p, Random&) {
       p.options.key_lengths = {61, 0, 40};
     }},
    {"mask", [](Problem& p, Random& r) { p.set_mask(random_mask(p.shape.scores(), 0.5, r)); }},
    {"mask of whole rows",
     [](Problem& p, Random& r) {
       p.set_mask(random_mask({1, p.shape.heads, p.shape.query_len, 1}, 0.5, r));
     }},
    {"bias",
     [](Problem& p, Random& r) {
       p.set_bias(filled(DType::kF32, p.shape.scores(), [&](Index) { return r.chance(0.5) ? -kInfinity : r.normal(); }));
     }},
    {"causal, mask and sinks",
     [](Problem& p, Random& r) {
       p.options.causal = true;
       p.set_mask(random_mask({p.shape.query_len, p.shape.key_len}, 0.5, r));
       p.options.sinks = {0, 1, 2, 3};
     }},
};

Problem make(const Scene& scene, std::uint64_t seed, Index query_len) {
  constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};
  Problem problem = make_problem(
      {.batch = 3, .heads = 4, .kv_heads = 2, .query_len = query_len, .key_len = 61, .head_dim = 12, .value_dim = 7}, seed,
      kTypes[seed % 3]);
  Random random(seed);
  scene.apply(problem, random);
  return problem;
}

// Rows that see key j of kv head kv in batch b must be NaN in the columns [first, last), everything else as in `clean`.
void expect_poisoned(const Problem& problem, const Result& clean, const Result& got,
                     const std::function<bool(Index, Index, Index)>& hit, Index first, Index last, bool lse_too) {
  const Shape& s = problem.shape;
  Result want{clean.output.copy(), clean.lse.copy()};
  for (Index row = 0; row < s.batch * s.heads * s.query_len; ++row) {
    if (!hit(row / (s.heads * s.query_len), row / s.query_len % s.heads, row % s.query_len)) continue;
    for (Index t = first; t < last; ++t) set_element(want.output, row * s.value_dim + t, kNaN);
    if (lse_too) set_element(want.lse, row, kNaN);
  }
  EXPECT_TRUE(same_bits(want, got));
}

TEST(AttentionNaN, InAValueReachesTheRowsThatSeeIt) {
  std::uint64_t seed = 10000;
  for (const Scene& scene : kScenes) {
    for (const Index query_len : {1, 30}) {
      const Problem problem = make(scene, ++seed, query_len);
      const Visibility sees(problem);
      for (const Index j : {0, 17, 60}) {
        for (const bool whole_row : {true, false}) {
          Inputs inputs{problem.inputs.query.copy(), problem.inputs.key.copy(), problem.inputs.value.copy()};
          const Index first = whole_row ? 0 : 3, last = whole_row ? 7 : 4;
          for (Index b = 0; b < 3; ++b) {  // kv head 1 only
            for (Index t = first; t < last; ++t) set_element(inputs.value, ((b * 2 + 1) * 61 + j) * 7 + t, kNaN);
          }
          for_each_target([&] {
            SCOPED_TRACE(std::string(scene.name) + ", key " + std::to_string(j));
            const Result got = run(inputs.query, inputs.key, inputs.value, problem.options, problem.output_dtype);
            expect_poisoned(
                problem, run(problem), got, [&](Index b, Index h, Index i) { return h >= 2 && sees(b, h, i, j); }, first, last,
                false);
          });
        }
      }
    }
  }
}

TEST(AttentionNaN, InAKeyReachesTheRowsThatSeeIt) {
  std::uint64_t seed = 11000;
  for (const Scene& scene : kScenes) {
    for (const Index query_len : {1, 30}) {
      const Problem problem = make(scene, ++seed, query_len);
      const Visibility sees(problem);
      for (const Index j : {0, 17, 60}) {
        Inputs inputs{problem.inputs.query.copy(), problem.inputs.key.copy(), problem.inputs.value.copy()};
        for (Index b = 0; b < 3; ++b) set_element(inputs.key, (b * 2 * 61 + j) * 12 + 5, kNaN);  // kv head 0, one element
        for_each_target([&] {
          SCOPED_TRACE(std::string(scene.name) + ", key " + std::to_string(j));
          const Result got = run(inputs.query, inputs.key, inputs.value, problem.options, problem.output_dtype);
          expect_poisoned(
              problem, run(problem), got, [&](Index b, Index h, Index i) { return h < 2 && sees(b, h, i, j); }, 0, 7, true);
        });
      }
    }
  }
}

TEST(AttentionNaN, InAQueryReachesItsRowIfItSeesAnything) {
  std::uint64_t seed = 12000;
  for (const Scene& scene : kScenes) {
    for (const Index query_len : {1, 30}) {
      const Problem problem = make(scene, ++seed, query_len);
      const Visibility sees(problem);
      const Index row = query_len / 2;
      Inputs inputs{problem.inputs.query.copy(), problem.inputs.key.copy(), problem.inputs.value.copy()};
      for (Index bh = 0; bh < 12; ++bh) set_element(inputs.query, (bh * query_len + row) * 12 + 11, kNaN);
      for_each_target([&] {
        SCOPED_TRACE(scene.name);
        const Result got = run(inputs.query, inputs.key, inputs.value, problem.options, problem.output_dtype);
        const auto hit = [&](Index b, Index h, Index i) {
          bool any = false;
          for (Index j = 0; j < 61; ++j) any = any || sees(b, h, i, j);
          return i == row && any;
        };
        expect_poisoned(problem, run(problem), got, hit, 0, 7, true);
      });
    }
  }
}

TEST(AttentionNaN, InABiasReachesItsRow) {
  Problem problem = make_problem({.heads = 2, .query_len = 30, .key_len = 61, .head_dim = 12, .value_dim = 7}, 13000);
  problem.set_bias(Tensor(DType::kF32, problem.shape.scores()));
  const Tensor clean_bias = problem.bias.copy();
  for_each_target([&] {
    problem.set_bias(clean_bias.copy());
    const Result clean = run(problem);
    set_element(problem.bias, (1 * 30 + 29) * 61 + 60, kNaN);
    set_element(problem.bias, (0 * 30 + 3) * 61 + 0, kNaN);
    const auto hit = [](Index, Index h, Index i) { return (h == 1 && i == 29) || (h == 0 && i == 3); };
    expect_poisoned(problem, clean, run(problem), hit, 0, 7, true);
  });
}

// An infinite value that is visible is the answer; in the other columns nothing changes.
TEST(AttentionNaN, InfinityInAValue) {
  Problem problem = make_problem({.query_len = 30, .key_len = 61, .head_dim = 12, .value_dim = 7}, 14000);
  problem.options.causal = true;
  for_each_target([&] {
    Inputs inputs{problem.inputs.query.copy(), problem.inputs.key.copy(), problem.inputs.value.copy()};
    set_element(inputs.value, 45 * 7 + 2, -kInfinity);  // rows 14 … 29 see key 45
    const Result clean = run(problem);
    const Result got = run(inputs.query, inputs.key, inputs.value, problem.options, DType::kF32);
    Result want{clean.output.copy(), clean.lse.copy()};
    for (Index i = 14; i < 30; ++i) set_element(want.output, i * 7 + 2, -kInfinity);
    EXPECT_TRUE(same_bits(want, got));
  });
}

// Softcap bounds an infinite score: tanh(inf) = 1, so this is a plain number again.
TEST(AttentionNaN, SoftcapOfAnInfiniteScore) {
  Problem problem = uniform_problem({.query_len = 1, .key_len = 2, .head_dim = 1, .value_dim = 1});
  problem.inputs.query = filled(DType::kF32, {1, 1, 1, 1}, [](Index) { return 1; });
  problem.inputs.key = filled(DType::kF32, {1, 1, 2, 1}, [](Index j) { return j == 0 ? 0 : kInfinity; });
  problem.inputs.value = filled(DType::kF32, {1, 1, 2, 1}, [](Index j) { return static_cast<double>(j); });
  problem.options.softcap = 2.0f;
  for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {1 / (1 + std::exp(-2.0))}, 2e-6)); });
}

}  // namespace
}  // namespace multihead::test
