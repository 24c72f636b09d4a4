// Failures that users of other attention layers reported, as small cases with known answers.
#include <array>

#include "layer/layer_test_util.h"

namespace multihead {
namespace {

// test::grid divided by 4.
Tensor quarter_grid(const Dims& shape, Index s) {
  Tensor result = test::grid(shape, s);
  for (Index n = 0; n < result.size(); ++n) result.data<float>()[n] /= 4;
  return result;
}

Tensor tensor_of(const Dims& shape, std::initializer_list<float> values) {
  Tensor result(DType::kF32, shape);
  std::copy(values.begin(), values.end(), result.data<float>());
  return result;
}

template <std::size_t n>
void expect_row(const float* actual, const std::array<double, n>& expected, double tolerance = 1e-6) {
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << i;
}

// A packed projection with rows 1 … 6, two heads of width 1, one token 1: the output is V. Taken as three blocks its heads are
// 5 and 6, taken as one triple per head 3 and 6; the layer's own rows are heads in order.
TEST(LayerCases, RowsOfAProjectionAreHeadsInOrder) {
  const LayerConfig config = config_of(1, 2, [](LayerConfig& c) { c.head_dim = 1, c.output_dim = 2; });
  const auto output_for = [&](std::array<float, 2> q, std::array<float, 2> k, std::array<float, 2> v) {
    LayerWeights weights;
    weights.query_weight = tensor_of({2, 1}, {q[0], q[1]});
    weights.key_weight = tensor_of({2, 1}, {k[0], k[1]});
    weights.value_weight = tensor_of({2, 1}, {v[0], v[1]});
    weights.output_weight = tensor_of({2, 2}, {1, 0, 0, 1});
    return MultiHeadAttention(config, std::move(weights)).forward(tensor_of({1, 1, 1}, {1}));
  };
  expect_row<2>(output_for({1, 2}, {3, 4}, {5, 6}).data<float>(), {5, 6}, 0);
  expect_row<2>(output_for({1, 4}, {2, 5}, {3, 6}).data<float>(), {3, 6}, 0);
}

class OddHeads : public testing::Test {
 protected:
  // Width 6, 3 heads of 2, no biases; rows 0 … 5, 6 … 11, 12 … 17 of one pattern are W_Q, W_K and W_V.
  static MultiHeadAttention layer() {
    const Tensor packed = quarter_grid({18, 6}, 2);
    LayerWeights weights;
    weights.query_weight = Tensor::copy_of(packed.view().slice(0, 0, 6));
    weights.key_weight = Tensor::copy_of(packed.view().slice(0, 6, 12));
    weights.value_weight = Tensor::copy_of(packed.view().slice(0, 12, 18));
    weights.output_weight = quarter_grid({6, 6}, 3);
    return MultiHeadAttention(config_of(6, 3), std::move(weights));
  }
  const Tensor x_ = test::grid({1, 3, 6}, 1);
  Tensor probabilities_ = Tensor(DType::kF32, {1, 3, 3, 3});
};

TEST_F(OddHeads, KeyPadding) {
  const Tensor mask = Tensor::converted(tensor_of({3}, {1, 1, 0}), DType::kBool);
  ForwardOptions by_length, by_mask;
  by_length.key_lengths = {2};
  by_mask.mask = mask;
  for (const ForwardOptions& options : {by_length, by_mask}) {
    const Tensor y = layer().forward(x_, options, {{}, probabilities_});
    expect_row<6>(y.data<float>(), {0.262732481, -0.091725898, -0.049815431, 0.173457788, -0.057830039, -0.015919572});
    expect_row<6>(y.data<float>() + 6, {0.331279301, -0.125476564, -0.005741725, 0.083103814, -0.087616453, 0.032118386});
    expect_row<6>(y.data<float>() + 12, {0.224906089, -0.067170214, -0.062846281, 0.192911220, -0.035922964, -0.031599032});
    expect_row<3>(&probabilities_.view().at<float>(0, 0, 0, 0), {0.443385369, 0.556614631, 0});
    expect_row<3>(&probabilities_.view().at<float>(0, 1, 0, 0), {0.588320719, 0.411679281, 0});
    expect_row<3>(&probabilities_.view().at<float>(0, 2, 0, 0), {0.527856827, 0.472143173, 0});
    EXPECT_NEAR(layer().reference_forward(x_, x_, options).data<double>()[0], 0.262732481, 1e-9);
  }
}

TEST_F(OddHeads, Unpadded) {
  const Tensor y = layer().forward(x_, {}, {{}, probabilities_});
  expect_row<6>(y.data<float>(), {-0.014081778, 0.013106009, -0.072959790, 0.147132316, 0.024140553, -0.061925247});
  std::array<float, 3> mean{};
  for (Index head = 0; head < 3; ++head) {
    for (Index j = 0; j < 3; ++j) mean[static_cast<std::size_t>(j)] += probabilities_.view().at<float>(0, head, 0, j) / 3;
  }
  expect_row<3>(mean.data(), {0.367088683, 0.346969274, 0.285942043});
}

// Asking for the probabilities, or giving a mask that hides nothing, does not lose causality.
TEST(LayerCases, CausalitySurvivesObservationAndMasks) {
  LayerWeights weights;
  weights.query_weight = tensor_of({1, 1}, {0});
  weights.key_weight = tensor_of({1, 1}, {0});
  weights.value_weight = tensor_of({1, 1}, {1});
  weights.output_weight = tensor_of({1, 1}, {1});
  const MultiHeadAttention layer(config_of(1, 1, [](LayerConfig& c) { c.causal = true; }), std::move(weights));
  const Tensor x = tensor_of({1, 3, 1}, {0, 1, 2});
  const Tensor mask = Tensor::converted(tensor_of({3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1}), DType::kBool);
  ForwardOptions masked;
  masked.mask = mask;
  for (const ForwardOptions& options : {ForwardOptions{}, masked}) {
    Tensor probabilities(DType::kF32, {1, 1, 3, 3});
    expect_row<3>(layer.forward(x, options).data<float>(), {0, 0.5, 1});
    expect_row<3>(layer.forward(x, options, {{}, probabilities}).data<float>(), {0, 0.5, 1});
    expect_row<9>(probabilities.data<float>(), {1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  }
}

TEST(LayerCases, EmptyBatchWithAMask) {
  const LayerConfig config = config_of(4, 1);
  const MultiHeadAttention layer(config, random_weights(config, 1, true));
  const Tensor mask(DType::kBool, {128, 4});
  ForwardOptions options;
  options.mask = mask;
  EXPECT_EQ(layer.forward(Tensor(DType::kF32, {0, 128, 4}), Tensor(DType::kF32, {0, 4, 4}), options).shape(),
            (Dims{0, 128, 4}));
}

}  // namespace
}  // namespace multihead
