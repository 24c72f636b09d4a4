// Gradients of the decoder's parts and of the whole, against differences in float64.
#include <gtest/gtest.h>

#include <cstring>

#include "decoder/cross_entropy.h"
#include "decoder/norm.h"
#include "decoder/swiglu.h"
#include "decoder/tiny_decoder.h"
#include "each_target.h"
#include "layer/central_difference.h"
#include "multihead/training.h"

namespace multihead {
namespace {

using test::derivative, test::normal_tensor, test::Random, test::TinyShape;

// sum_i x_i f_i
double dot(const std::vector<double>& x, const Tensor& factors) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * load_as_double(factors, static_cast<Index>(i));
  return sum;
}

TEST(RmsNorm, ForwardAndBackward) {
  constexpr Index kRows = 3, kWidth = 7;
  Random random(1);
  Tensor x = normal_tensor({kRows, kWidth}, random, 1), weight = normal_tensor({kWidth}, random, 1);
  const Tensor dy = normal_tensor({kRows, kWidth}, random, 1);
  const auto by_definition = [&] {
    test::RowList rows(kRows, test::Row(kWidth));
    for (Index n = 0; n < kRows * kWidth; ++n)
      rows[static_cast<std::size_t>(n / kWidth)][static_cast<std::size_t>(n % kWidth)] = load_as_double(x, n);
    std::vector<double> flat;
    for (const test::Row& row : test::norm_rows(rows, weight, 0.01)) flat.insert(flat.end(), row.begin(), row.end());
    return flat;
  };
  Tensor y(DType::kF32, x.shape()), dx(DType::kF32, x.shape()), dweight(DType::kF32, weight.shape());
  const decoder::Rows rows{x.data<float>(), kRows, kWidth};
  decoder::rms_norm(rows, weight.data<float>(), 0.01, y.data<float>());
  decoder::rms_norm_backward(rows, weight.data<float>(), 0.01, dy.data<float>(), dx.data<float>(), dweight.data<float>());
  for (Index i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(y.data<float>()[i]), by_definition()[static_cast<std::size_t>(i)], 1e-6);
    EXPECT_NEAR(static_cast<double>(dx.data<float>()[i]), derivative(x, i, [&] { return dot(by_definition(), dy); }), 2e-6);
  }
  for (Index i = 0; i < kWidth; ++i)
    EXPECT_NEAR(static_cast<double>(dweight.data<float>()[i]), derivative(weight, i, [&] { return dot(by_definition(), dy); }),
                2e-6);
}

TEST(SwiGlu, ForwardAndBackward) {
  Random random(2);
  const std::vector<double> gates{0, 1, -1, 3, -3, 20, -20, 90, -90, 0.3};
  Tensor gate = test::filled(DType::kF32, {10}, [&](Index i) { return gates[static_cast<std::size_t>(i)]; });
  Tensor up = normal_tensor({10}, random, 1);
  const Tensor dy = normal_tensor({10}, random, 1);
  const auto by_definition = [&] {
    std::vector<double> y;
    for (Index i = 0; i < 10; ++i)
      y.push_back(load_as_double(gate, i) * load_as_double(up, i) / (1 + std::exp(-load_as_double(gate, i))));
    return y;
  };
  Tensor y(DType::kF32, {10}), dgate(DType::kF32, {10}), dup(DType::kF32, {10});
  decoder::swiglu(gate.data<float>(), up.data<float>(), 10, y.data<float>());
  decoder::swiglu_backward(gate.data<float>(), up.data<float>(), dy.data<float>(), 10, dgate.data<float>(), dup.data<float>());
  for (Index i = 0; i < 10; ++i) {
    const auto loss = [&] { return dot(by_definition(), dy); };
    EXPECT_NEAR(static_cast<double>(y.data<float>()[i]), by_definition()[static_cast<std::size_t>(i)], 1e-5);
    EXPECT_NEAR(static_cast<double>(dgate.data<float>()[i]), derivative(gate, i, loss), 2e-6) << i;
    EXPECT_NEAR(static_cast<double>(dup.data<float>()[i]), derivative(up, i, loss), 2e-5) << i;
  }
}

// -ln p(target), summed over the rows that count.
double reference_loss(const test::RowList& logits, const std::vector<Index>& targets) {
  double sum = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == kNoTarget) continue;
    double largest = -INFINITY, total = 0;
    for (const double x : logits[row]) largest = std::max(largest, x);
    for (const double x : logits[row]) total += std::exp(x - largest);
    sum += std::log(total) + largest - logits[row][static_cast<std::size_t>(targets[row])];
  }
  return sum;
}

TEST(CrossEntropy, LossGradientAndHits) {
  constexpr Index kRows = 4, kVocab = 6;
  Random random(3);
  Tensor logits = normal_tensor({kRows, kVocab}, random, 3);
  const std::vector<Index> targets{2, kNoTarget, 0, 5};
  const auto rows = [&] {
    test::RowList result(kRows);
    for (Index n = 0; n < kRows * kVocab; ++n)
      result[static_cast<std::size_t>(n / kVocab)].push_back(load_as_double(logits, n));
    return result;
  };
  Tensor gradient = logits.copy();
  const double weight = 1.0 / 3;
  const decoder::LossSum sum = decoder::cross_entropy(gradient.data<float>(), kRows, kVocab, targets.data(), weight);
  const float* read_only = logits.data<float>();
  const decoder::LossSum again = decoder::cross_entropy(read_only, kRows, kVocab, targets.data());
  EXPECT_EQ(sum.count, 3);
  EXPECT_NEAR(sum.total, reference_loss(rows(), targets), 1e-6);
  EXPECT_EQ(sum.total, again.total);
  Index correct = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const test::Row values = rows()[row];
    correct += std::max_element(values.begin(), values.end()) - values.begin() == targets[row] ? 1 : 0;
  }
  EXPECT_EQ(sum.correct, correct);
  for (Index i = 0; i < logits.size(); ++i) {
    const double expected = derivative(logits, i, [&] { return weight * reference_loss(rows(), targets); });
    EXPECT_NEAR(static_cast<double>(gradient.data<float>()[i]), expected, 1e-6) << i;
  }
}

class DecoderGradients : public ::testing::TestWithParam<TinyShape> {};

TEST_P(DecoderGradients, AgreeWithCentralDifferencesOnEveryTarget) {
  const TinyShape shape = GetParam();
  DecoderConfig config = test::tiny_config(shape);
  DecoderWeights weights = test::tiny_weights(shape, 5);
  const std::vector<Index> ids = test::random_ids(2 * 7, shape.vocab_size, 1);
  std::vector<Index> targets = test::random_ids(2 * 7, shape.vocab_size, 2);
  targets[3] = targets[9] = kNoTarget;
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t b = 0; b < 2; ++b) {
      const std::vector<Index> one(ids.begin() + static_cast<std::ptrdiff_t>(7 * b),
                                   ids.begin() + static_cast<std::ptrdiff_t>(7 * b + 7));
      const std::vector<Index> wanted(targets.begin() + static_cast<std::ptrdiff_t>(7 * b),
                                      targets.begin() + static_cast<std::ptrdiff_t>(7 * b + 7));
      sum += reference_loss(test::reference_logits(config, weights, one), wanted);
    }
    return sum / 12;
  };
  const ConstTensorView id_view(ids.data(), {2, 7}), target_view(targets.data(), {2, 7});
  test::for_each_target([&] {
    const Decoder decoder(config, copy_weights(weights));
    LossGradients result = loss_gradients(decoder, id_view, target_view);
    EXPECT_NEAR(result.loss.mean, loss(), 2e-6);
    EXPECT_EQ(result.loss.count, 12);
    const Loss evaluated = evaluate_loss(decoder, id_view, target_view);
    EXPECT_DOUBLE_EQ(evaluated.mean, result.loss.mean);
    EXPECT_EQ(evaluated.correct, result.loss.correct);

    std::vector<Tensor*> gradients;
    for_each_weight(result.gradients, [&](const std::string&, Tensor& tensor) { gradients.push_back(&tensor); });
    std::size_t which = 0;
    for_each_weight(weights, [&](const std::string& name, Tensor& weight) {
      SCOPED_TRACE(name);
      ASSERT_LT(which, gradients.size());
      const Tensor& gradient = *gradients[which++];
      ASSERT_EQ(gradient.shape(), weight.shape());
      double largest = 1e-3;
      for (Index i = 0; i < gradient.size(); ++i) largest = std::max(largest, std::abs(load_as_double(gradient, i)));
      for (Index i = 0; i < weight.size(); i += std::max<Index>(1, weight.size() / 3)) {
        // A wide step: the reference rounds each attention's input to f32, noise of 1e-7 over it.
        EXPECT_NEAR(load_as_double(gradient, i), derivative(weight, i, loss, 0x1p-6), 3e-5 * largest + 2e-6) << i;
      }
    });
    EXPECT_EQ(which, gradients.size());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DecoderGradients,
    ::testing::Values(TinyShape{.vocab_size = 11, .model_dim = 12, .hidden_dim = 9, .num_heads = 4, .num_kv_heads = 2},
                      TinyShape{.vocab_size = 11,
                                .model_dim = 12,
                                .hidden_dim = 9,
                                .num_layers = 1,
                                .num_heads = 4,
                                .num_kv_heads = 1,
                                .tied = false,
                                .biases = true}));

TEST(LossGradients, ThreadsChangeNoBit) {
  const TinyShape shape{.vocab_size = 100, .model_dim = 96, .hidden_dim = 130};
  const Decoder decoder(test::tiny_config(shape), test::tiny_weights(shape, 5));
  const std::vector<Index> ids = test::random_ids(12 * 60, shape.vocab_size, 1),
                           targets = test::random_ids(12 * 60, shape.vocab_size, 2);
  const auto bits = [&](int threads) {
    set_num_threads(threads);
    LossGradients result =
        loss_gradients(decoder, ConstTensorView(ids.data(), {12, 60}), ConstTensorView(targets.data(), {12, 60}));
    std::string bytes(reinterpret_cast<const char*>(&result.loss.mean), sizeof(double));
    for_each_weight(result.gradients, [&](const std::string&, Tensor& tensor) {
      bytes.append(tensor.data<char>(), static_cast<std::size_t>(tensor.size()) * sizeof(float));
    });
    return bytes;
  };
  const std::string first = bits(1);
  for (const int threads : {2, 3, 7}) EXPECT_TRUE(bits(threads) == first) << threads;
  set_num_threads(0);
}

TEST(LossGradients, NothingThatCountsGivesNothing) {
  const Decoder decoder(test::tiny_config({}), test::tiny_weights({}, 5));
  const std::vector<Index> ids{1, 2, 3}, none{kNoTarget, kNoTarget, kNoTarget}, wrong{1, 2, 37};
  LossGradients result = loss_gradients(decoder, ConstTensorView(ids.data(), {1, 3}), ConstTensorView(none.data(), {1, 3}));
  EXPECT_EQ(result.loss.count, 0);
  EXPECT_EQ(result.loss.mean, 0);
  for_each_weight(result.gradients, [](const std::string& name, Tensor& tensor) {
    for (Index i = 0; i < tensor.size(); ++i) ASSERT_EQ(tensor.data<float>()[i], 0.0F) << name;
  });
  EXPECT_THROW(loss_gradients(decoder, ConstTensorView(ids.data(), {1, 3}), ConstTensorView(wrong.data(), {1, 3})),
               InvalidArgument);
  EXPECT_THROW(evaluate_loss(decoder, ConstTensorView(ids.data(), {1, 3}), ConstTensorView(ids.data(), {1, 2})),
               InvalidArgument);
}

}  // namespace
}  // namespace multihead
