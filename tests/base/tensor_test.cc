#include "multihead/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "random_inputs.h"
#include "storage.h"

namespace multihead::test {
namespace {

TEST(Dims, CountsAndRefuses) {
  EXPECT_EQ(Dims{}.product(), 1);
  EXPECT_EQ((Dims{2, 3, 4}).product(), 24);
  EXPECT_EQ((Dims{INT64_MAX, INT64_MAX, 0}).product(), 0) << "empty, however large the other extents";
  EXPECT_EQ((Dims{0, INT64_MAX, INT64_MAX}).product(), 0);
  EXPECT_THROW((Dims{INT64_MAX, 2}).product(), InvalidArgument);
  EXPECT_THROW((Dims{2, -1}).product(), InvalidArgument);
  EXPECT_THROW((Dims{0, -1}).product(), InvalidArgument);
  EXPECT_THROW(Dims(std::vector<Index>(9, 1)), InvalidArgument);
  EXPECT_EQ(Dims(std::vector<Index>(8, 1)).rank(), 8);
  EXPECT_EQ(to_string(Dims{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  EXPECT_TRUE((Dims{2, 3}) == (Dims{2, 3}));
  EXPECT_FALSE((Dims{2, 3}) == (Dims{2, 3, 1}));
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(TensorView, SlicesTransposesAndAddresses) {
  const Tensor tensor = filled(DType::kF32, {2, 3, 4}, [](Index n) { return static_cast<double>(n); });
  const ConstTensorView view = tensor;
  EXPECT_EQ(view.at<float>(1, 2, 3), 23.0f);
  EXPECT_EQ(view.transposed(0, 2).at<float>(3, 2, 1), 23.0f);
  EXPECT_EQ(view.slice(1, 1, 3).at<float>(1, 0, 0), 16.0f);
  EXPECT_EQ(view.slice(1, 1, 3).shape, (Dims{2, 2, 4}));
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_FALSE(view.transposed(0, 1).is_contiguous());
  EXPECT_TRUE(view.slice(0, 1, 2).is_contiguous());
  EXPECT_TRUE(view.slice(1, 1, 1).is_contiguous()) << "without elements";
  EXPECT_EQ(ConstTensorView().offset_by(5), nullptr);
}

TEST(Tensor, OwnsAlignedZeros) {
  for (const DType dtype : {DType::kBool, DType::kU16, DType::kF16, DType::kF32, DType::kF64}) {
    Tensor tensor(dtype, {3, 5});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data<char>()) % 64, 0u);
    for (Index n = 0; n < 15; ++n) EXPECT_EQ(load_as_double(tensor, n), 0.0);
  }
  EXPECT_TRUE(Tensor().empty());
  const Tensor none(DType::kF32, {0, 3});
  EXPECT_EQ(none.size(), 0);
  EXPECT_FALSE(none.empty()) << "a tensor without elements is not a missing tensor";
  EXPECT_THROW(Tensor(DType::kF32, {-1}), InvalidArgument);
  EXPECT_THROW(Tensor(DType::kF64, {INT64_MAX / 8}), InvalidArgument);
  EXPECT_THROW(Tensor::uninitialized(DType::kF32, {Index{1} << 60}), std::bad_alloc);
}

TEST(Tensor, ReshapesMovesAndCopies) {
  Tensor tensor = filled(DType::kF32, {2, 6}, [](Index n) { return static_cast<double>(n); });
  const float* memory = tensor.data<float>();
  Tensor reshaped = std::move(tensor).reshaped({3, 4});
  EXPECT_EQ(reshaped.data<float>(), memory);
  EXPECT_EQ(reshaped.shape(), (Dims{3, 4}));
  EXPECT_THROW(std::move(reshaped).reshaped({5}), InvalidArgument);
  ASSERT_FALSE(reshaped.empty()) << "a refused reshape loses nothing";
  const Tensor copy = reshaped.copy();
  EXPECT_NE(copy.data<float>(), memory);
  EXPECT_EQ(load_as_double(copy, 11), 11.0);
}

// Every layout of every element type, copied dense.
TEST(Tensor, CopiesAnyStrides) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Tensor values = filled(dtype, {2, 3, 4, 5}, [](Index n) { return static_cast<double>(n); });
    for (const auto& [layout, name] : kLayouts) {
      const Stored stored(values, layout);
      const Tensor copy = Tensor::copy_of(stored);
      EXPECT_TRUE(copy.view().is_contiguous());
      for (Index n = 0; n < values.size(); ++n) ASSERT_EQ(load_as_double(copy, n), static_cast<double>(n)) << name;
    }
  }
  const Tensor one = filled(DType::kF32, {1, 3}, [](Index n) { return static_cast<double>(n); });
  const Tensor repeated = Tensor::copy_of(ConstTensorView(one.data<float>(), DType::kF32, {4, 3}, {0, 1}));
  for (Index n = 0; n < 12; ++n) EXPECT_EQ(load_as_double(repeated, n), static_cast<double>(n % 3));
  EXPECT_EQ(Tensor::copy_of(Tensor(DType::kF32, {3, 0})).shape(), (Dims{3, 0}));
}

TEST(Tensor, ConvertsFromEveryType) {
  constexpr std::array kSources{DType::kBool, DType::kU8,  DType::kI8,  DType::kU16,  DType::kI16, DType::kU32, DType::kI32,
                                DType::kU64,  DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (const DType from : kSources) {
    Tensor source(from, {4});
    auto* bytes = source.data<unsigned char>();
    const std::size_t size = size_of(from);
    // The number 1 in every element but the first; integers are little-endian here.
    for (std::size_t n = 1; n < 4; ++n) {
      switch (from) {
        case DType::kF16:
          source.data<Float16>()[n] = Float16(1.0f);
          break;
        case DType::kBF16:
          source.data<BFloat16>()[n] = BFloat16(1.0f);
          break;
        case DType::kF32:
          source.data<float>()[n] = 1.0f;
          break;
        case DType::kF64:
          source.data<double>()[n] = 1.0;
          break;
        default:
          bytes[n * size] = 1;
          break;
      }
    }
    for (const DType to : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const Tensor converted = Tensor::converted(source, to);
      EXPECT_EQ(converted.dtype(), to);
      for (Index n = 0; n < 4; ++n)
        EXPECT_EQ(load_as_double(converted, n), n == 0 ? 0.0 : 1.0) << name_of(from) << " to " << name_of(to);
    }
  }
}

// One rounding: a double just above the middle of two 16-bit numbers goes up, although the nearest float is the middle itself.
TEST(Tensor, ConvertsDoublesWithOneRounding) {
  const double above = 0x1p-40;
  Tensor source(DType::kF64, {4});
  source.data<double>()[0] = 1 + 0x1p-11 + above;  // f16: between 1 and 1 + 2^-10
  source.data<double>()[1] = 1 + 3 * 0x1p-11 - above;
  source.data<double>()[2] = 1 + 0x1p-8 + above;  // bf16: between 1 and 1 + 2^-7
  source.data<double>()[3] = 1 + 3 * 0x1p-8 - above;
  const Tensor half = Tensor::converted(source, DType::kF16), brain = Tensor::converted(source, DType::kBF16);
  EXPECT_EQ(load_as_double(half, 0), 1 + 0x1p-10);
  EXPECT_EQ(load_as_double(half, 1), 1 + 0x1p-10);
  EXPECT_EQ(load_as_double(brain, 2), 1 + 0x1p-7);
  EXPECT_EQ(load_as_double(brain, 3), 1 + 0x1p-7);
}

}  // namespace
}  // namespace multihead::test
