// merge: results over disjoint keys joined into the result over all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "attention_checks.h"
#include "storage.h"

namespace multihead::test {
namespace {

Result merged(const std::vector<ConstTensorView>& outputs, const std::vector<ConstTensorView>& lses, DType dtype,
              const Dims& shape, const std::vector<float>& sinks = {}) {
  const auto nan = [](Index) { return kNaN; };
  Result result{filled(dtype, shape, nan), filled(DType::kF32, {shape[0], shape[1], shape[2]}, nan)};
  merge(outputs, lses, result.output, result.lse.view(), sinks);
  return result;
}

Result merged(const std::vector<Result>& parts, DType dtype, const std::vector<float>& sinks = {}) {
  std::vector<ConstTensorView> outputs, lses;
  for (const Result& part : parts) outputs.push_back(part.output), lses.push_back(part.lse);
  return merged(outputs, lses, dtype, parts.front().output.shape(), sinks);
}

// Parts over the keys between consecutive cuts, without sinks.
std::vector<Result> parts_of(const Problem& problem, const std::vector<Index>& cuts) {
  std::vector<Result> parts;
  for (std::size_t n = 0; n + 1 < cuts.size(); ++n) {
    parts.push_back(run(problem.inputs.query, problem.inputs.key.view().slice(2, cuts[n], cuts[n + 1]),
                        problem.inputs.value.view().slice(2, cuts[n], cuts[n + 1]), {}, DType::kF32));
  }
  return parts;
}

TEST(Merge, AnyCutOfTheKeysGivesTheWhole) {
  Random random(26000);
  for (int n = 0; n < 40; ++n) {
    const Index keys = random.between(0, 300);
    constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};
    Problem problem = make_problem({.batch = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .query_len = random.between(1, 30),
                                    .key_len = keys,
                                    .head_dim = 16,
                                    .value_dim = 12},
                                   static_cast<std::uint64_t>(26000 + n), kTypes[static_cast<std::size_t>(n) % 3]);
    std::vector<Index> cuts{0, keys};
    for (Index more = random.between(0, 6); more > 0; --more) cuts.push_back(random.between(0, keys));
    std::sort(cuts.begin(), cuts.end());
    // The sink is in the whole once, and is given to merge once.
    const std::vector<float> sinks = n % 2 == 0 ? std::vector<float>{} : std::vector<float>{0.5f, -HUGE_VALF, 3.0f, -1.0f};
    problem.options.sinks = sinks;
    const Exact exact = exact_of(problem);
    for_each_target([&] {
      const std::vector<Result> parts = parts_of(problem, cuts);
      EXPECT_TRUE(within_contract(exact, merged(parts, problem.output_dtype, sinks))) << to_string(problem.shape);
    });
  }
}

TEST(Merge, TheDefinition) {
  Random random(26100);
  const Dims shape{2, 3, 70, 5};
  std::vector<Result> parts;
  for (int p = 0; p < 4; ++p) {
    parts.push_back(
        {filled(DType::kF32, shape, [&](Index) { return random.normal(); }),
         filled(DType::kF32, {2, 3, 70}, [&](Index) { return random.chance(0.3) ? -kInfinity : 10 * random.normal(); })});
  }
  const Result result = merged(parts, DType::kF32);
  for (Index row = 0; row < 2 * 3 * 70; ++row) {
    double sum = 0;
    std::vector<double> mean(5);
    for (const Result& part : parts) {
      const double weight = std::exp(load_as_double(part.lse, row));
      sum += weight;
      for (Index t = 0; t < 5; ++t) mean[static_cast<std::size_t>(t)] += weight * load_as_double(part.output, row * 5 + t);
    }
    const double lse = std::log(sum);
    EXPECT_TRUE(near({load_as_double(result.lse, row)}, {lse}, 1e-6));
    for (Index t = 0; t < 5; ++t) {
      EXPECT_NEAR(load_as_double(result.output, row * 5 + t), sum == 0 ? 0.0 : mean[static_cast<std::size_t>(t)] / sum, 2e-6);
    }
  }
}

TEST(Merge, OnePartIsItself) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 20, .key_len = 50, .head_dim = 16, .value_dim = 12}, 26200);
  const Result whole = run(problem);
  EXPECT_TRUE(same_bits(whole, merged({whole.output}, {whole.lse}, DType::kF32, problem.shape.output())));
}

// A part that saw no key says nothing, whatever its memory holds.
TEST(Merge, EmptyPartsAreNeutral) {
  const Problem problem =
      make_problem({.heads = 2, .kv_heads = 1, .query_len = 20, .key_len = 50, .head_dim = 16, .value_dim = 12}, 26300);
  const Result whole = run(problem);
  const Tensor nan = filled(DType::kF32, problem.shape.output(), [](Index) { return kNaN; });
  const Tensor nothing = filled(DType::kF32, problem.shape.lse(), [](Index) { return -kInfinity; });
  const Dims shape = problem.shape.output();
  for (const auto& [outputs, lses] : std::vector<std::pair<std::vector<ConstTensorView>, std::vector<ConstTensorView>>>{
           {{nan, whole.output}, {nothing, whole.lse}},
           {{whole.output, nan}, {whole.lse, nothing}},
           {{nan, whole.output, nan}, {nothing, whole.lse, nothing}}}) {
    EXPECT_TRUE(same_bits(whole, merged(outputs, lses, DType::kF32, shape)));
  }
  const Result none = merged({nan, nan}, {nothing, nothing}, DType::kF32, shape);
  EXPECT_TRUE(same_bits(none.output, Tensor(DType::kF32, shape)));
  EXPECT_TRUE(same_bits(none.lse, nothing));
  const Result sink_alone = merged({nan, nan}, {nothing, nothing}, DType::kF32, shape, {0.25f, -HUGE_VALF});
  EXPECT_TRUE(same_bits(sink_alone.output, Tensor(DType::kF32, shape)));
  EXPECT_EQ(load_as_double(sink_alone.lse, 0), 0.25);
  EXPECT_EQ(load_as_double(sink_alone.lse, 20), -kInfinity);
  const Result no_parts = merged(std::vector<ConstTensorView>{}, {}, DType::kF32, shape);
  EXPECT_TRUE(same_bits(no_parts.output, Tensor(DType::kF32, shape)));
  EXPECT_TRUE(same_bits(no_parts.lse, nothing));
}

TEST(Merge, ExtremeLogSumExp) {
  const auto one = [](double value) { return filled(DType::kF32, {1, 1, 1, 1}, [&](Index) { return value; }); };
  const auto lse = [](double value) { return filled(DType::kF32, {1, 1, 1}, [&](Index) { return value; }); };
  struct Row {
    double lse_a, lse_b, output, lse;
  };
  for (const Row& row : {Row{1e4, 0, 3, 1e4}, Row{-1e4, 0, 5, 0}, Row{1e30, 1e30, 4, 1e30}, Row{-1e30, -1e30, 4, -1e30},
                         Row{-1e30, -1e4, 5, -1e4}}) {
    const Tensor a = one(3), b = one(5), lse_a = lse(row.lse_a), lse_b = lse(row.lse_b);
    const Result result = merged({a, b}, {lse_a, lse_b}, DType::kF32, {1, 1, 1, 1});
    EXPECT_TRUE(near(values_of(result.output), {row.output}, 1e-6));
    EXPECT_TRUE(near(values_of(result.lse), {row.lse}, 1e-6));
  }
}

TEST(Merge, NaNStaysInItsRow) {
  const Problem problem = make_problem({.query_len = 20, .key_len = 50, .head_dim = 16, .value_dim = 3}, 26400);
  std::vector<Result> parts = parts_of(problem, {0, 20, 50});
  Result want = merged(parts, DType::kF32);
  set_element(parts[0].lse, 4, kNaN);
  set_element(parts[1].output, 7 * 3 + 1, kNaN);
  for (Index t = 0; t < 3; ++t) set_element(want.output, 4 * 3 + t, kNaN);
  set_element(want.lse, 4, kNaN);
  set_element(want.output, 7 * 3 + 1, kNaN);
  EXPECT_TRUE(same_bits(want, merged(parts, DType::kF32)));
}

TEST(Merge, AnyStridesTypesAndThreads) {
  const Problem problem = make_problem(
      {.batch = 2, .heads = 3, .kv_heads = 3, .query_len = 400, .key_len = 60, .head_dim = 8, .value_dim = 10}, 26500);
  const std::vector<Result> parts = parts_of(problem, {0, 20, 21, 60});
  const Result dense = merged(parts, DType::kF32);
  for (const auto& [layout, name] : kLayouts) {
    const Stored a(parts[0].output, layout), b(parts[1].output, layout), c(parts[2].output, layout);
    const Stored lse_a(parts[0].lse, layout), lse_b(parts[1].lse, layout), lse_c(parts[2].lse, layout);
    const Stored output(Tensor(DType::kF32, problem.shape.output()), layout),
        lse(Tensor(DType::kF32, problem.shape.lse()), layout);
    merge({a, b, c}, {lse_a, lse_b, lse_c}, output, lse.view());
    EXPECT_TRUE(same_bits(dense.output, output.view())) << name;
    EXPECT_TRUE(same_bits(dense.lse, lse.view())) << name;
    EXPECT_TRUE(output.surroundings_intact() && lse.surroundings_intact()) << name;
  }
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_TRUE(same_bits(dense, merged(parts, DType::kF32))) << threads << " threads";
  }
  set_num_threads(0);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_TRUE(same_bits(Tensor::converted(dense.output, dtype), merged(parts, dtype).output)) << name_of(dtype);
    // Parts of different types can be mixed.
    const Tensor narrow = Tensor::converted(parts[1].output, dtype), wide = Tensor::converted(narrow, DType::kF32);
    EXPECT_TRUE(same_bits(merged({parts[0].output, narrow}, {parts[0].lse, parts[1].lse}, DType::kF32, problem.shape.output()),
                          merged({parts[0].output, wide}, {parts[0].lse, parts[1].lse}, DType::kF32, problem.shape.output())));
  }
}

TEST(Merge, RefusesByName) {
  const Tensor output(DType::kF32, {2, 3, 4, 5}), other(DType::kF32, {2, 3, 4, 6}), wide(DType::kF64, {2, 3, 4, 5});
  const Tensor lse(DType::kF32, {2, 3, 4}), other_lse(DType::kF32, {2, 4, 3}), half_lse(DType::kF16, {2, 3, 4});
  Tensor result(DType::kF32, {2, 3, 4, 5}), flat(DType::kF32, {24, 5});
  const auto refuses = [](const std::vector<std::string>& words, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "accepted what should name " << words.front();
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()).rfind("merge: ", 0), 0u) << error.what();
      for (const std::string& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refuses({"2 outputs", "1 lse"}, [&] { merge({output, output}, {lse}, result); });
  refuses({"outputs[1]", "[2, 3, 4, 5]", "[2, 3, 4, 6]"}, [&] { merge({output, other}, {lse, lse}, result); });
  refuses({"lses[0]", "[2, 3, 4]", "[2, 4, 3]"}, [&] { merge({output}, {other_lse}, result); });
  refuses({"lses[1]", "f32", "f16"}, [&] { merge({output, output}, {lse, half_lse}, result); });
  refuses({"outputs[0]", "f64"}, [&] { merge({wide}, {lse}, result); });
  refuses({"output", "rank 4", "[24, 5]"}, [&] { merge({output}, {lse}, flat); });
  refuses({"sinks", "3", "2"}, [&] { merge({output}, {lse}, result, std::nullopt, {0, 0}); });
  refuses({"sinks"}, [&] { merge({output}, {lse}, result, std::nullopt, {0, std::nanf(""), 0}); });
  TensorView overlapping = result;
  overlapping.strides[0] = 0;
  refuses({"output", "two elements"}, [&] { merge({output}, {lse}, overlapping); });
}

}  // namespace
}  // namespace multihead::test
