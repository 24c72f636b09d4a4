#include "layer/query_key_norm.h"

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

constexpr auto kRms = QueryKeyNorm::Kind::kRms, kLayerNorm = QueryKeyNorm::Kind::kLayer;

Tensor tensor_of(const Dims& shape, std::initializer_list<float> values) {
  Tensor result(DType::kF32, shape);
  std::copy(values.begin(), values.end(), result.data<float>());
  return result;
}

// One token, two heads of two: (3, 4 | 0, 2), normalised with epsilon 0.
std::vector<float> normalized(const QueryKeyNorm& norm, const Tensor& weight, const Tensor& bias = Tensor()) {
  Tensor x = tensor_of({1, 2, 1, 2}, {3, 4, 0, 2});
  HeadNorm(norm, weight, bias, 2, 2).apply(x);
  return {x.data<float>(), x.data<float>() + 4};
}

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << i;
}

TEST(QueryKeyNorm, TheWeightsShapeTellsTheSpan) {
  const QueryKeyNorm rms{kRms, 0, false};
  const double a = std::sqrt(12.5), b = std::sqrt(2.0), all = std::sqrt(29.0 / 4);  // root mean squares
  expect_near(normalized(rms, tensor_of({2}, {1, 10})), {3 / a, 40 / a, 0, 20 / b});
  expect_near(normalized(rms, tensor_of({2, 2}, {1, 10, 100, 1000})), {3 / a, 40 / a, 0, 2000 / b});
  expect_near(normalized(rms, tensor_of({4}, {1, 10, 100, 1000})), {3 / all, 40 / all, 0, 2000 / all});
}

TEST(QueryKeyNorm, WeightPlusOne) {
  const double a = std::sqrt(12.5), b = std::sqrt(2.0);
  expect_near(normalized({kRms, 0, true}, tensor_of({2}, {0, 0.5f})), {3 / a, 6 / a, 0, 3 / b});
}

TEST(QueryKeyNorm, LayerNormCentresAndShifts) {
  expect_near(normalized({kLayerNorm, 0, false}, tensor_of({2}, {1, 1})), {-1, 1, -1, 1});
  expect_near(normalized({kLayerNorm, 0, false}, tensor_of({2}, {2, 3}), tensor_of({2}, {10, 20})), {8, 23, 8, 23});
  const double deviation = std::sqrt((0.75 * 0.75 + 1.75 * 1.75 + 2.25 * 2.25 + 0.25 * 0.25) / 4);  // around the mean 2.25
  expect_near(normalized({kLayerNorm, 0, false}, tensor_of({4}, {1, 1, 1, 1})),
              {0.75 / deviation, 1.75 / deviation, -2.25 / deviation, -0.25 / deviation});
}

TEST(QueryKeyNorm, EpsilonIsAddedToTheMeanSquare) {
  const double a = std::sqrt(12.5 + 3.5), b = std::sqrt(2.0 + 3.5);
  expect_near(normalized({kRms, 3.5, false}, tensor_of({2}, {1, 1})), {3 / a, 4 / a, 0, 2 / b});
}

}  // namespace
}  // namespace multihead
