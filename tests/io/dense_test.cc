#include "io/dense.h"

#include <random>

#include "io/io_testing.h"
#include "multihead/io.h"

namespace multihead::testing {
namespace {

// Dims in any order of memory, each possibly reversed, broadcast or with gaps.
struct RandomView {
  std::vector<std::uint8_t> memory;
  ConstTensorView view;
};

RandomView random_view(std::mt19937_64& random, DType dtype, const Dims& shape) {
  RandomView result;
  const auto size = static_cast<Index>(size_of(dtype));
  Dims strides = shape;
  std::vector<int> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) axes.push_back(axis);
  std::shuffle(axes.begin(), axes.end(), random);
  Index span = 1;   // elements that the axes so far reach over
  Index first = 0;  // where element [0, …, 0] lies
  for (const int axis : axes) {
    const auto kind = random() % 4;
    const Index stride = kind == 0 ? 0 : kind == 1 ? span : span * static_cast<Index>(1 + random() % 3);
    strides[axis] = random() % 2 == 0 ? stride : -stride;
    const Index reach = stride * std::max<Index>(shape[axis] - 1, 0);
    if (strides[axis] < 0) first += reach;
    span += reach;
  }
  result.memory.resize(static_cast<std::size_t>(span * size));
  for (auto& byte : result.memory) byte = static_cast<std::uint8_t>(random() % 2);  // right for bools, too
  result.view = {result.memory.data() + first * size, dtype, shape, strides};
  return result;
}

TEST(Dense, AnyViewIsHandedOutInLogicalOrder) {
  std::mt19937_64 random(20);
  const std::vector<Dims> shapes = {{},
                                    {1},
                                    {7},
                                    {0},
                                    {5, 3},
                                    {3, 0, 2},
                                    {1, 4, 1},
                                    {2, 3, 4, 5},
                                    {2, 1, 70'001},
                                    {70'001, 2},
                                    {40, 40, 40, 3},
                                    {2, 2, 2, 2, 2, 2, 2, 2}};
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
    for (const Dims& shape : shapes) {
      const RandomView any = random_view(random, dtype, shape);
      const Tensor expected = Tensor::copy_of(any.view);
      std::string bytes;
      std::size_t largest = 0;
      for_each_block(any.view, [&](const void* data, std::size_t size) {
        bytes.append(static_cast<const char*>(data), size);
        largest = std::max(largest, size);
      });
      ASSERT_EQ(bytes.size(), static_cast<std::size_t>(expected.size()) * size_of(dtype));
      EXPECT_EQ(std::memcmp(bytes.data(), expected.data<void>(), bytes.size()), 0) << name_of(dtype) << " " << to_string(shape);
      EXPECT_TRUE(any.view.is_contiguous() || largest <= std::size_t{1} << 18) << "the buffer is bounded; got " << largest;
    }
  }
}

TEST(Dense, StridedViewsSurviveBothFormats) {
  const TempFolder folder;
  std::mt19937_64 random(21);
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI16, DType::kF32, DType::kF64}) {
    for (const Dims& shape : {Dims{5, 3}, Dims{2, 3, 4}, Dims{3, 300, 200}}) {
      const RandomView any = random_view(random, dtype, shape);
      const Tensor expected = Tensor::copy_of(any.view);
      write_npy(folder / "a", any.view);
      write_safetensors(folder / "b", {{"t", any.view}});
      for (const Tensor& back : {read_npy(folder / "a"), Safetensors::open(folder / "b").read("t")}) {
        ASSERT_EQ(back.shape(), shape);
        EXPECT_EQ(std::memcmp(back.data<void>(), expected.data<void>(), static_cast<std::size_t>(back.size()) * size_of(dtype)),
                  0);
      }
    }
  }
}

TEST(Dense, FortranSliceTransposeAndBroadcastByHand) {
  const TempFolder folder;
  const float columns[] = {0, 3, 1, 4, 2, 5};
  const float rows[] = {0, 1, 2, 3, 4, 5};
  const auto saved = [&](const ConstTensorView& view) {
    write_npy(folder / "a.npy", view);
    write_safetensors(folder / "a.safetensors", {{"t", view}});
    const auto values = values_of<float>(read_npy(folder / "a.npy"));
    EXPECT_EQ(values, values_of<float>(Safetensors::open(folder / "a.safetensors").read("t")));
    return values;
  };
  EXPECT_EQ(saved({columns, DType::kF32, {2, 3}, {1, 2}}), (std::vector<float>{0, 1, 2, 3, 4, 5})) << "Fortran order";
  EXPECT_EQ(saved({rows, DType::kF32, {2, 2}, {3, 2}}), (std::vector<float>{0, 2, 3, 5})) << "x[:, ::2]";
  EXPECT_EQ(saved(ConstTensorView(rows, {2, 3}).transposed(0, 1)), (std::vector<float>{0, 3, 1, 4, 2, 5})) << "x.T";
  EXPECT_EQ(saved({rows + 1, DType::kF32, {4, 2}, {0, 1}}), (std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2})) << "broadcast";
  EXPECT_EQ(saved({rows + 5, DType::kF32, {6}, {-1}}), (std::vector<float>{5, 4, 3, 2, 1, 0})) << "x[::-1]";
}

TEST(Dense, SizesThatOverflow) {
  EXPECT_EQ(bits_of({}, 4), 4u);
  EXPECT_EQ(bits_of({INT64_MAX, INT64_MAX, 0}, 64), 0u);
  EXPECT_EQ(bits_of({Index{1} << 57}, 64), std::uint64_t{1} << 63);
  EXPECT_EQ(bits_of({Index{1} << 58}, 64), std::nullopt);
  EXPECT_EQ(bits_of({INT64_MAX, 2}, 4), std::nullopt);
}

}  // namespace
}  // namespace multihead::testing
