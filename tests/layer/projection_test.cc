#include "layer/projection.h"

#include "layer/layer_test_util.h"
#include "multihead/runtime.h"

namespace multihead {
namespace {

Tensor apply(const Projection& projection, const Tensor& x) {
  Tensor y = Tensor::uninitialized(DType::kF32, {x.shape()[0], projection.output_width()});
  projection.apply(x.data<float>(), x.shape()[0], y.data<float>());
  return y;
}

Tensor expected(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor w = Tensor::converted(weight, DType::kF64);
  Tensor y(DType::kF64, {x.shape()[0], weight.shape()[0]});
  const Index in = x.shape()[1], out = weight.shape()[0];
  for (Index i = 0; i < y.size(); ++i) {
    double sum = bias.empty() ? 0 : load_as_double(bias, i % out);
    for (Index t = 0; t < in; ++t)
      sum += static_cast<double>(x.data<float>()[i / out * in + t]) * w.data<double>()[i % out * in + t];
    y.data<double>()[i] = sum;
  }
  return y;
}

// Sizes around the tiles (4 or 8 rows, 48 columns), the cut of a sum (128 terms) and that of rows (192), and far from them.
TEST(Projection, MatchesTheDefinition) {
  unsigned seed = 1;
  for (const Index out : {1, 4, 47, 48, 49, 300}) {
    for (const Index in : {1, 3, 127, 128, 129, 300}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        RandomNumbers random(seed++);
        const Tensor weight = random.tensor({out, in}, dtype), bias = seed % 2 == 0 ? random.tensor({out}, dtype) : Tensor();
        const Projection projection(weight, bias);
        EXPECT_EQ(projection.input_width(), in);
        EXPECT_EQ(projection.output_width(), out);
        for (const Index rows : {1, 2, 3, 5, 8, 9, 191, 192, 193}) {
          const Tensor x = random.tensor({rows, in});
          EXPECT_LT(max_difference(apply(projection, x), expected(x, weight, bias)), 2e-6 * static_cast<double>(in) + 1e-6)
              << out << " x " << in << ", rows " << rows;
        }
      }
    }
  }
}

TEST(Projection, NoRows) {
  const Projection projection(RandomNumbers(3).tensor({4, 3}), Tensor());
  EXPECT_EQ(apply(projection, Tensor(DType::kF32, {0, 3})).size(), 0);
}

TEST(Projection, ReadsAStridedWeight) {
  RandomNumbers random(4);
  const Tensor transposed = random.tensor({20, 150}), x = random.tensor({9, 20});
  const ConstTensorView weight = transposed.view();
  const Projection projection(weight.transposed(0, 1), ConstTensorView());
  EXPECT_LT(max_difference(apply(projection, x), expected(x, Tensor::copy_of(weight.transposed(0, 1)), Tensor())), 1e-5);
}

// A row has the same bits alone, among others, at any place, and with any number of threads.
TEST(Projection, SameBitsForAnyNeighboursAndThreads) {
  for (const auto& [out, in] : {std::pair<Index, Index>{4, 4}, {64, 64}, {130, 97}, {512, 512}, {200, 1030}, {3100, 40}}) {
    RandomNumbers random(static_cast<unsigned>(out));
    const Projection projection(random.tensor({out, in}), random.tensor({out}));
    const Tensor x = random.tensor({150, in});
    set_num_threads(1);
    const Tensor all = apply(projection, x);
    for (const int threads : {1, 2, 3, 7}) {
      set_num_threads(threads);
      for (const auto& [begin, end] :
           {std::pair<Index, Index>{0, 150}, {0, 1}, {3, 5}, {17, 18}, {100, 150}, {40, 88}, {1, 148}, {5, 11}}) {
        const Tensor part = apply(projection, Tensor::copy_of(x.view().slice(0, begin, end)));
        EXPECT_TRUE(same_bits(part, all.view().slice(0, begin, end)))
            << out << " x " << in << ", rows " << begin << " to " << end << ", threads " << threads;
      }
    }
    set_num_threads(0);
  }
}

TEST(Projection, NaNStaysInItsRow) {
  RandomNumbers random(6);
  const Projection projection(random.tensor({10, 8}), Tensor());
  Tensor x = random.tensor({13, 8});
  const Tensor before = apply(projection, x);
  x.data<float>()[12 * 8 + 2] = std::nanf("");
  const Tensor after = apply(projection, x);
  EXPECT_TRUE(same_bits(before.view().slice(0, 0, 12), after.view().slice(0, 0, 12)));
  EXPECT_TRUE(std::isnan(after.view().at<float>(12, 0)));
}

}  // namespace
}  // namespace multihead
