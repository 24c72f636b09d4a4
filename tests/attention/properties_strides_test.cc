// The same values in any memory give the same bits, and nothing but the result is written.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_checks.h"
#include "storage.h"

namespace multihead::test {
namespace {

constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16};

// Causal with a mask and a bias in the middle of the two: 30 queries make more than one panel, 110 keys more than one block.
Problem make(DType dtype, std::uint64_t seed) {
  Problem problem = make_problem(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 110, .head_dim = 12, .value_dim = 20}, seed, dtype);
  Random random(seed);
  problem.options.causal = true;
  problem.set_mask(random_mask({2, 1, 30, 110}, 0.8, random));
  problem.set_bias(filled(dtype, {1, 4, 1, 110}, [&](Index) { return random.chance(0.1) ? -kInfinity : random.normal(); }));
  return problem;
}

TEST(AttentionStrides, EachInputInEveryLayout) {
  for (const DType dtype : kTypes) {
    const Problem problem = make(dtype, 21000);
    for_each_target([&] {
      const Result dense = run(problem);
      for (const auto& [layout, name] : kLayouts) {
        SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(dtype)));
        const Inputs& in = problem.inputs;
        const Stored query(in.query, layout), key(in.key, layout), value(in.value, layout), mask(problem.mask, layout),
            bias(problem.bias, layout);
        EXPECT_TRUE(same_bits(dense, run(query, in.key, in.value, problem.options, dtype))) << "query";
        EXPECT_TRUE(same_bits(dense, run(in.query, key, in.value, problem.options, dtype))) << "key";
        EXPECT_TRUE(same_bits(dense, run(in.query, in.key, value, problem.options, dtype))) << "value";
        AttentionOptions options = problem.options;
        options.mask = mask;
        EXPECT_TRUE(same_bits(dense, run(in.query, in.key, in.value, options, dtype))) << "mask";
        options.attention_bias = bias;
        EXPECT_TRUE(same_bits(dense, run(query, key, value, options, dtype))) << "all five";
      }
    });
  }
}

TEST(AttentionStrides, EveryPairOfKeyAndValueLayouts) {
  const Problem problem = make(DType::kF32, 21100);
  for_each_target([&] {
    const Result dense = run(problem);
    for (const auto& [key_layout, key_name] : kLayouts) {
      for (const auto& [value_layout, value_name] : kLayouts) {
        const Stored key(problem.inputs.key, key_layout), value(problem.inputs.value, value_layout);
        EXPECT_TRUE(same_bits(dense, run(problem.inputs.query, key, value, problem.options, DType::kF32)))
            << key_name << ", " << value_name;
      }
    }
  });
}

// How many keys a token is scored against at a time depends on how they lie; what comes out does not.
TEST(AttentionStrides, DecodingOverEveryLayout) {
  for (const DType dtype : kTypes) {
    for (const Index group : {1, 2, 4}) {
      const Problem problem = make_problem(
          {.heads = 2 * group, .kv_heads = 2, .query_len = 1, .key_len = 205, .head_dim = 44, .value_dim = 24}, 21150, dtype);
      for_each_target([&] {
        const Result dense = run(problem);
        for (const auto& [layout, name] : kLayouts) {
          const Inputs& in = problem.inputs;
          const Stored key(in.key, layout), value(in.value, layout);
          SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(dtype)));
          EXPECT_TRUE(same_bits(dense, run(in.query, key, in.value, problem.options, dtype))) << "key";
          EXPECT_TRUE(same_bits(dense, run(in.query, in.key, value, problem.options, dtype))) << "value";
        }
      });
    }
  }
}

TEST(AttentionStrides, OutputAndLseInEveryLayout) {
  for (const DType dtype : kTypes) {
    const Problem problem = make(dtype, 21200);
    for_each_target([&] {
      const Result dense = run(problem);
      for (const auto& [layout, name] : kLayouts) {
        SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(dtype)));
        const Stored output(Tensor(dtype, problem.shape.output()), layout),
            lse(Tensor(DType::kF32, problem.shape.lse()), layout);
        attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, lse.view());
        EXPECT_TRUE(same_bits(dense.output, output.view()));
        EXPECT_TRUE(same_bits(dense.lse, lse.view()));
        EXPECT_TRUE(output.surroundings_intact());
        EXPECT_TRUE(lse.surroundings_intact());
      }
    });
  }
}

// Writing is exact for every width: nothing behind a row, also where a row is shorter than a vector.
TEST(AttentionStrides, NothingIsWrittenBesideTheOutput) {
  for (Index dim = 1; dim <= 40; ++dim) {
    const DType dtype = kTypes[static_cast<std::size_t>(dim) % 3];
    const Problem problem =
        make_problem({.heads = 2, .query_len = 1 + dim % 27, .key_len = 9, .head_dim = 5, .value_dim = dim}, 21300, dtype);
    for_each_target([&] {
      const Stored output(Tensor(dtype, problem.shape.output()), Layout::kPaddedRows);
      attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output);
      EXPECT_TRUE(output.surroundings_intact()) << dim;
      EXPECT_TRUE(same_bits(run(problem).output, output.view())) << dim;
    });
  }
}

// A view that repeats one row, head or batch entry by stride 0.
ConstTensorView repeated(const Tensor& one, const Dims& shape) {
  ConstTensorView view = one.view();
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.shape[axis] == 1) view.strides[axis] = 0;
  }
  view.shape = shape;
  return view;
}

TEST(AttentionStrides, StrideZeroRepeats) {
  const Problem problem = make(DType::kF32, 21400);
  const Shape& s = problem.shape;
  for (int axis = 0; axis < 4; ++axis) {
    const auto one = [&](const Tensor& tensor) { return Tensor::copy_of(tensor.view().slice(axis, 0, 1)); };
    const Tensor query = one(problem.inputs.query), key = one(problem.inputs.key), value = one(problem.inputs.value);
    const ConstTensorView queries = repeated(query, s.query()), keys = repeated(key, s.key()),
                          values = repeated(value, s.value());
    for_each_target([&] {
      EXPECT_TRUE(same_bits(
          run(queries, keys, values, problem.options, DType::kF32),
          run(Tensor::copy_of(queries), Tensor::copy_of(keys), Tensor::copy_of(values), problem.options, DType::kF32)))
          << "axis " << axis;
    });
  }
}

TEST(AttentionStrides, BroadcastMasksEqualExpandedOnes) {
  Problem problem = make(DType::kF32, 21500);
  Random random(21500);
  for (const Dims& shape : {Dims{110}, Dims{1}, Dims{30, 110}, Dims{30, 1}, Dims{1, 110}, Dims{1, 1}, Dims{2, 1, 1, 110},
                            Dims{1, 4, 1, 1}, Dims{2, 1, 30, 1}, Dims{1, 1, 30, 110}, Dims{2, 4, 1, 110}, Dims{1, 1, 1, 1}}) {
    SCOPED_TRACE(multihead::to_string(shape));
    const Tensor mask = random_mask(shape, 0.7, random);
    const Tensor bias = filled(DType::kF32, shape, [&](Index) { return random.normal(); });
    const auto expanded = [&](const Tensor& tensor) {
      return filled(tensor.dtype(), problem.shape.scores(), [&](Index n) {
        return Visibility::broadcast_element(tensor, {n / (110 * 30 * 4), n / (110 * 30) % 4, n / 110 % 30, n % 110});
      });
    };
    const Tensor full_mask = expanded(mask), full_bias = expanded(bias);
    AttentionOptions small, large;
    small.mask = mask.view(), small.attention_bias = bias.view();
    large.mask = full_mask.view(), large.attention_bias = full_bias.view();
    const Inputs& in = problem.inputs;
    for_each_target([&] {
      EXPECT_TRUE(
          same_bits(run(in.query, in.key, in.value, small, DType::kF32), run(in.query, in.key, in.value, large, DType::kF32)));
    });
  }
}

// u8 masks hold any non-zero number for "may attend".
TEST(AttentionStrides, EveryNonZeroByteIsTrue) {
  Problem problem = make(DType::kF32, 21600);
  Random random(21600);
  const Tensor boolean = random_mask({30, 110}, 0.5, random);
  const Tensor bytes = filled(DType::kU8, {30, 110}, [&](Index n) {
    return boolean.data<bool>()[n] ? static_cast<double>(random.between(1, 255)) : 0.0;
  });
  for_each_target([&] {
    AttentionOptions options;
    options.mask = boolean.view();
    const Result expected = run(problem.inputs.query, problem.inputs.key, problem.inputs.value, options, DType::kF32);
    options.mask = bytes.view();
    EXPECT_TRUE(same_bits(expected, run(problem.inputs.query, problem.inputs.key, problem.inputs.value, options, DType::kF32)));
  });
}

// query, key and value may be the same memory, and may be slices of one packed projection [batch, length, 3, heads, dim].
TEST(AttentionStrides, SlicesOfAPackedProjection) {
  Random random(21700);
  const Tensor packed = filled(DType::kF32, {2, 40, 3, 4, 16}, [&](Index) { return random.normal(); });
  const auto part = [&](Index which) {
    return ConstTensorView(packed.view().offset_by(which * 64), DType::kF32, {2, 4, 40, 16}, {40 * 192, 16, 192, 1});
  };
  for_each_target([&] {
    EXPECT_TRUE(same_bits(run(part(0), part(1), part(2), {}, DType::kF32),
                          run(Tensor::copy_of(part(0)), Tensor::copy_of(part(1)), Tensor::copy_of(part(2)), {}, DType::kF32)));
    EXPECT_TRUE(same_bits(run(part(0), part(0), part(0), {}, DType::kF32),
                          run(Tensor::copy_of(part(0)), Tensor::copy_of(part(0)), Tensor::copy_of(part(0)), {}, DType::kF32)));
  });
}

}  // namespace
}  // namespace multihead::test
