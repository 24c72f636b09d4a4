// Numbers, strides and calls that must be refused: what people reported about other systems (cases O10–O12, O29, O30).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_checks.h"
#include "storage.h"

namespace multihead::test {
namespace {

TEST(AttentionCases, O10DotProductBeyondHalfPrecision) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    Problem problem = uniform_problem({.query_len = 1, .key_len = 2, .head_dim = 64, .value_dim = 1});
    problem.inputs.query = filled(dtype, problem.shape.query(), [](Index) { return 32; });
    // 31.96875 has 10 significant bits: bf16 holds 8, so there it takes the next number below 32.
    const double less = dtype == DType::kBF16 ? 31.875 : 31.96875;
    problem.inputs.key = filled(dtype, problem.shape.key(), [&](Index n) { return n == 127 ? less : 32; });
    problem.inputs.value = filled(dtype, problem.shape.value(), [](Index j) { return j == 0 ? 1 : -1; });
    problem.output_dtype = dtype;
    const double difference = 32 * (32 - less) / 8;
    const double right = std::tanh(difference / 2);  // p0 - p1
    if (dtype != DType::kBF16) {
      EXPECT_NEAR(right, 0.062418747, 1e-9);
    }
    for_each_target([&] {
      const double got = load_as_double(run(problem).output, 0);
      // Scores are 8192 and 8191.875: an f32 holds them to 2^-11, hence the weights to about that.
      EXPECT_NEAR(got, right, 1e-3);
    });
  }
}

TEST(AttentionCases, O11LastAxisNotContiguous) {
  const Problem problem =
      grid_problem({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 3, .head_dim = 4, .value_dim = 4});
  const Stored query(problem.inputs.query, Layout::kTransposed), key(problem.inputs.key, Layout::kTransposed),
      value(problem.inputs.value, Layout::kTransposed);
  ASSERT_EQ(query.view().strides[3], 3);
  for_each_target([&] {
    EXPECT_TRUE(
        near(values_of(run(query, key, value, {}, DType::kF32).output),
             {-0.753235452, 0.259015458,  -0.128235452, 0.272399981,  -0.800637314, 0.669790534, -0.175637314, -0.938844068,
              0.081871500,  -0.461313038, 0.706871500,  -0.110194874, 0.660602483,  0.272565848, -0.454872237, 0.160602483,
              0.013085224,  -0.649017251, 0.469119952,  -0.486914776, 0.771142298,  0.197348854, -0.542846954, 0.271142298},
             2e-6));
  });
}

TEST(AttentionCases, O11ValueInSequenceMajorOrder) {
  const Problem problem =
      grid_problem({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 3, .head_dim = 4, .value_dim = 4});
  const Tensor buffer = grid({1, 3, 2, 4}, 3);
  for_each_target([&] {
    const Result result = run(problem.inputs.query, problem.inputs.key, buffer.view().transposed(1, 2), {}, DType::kF32);
    EXPECT_TRUE(
        near(values_of(result.output),
             {0.156415439,  0.380780006,  -0.744219994, 0.394164529,  -0.644053534, 0.744153220,  -0.380846780, -0.864481382,
              -0.946507912, 0.495558462,  -0.629441538, 0.846676626,  -0.044269754, -0.432306389, 0.580730246,  -0.544269754,
              0.232205175,  -0.429897299, 0.857205175,  -0.267794825, -0.021704656, -0.595498101, 0.603295344,  -0.521704656},
             2e-6));
  });
}

TEST(AttentionCases, O12ReversedAxisAndForeignElementTypes) {
  Problem problem = grid_problem({.query_len = 3, .key_len = 3, .head_dim = 4, .value_dim = 4});
  ConstTensorView reversed = problem.inputs.query.view();
  reversed.data = reversed.offset_by(3);
  reversed.strides[3] = -1;
  const Tensor dense = Tensor::copy_of(reversed);
  for_each_target([&] {
    EXPECT_TRUE(same_bits(run(reversed, problem.inputs.key, problem.inputs.value, {}, DType::kF32),
                          run(dense, problem.inputs.key, problem.inputs.value, {}, DType::kF32)));
  });
  for (const DType dtype : {DType::kF64, DType::kI64, DType::kI32, DType::kU8, DType::kBool}) {
    const Tensor foreign(dtype, problem.shape.query());
    EXPECT_THROW(run(foreign, problem.inputs.key, problem.inputs.value, {}, DType::kF32), InvalidArgument) << name_of(dtype);
    EXPECT_THROW(run(problem.inputs.query, foreign, problem.inputs.value, {}, DType::kF32), InvalidArgument) << name_of(dtype);
    EXPECT_THROW(run(problem.inputs.query, problem.inputs.key, foreign, {}, DType::kF32), InvalidArgument) << name_of(dtype);
  }
}

// A pointer between two elements, as a record array with a one-byte tag has it: refused, not read.
TEST(AttentionCases, O12MisalignedMemory) {
  const Problem problem = grid_problem({.query_len = 3, .key_len = 3, .head_dim = 4, .value_dim = 4});
  std::vector<unsigned char> bytes(3 * 4 * sizeof(float) + 64);
  for (const std::ptrdiff_t shift : {1, 2, 3}) {
    unsigned char* aligned = bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
    const ConstTensorView query(static_cast<const void*>(aligned + shift), DType::kF32, problem.shape.query());
    try {
      run(query, problem.inputs.key, problem.inputs.value, {}, DType::kF32);
      ADD_FAILURE() << "accepted a pointer " << shift << " bytes behind an element";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("query"), std::string::npos) << error.what();
    }
  }
}

TEST(AttentionCases, O29SizesThatDisagree) {
  const Tensor query = grid({1, 1, 3, 8}, 1), key = grid({1, 1, 5, 8}, 2), value = grid({1, 1, 5, 8}, 3);
  const auto refuses = [&](const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                           const AttentionOptions& options, const std::vector<std::string>& words) {
    try {
      run(q, k, v, options, DType::kF32);
      ADD_FAILURE() << "accepted what should name " << words.front();
    } catch (const InvalidArgument& error) {
      for (const std::string& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refuses(query, key, grid({1, 1, 6, 8}, 3), {}, {"key [1, 1, 5, 8]", "value [1, 1, 6, 8]"});
  refuses(query, key, grid({1, 1, 4, 8}, 3), {}, {"key [1, 1, 5, 8]", "value [1, 1, 4, 8]"});
  refuses(query, grid({2, 1, 5, 8}, 2), value, {}, {"query [1, 1, 3, 8]", "key [2, 1, 5, 8]"});
  refuses(query, key, grid({2, 1, 5, 8}, 3), {}, {"key [1, 1, 5, 8]", "value [2, 1, 5, 8]"});
  refuses(query, grid({1, 1, 5, 7}, 2), value, {}, {"query [1, 1, 3, 8]", "key [1, 1, 5, 7]"});
  Tensor mask(DType::kBool, {3, 6});
  AttentionOptions options;
  options.mask = mask.view();
  refuses(query, key, value, options, {"mask", "[3, 6]", "[1, 1, 3, 5]"});
  options = {};
  options.key_lengths = {6};
  refuses(query, key, value, options, {"key_lengths[0]", "5", "6"});
  options.key_lengths = {-1};
  refuses(query, key, value, options, {"key_lengths[0]", "-1"});
  options.key_lengths = {1, 1};
  refuses(query, key, value, options, {"key_lengths", "2"});
}

TEST(AttentionCases, O30CausalIsKeptWhenCoefficientsAreWanted) {
  Problem problem = uniform_problem({.query_len = 3, .key_len = 3, .head_dim = 2, .value_dim = 1});
  problem.inputs.value = filled(DType::kF32, {1, 1, 3, 1}, [](Index j) { return static_cast<double>(j); });
  problem.options.causal = true;
  for (const bool with_mask : {false, true}) {
    if (with_mask) problem.set_mask(filled(DType::kBool, {3, 3}, [](Index) { return 1; }));
    for_each_target([&] { EXPECT_TRUE(near(values_of(run(problem).output), {0, 0.5, 1}, 2e-6)); });
    Tensor output(DType::kF64, problem.shape.output()), probabilities(DType::kF64, problem.shape.scores());
    reference_attention(problem.inputs.query, problem.inputs.key, problem.inputs.value, output, problem.options, std::nullopt,
                        probabilities.view());
    EXPECT_TRUE(near(values_of(output), {0, 0.5, 1}, 1e-15));
    EXPECT_TRUE(near(values_of(probabilities), {1, 0, 0, 0.5, 0.5, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0}, 1e-15));
  }
}

}  // namespace
}  // namespace multihead::test
