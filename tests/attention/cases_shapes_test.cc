// Tails, large strides and empty shapes: what people reported about other systems (cases O20–O23).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <vector>

#include "attention_checks.h"
#include "storage.h"

namespace multihead::test {
namespace {

// K and V end where a page begins that cannot be read (or begin where one ends), at every length.
TEST(AttentionCases, O20NothingIsReadBeyondTheKeys) {
  constexpr std::array<Index, 9> kDims{1, 3, 8, 17, 64, 80, 96, 127, 128};
  GuardedMemory query_memory(8 * 128 * 4), key_memory(130 * 128 * 4), value_memory(130 * 128 * 4);
  for (Index keys = 1; keys <= 130; ++keys) {
    for (const Index dim : kDims) {
      const Shape shape{.query_len = 1 + (keys + dim) % 8, .key_len = keys, .head_dim = dim, .value_dim = dim};
      const auto side = keys % 5 == 0 ? GuardedMemory::Side::kBefore : GuardedMemory::Side::kBehind;
      constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};
      const Problem problem =
          make_problem(shape, static_cast<std::uint64_t>(1000 * keys + dim), kTypes[static_cast<std::size_t>(keys % 3)]);
      const TensorView query = query_memory.place(problem.inputs.query, side);
      const TensorView key = key_memory.place(problem.inputs.key, side), value = value_memory.place(problem.inputs.value, side);
      const Exact exact = exact_of(problem);
      for_each_target([&] {
        ASSERT_TRUE(within_contract(exact, run(query, key, value, problem.options, problem.output_dtype))) << to_string(shape);
      });
    }
  }
}

TEST(AttentionCases, O20KeysBeyondTheLengthMayBeUnmapped) {
  const auto page = static_cast<Index>(sysconf(_SC_PAGESIZE));
  GuardedMemory key_memory(127 * 64), value_memory(127 * 64);
  for (const Index length : {0, 1, 31, 33, 64, 127}) {
    Problem problem =
        make_problem({.query_len = 3, .key_len = std::max<Index>(length, 1), .head_dim = 16, .value_dim = 16}, 204);
    const TensorView key = key_memory.place(problem.inputs.key.view().slice(2, 0, length));
    const TensorView value = value_memory.place(problem.inputs.value.view().slice(2, 0, length));
    // Views that reach one page further: everything from key `length` on is unreadable.
    const Dims longer{1, 1, length + page / 64, 16};
    problem.options.key_lengths = {length};
    const Result got = run(problem.inputs.query, ConstTensorView(key.data, DType::kF32, longer),
                           ConstTensorView(value.data, DType::kF32, longer), problem.options, DType::kF32);
    EXPECT_TRUE(same_bits(got, run(problem))) << length;
  }
}

// A mapping without memory behind it until it is touched.
class SparseFloats {
 public:
  explicit SparseFloats(Index count) : bytes_(static_cast<std::size_t>(count) * sizeof(float)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped()) madvise(memory_, bytes_, MADV_NOHUGEPAGE);  // one touched float must not cost 2 MiB
  }
  SparseFloats(const SparseFloats&) = delete;
  SparseFloats& operator=(const SparseFloats&) = delete;
  ~SparseFloats() { munmap(memory_, bytes_); }
  bool mapped() const { return memory_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(memory_); }

 private:
  std::size_t bytes_;
  void* memory_;
};

void copy_into(const Tensor& from, const TensorView& to) {
  const std::vector<Index> offsets = Stored::offsets_of(to);
  for (Index n = 0; n < from.size(); ++n) to.as<float>()[offsets[static_cast<std::size_t>(n)]] = from.data<float>()[n];
}

TEST(AttentionCases, O21KeyOffsetsBeyond32Bits) {
  constexpr Index kKeys = 24000, kColumns = 700, kDim = 128;
  static_assert((kKeys - 1) * kColumns * kDim > INT32_MAX);
  const SparseFloats memory(kKeys * kColumns * kDim);
  if (!memory.mapped()) GTEST_SKIP() << "cannot map 8.6 GB of address space";
  const Problem compact = make_problem({.query_len = 2, .key_len = kKeys, .head_dim = kDim, .value_dim = kDim}, 21);
  const Dims strides{0, 0, kColumns * kDim, 1};
  const TensorView key(memory.data() + 5 * kDim, DType::kF32, compact.shape.key(), strides);
  const TensorView value(memory.data() + 6 * kDim, DType::kF32, compact.shape.value(), strides);
  copy_into(compact.inputs.key, key);
  copy_into(compact.inputs.value, value);
  for_each_target([&] { EXPECT_TRUE(same_bits(run(compact.inputs.query, key, value, {}, DType::kF32), run(compact))); });
}

TEST(AttentionCases, O21BatchOffsetsBeyond32Bits) {
  constexpr Index kBatch = 8300, kStride = 262144;
  static_assert((kBatch - 1) * kStride > INT32_MAX);
  const SparseFloats memory(kBatch * kStride);
  if (!memory.mapped()) GTEST_SKIP() << "cannot map 8.7 GB of address space";
  const Problem compact = make_problem({.batch = kBatch, .query_len = 1, .key_len = 2, .head_dim = 8, .value_dim = 8}, 22);
  const Dims strides{kStride, 0, 8, 1};
  const TensorView query(memory.data(), DType::kF32, compact.shape.query(), strides);
  const TensorView key(memory.data() + 64, DType::kF32, compact.shape.key(), strides);
  const TensorView value(memory.data() + 128, DType::kF32, compact.shape.value(), strides);
  const TensorView output(memory.data() + 192, DType::kF32, compact.shape.output(), strides);
  copy_into(compact.inputs.query, query);
  copy_into(compact.inputs.key, key);
  copy_into(compact.inputs.value, value);
  for_each_target([&] {
    attention(query, key, value, output);
    EXPECT_TRUE(same_bits(output, run(compact).output));
  });
}

TEST(AttentionCases, O21ExtentsBeyond32Bits) {
  const Problem small = make_problem({.query_len = 2, .key_len = 5, .head_dim = 8, .value_dim = 8}, 23);
  // Three thousand million keys that are one row in memory, five of them valid.
  const Tensor row = grid({1, 1, 1, 8}, 5);
  const ConstTensorView key(row.view().data, DType::kF32, {1, 1, 3'000'000'000, 8}, {0, 0, 0, 1});
  AttentionOptions options;
  options.key_lengths = {5};
  options.causal = true;
  for_each_target([&] {
    const Result result = run(small.inputs.query, key, key, options, DType::kF32);
    EXPECT_TRUE(near(values_of(result.output.view().slice(2, 1, 2)), values_of(row), 2e-6));
  });
  for (const ConstTensorView& view : {ConstTensorView(row.view().data, DType::kF32, {1, 1, INT64_MAX / 4, 8}),
                                      ConstTensorView(row.view().data, DType::kF32, {1, 1, 5, 8}, {0, 0, INT64_MAX / 2, 1}),
                                      ConstTensorView(row.view().data, DType::kF32, {1, 1, 5, 8}, {0, 0, INT64_MIN, 1})}) {
    EXPECT_THROW(run(small.inputs.query, view, view, {}, DType::kF32), InvalidArgument);
  }
}

TEST(AttentionCases, O22SequencesWithoutKeysInAPackedBatch) {
  // The case is written for [1, length, heads, dim].
  Problem problem = grid_problem({.heads = 2, .kv_heads = 2, .query_len = 6, .key_len = 4, .head_dim = 68, .value_dim = 68});
  problem.inputs.query = Tensor::copy_of(grid({1, 6, 2, 68}, 1).view().transposed(1, 2));
  problem.inputs.key = Tensor::copy_of(grid({1, 4, 2, 68}, 2).view().transposed(1, 2));
  problem.inputs.value = Tensor::copy_of(grid({1, 4, 2, 68}, 3).view().transposed(1, 2));
  problem.options.packed = PackedSequences{{0, 1, 3, 4, 6}, {0, 0, 2, 2, 4}};
  for_each_target([&] {
    const Result result = run(problem);
    for (const Index row : {0, 3}) {
      EXPECT_TRUE(same_bits(result.output.view().slice(2, row, row + 1), Tensor(DType::kF32, {1, 2, 1, 68})));
      EXPECT_EQ(result.lse.data<float>()[row], -kInfinity);
    }
    EXPECT_TRUE(near(values_of(result.output.view().slice(1, 0, 1).slice(2, 1, 2).slice(3, 0, 3)),
                     {0.211644977, 0.573154173, -0.551845827}, 2e-6));
  });
  Tensor output(DType::kF64, problem.shape.output()), probabilities(DType::kF64, problem.shape.scores());
  reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                      probabilities.view());
  EXPECT_TRUE(near(values_of(probabilities.view().slice(1, 0, 1)),
                   {0, 0, 0, 0, 0.517046677, 0.482953323, 0,           0, 0.959543363, 0.040456637, 0,          0, 0,
                    0, 0, 0, 0, 0,           0.959836565, 0.040163435, 0, 0,           0.970190346, 0.029809654},
                   1e-8));
}

TEST(AttentionCases, O23EveryExtentMayBeZero) {
  const Shape full{.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6};
  std::vector<Shape> shapes(7, full);
  shapes[0].batch = 0;
  shapes[1].heads = shapes[1].kv_heads = 0;
  shapes[2].query_len = 0;
  shapes[3].key_len = 0;
  shapes[4].head_dim = 0;
  shapes[5].value_dim = 0;
  shapes[6].heads = 0;
  for (const Shape& shape : shapes) {
    Problem problem = make_problem(shape, 23);
    if (shape.head_dim == 0) problem.options.scale = 1.0f;
    for (const bool with_options : {false, true}) {
      if (with_options) {
        problem.options.causal = true;
        problem.options.window = Window{2, 2};
        problem.set_mask(filled(DType::kBool, {1, 1, 1, shape.key_len}, [](Index) { return 1; }));
      }
      for_each_target([&] {
        const Result result = run(problem);
        EXPECT_EQ(result.output.shape(), shape.output());
        for (const double x : values_of(result.output)) EXPECT_TRUE(std::isfinite(x)) << to_string(shape);
        for (const double lse : values_of(result.lse)) EXPECT_EQ(lse == -kInfinity, shape.key_len == 0) << to_string(shape);
        if (shape.key_len == 0) {
          EXPECT_TRUE(same_bits(result.output, Tensor(DType::kF32, shape.output())));
        }
      });
    }
  }
}

TEST(AttentionCases, O23NoHeadDimNeedsAScale) {
  Problem problem = make_problem({.query_len = 2, .key_len = 3, .head_dim = 0, .value_dim = 1}, 24);
  EXPECT_THROW(run(problem), InvalidArgument);
  problem.inputs.value = filled(DType::kF32, problem.shape.value(), [](Index j) { return static_cast<double>(j); });
  problem.options.scale = 0.5f;
  for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {1, 1}, 2e-6)); });
}

TEST(AttentionCases, O23EmptyTensorsNeedNoMemory) {
  const ConstTensorView nothing(static_cast<const void*>(nullptr), DType::kF32, {0, 2, 3, 4});
  const TensorView output(static_cast<void*>(nullptr), DType::kF32, {0, 2, 3, 4});
  EXPECT_NO_THROW(attention(nothing, nothing, nothing, output));
}

}  // namespace
}  // namespace multihead::test
