// Every rule about arguments: what is refused, by which words, and that nothing has been written then.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {
namespace {

// A legal call that a case spoils. Tensors that a case adds are kept in `kept`.
struct Call {
  ConstTensorView query, key, value;
  TensorView output, lse;
  AttentionOptions options;
  std::vector<Tensor> kept;

  Tensor& keep(DType dtype, const Dims& shape) { return kept.emplace_back(dtype, shape); }
};

struct Case {
  const char* name;
  std::function<void(Call&)> spoil;
  std::vector<std::string> words;  // that the error must contain
};

const Shape kShape{.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 8, .value_dim = 6};

const std::vector<Case> kShapeCases{
    {"query of rank 3",
     [](Call& c) {
       c.query = c.keep(DType::kF32, {4, 3, 8}).view();
     },
     {"query", "rank 4", "[4, 3, 8]"}},
    {"key of rank 5",
     [](Call& c) {
       c.key = c.keep(DType::kF32, {1, 2, 2, 5, 8}).view();
     },
     {"key", "rank 4", "[1, 2, 2, 5, 8]"}},
    {"value of rank 2",
     [](Call& c) {
       c.value = c.keep(DType::kF32, {5, 6}).view();
     },
     {"value", "rank 4", "[5, 6]"}},
    {"f64", [](Call& c) { c.query = c.keep(DType::kF64, kShape.query()).view(); }, {"query", "f32, f16 or bf16", "f64"}},
    {"key of another type", [](Call& c) { c.key = c.keep(DType::kF16, kShape.key()).view(); }, {"key", "f32", "f16"}},
    {"value of another type", [](Call& c) { c.value = c.keep(DType::kBF16, kShape.value()).view(); }, {"value", "f32", "bf16"}},
    {"batches differ",
     [](Call& c) {
       c.key = c.keep(DType::kF32, {3, 2, 5, 8}).view();
     },
     {"batch", "[2, 4, 3, 8]", "[3, 2, 5, 8]"}},
    {"batch of 1 is not broadcast",
     [](Call& c) {
       c.key = c.keep(DType::kF32, {1, 2, 5, 8}).view();
     },
     {"batch", "[1, 2, 5, 8]"}},
    {"head_dims differ",
     [](Call& c) {
       c.key = c.keep(DType::kF32, {2, 2, 5, 9}).view();
     },
     {"head_dim", "[2, 4, 3, 8]", "[2, 2, 5, 9]"}},
    {"heads that do not divide",
     [](Call& c) {
       c.key = c.keep(DType::kF32, {2, 3, 5, 8}).view();
     },
     {"num_kv_heads", "4", "3"}},
    {"kv heads of value differ",
     [](Call& c) {
       c.value = c.keep(DType::kF32, {2, 4, 5, 6}).view();
     },
     {"[2, 2, 5, 8]", "[2, 4, 5, 6]"}},
    {"output of another shape",
     [](Call& c) {
       c.output = c.keep(DType::kF32, {2, 4, 3, 8}).view();
     },
     {"output", "[2, 4, 3, 6]", "[2, 4, 3, 8]"}},
    {"output of an integer type", [](Call& c) { c.output = c.keep(DType::kI32, kShape.output()).view(); }, {"output", "i32"}},
    {"output of f64", [](Call& c) { c.output = c.keep(DType::kF64, kShape.output()).view(); }, {"output", "f64"}},
    {"lse with a last axis",
     [](Call& c) {
       c.lse = c.keep(DType::kF32, {2, 4, 3, 1}).view();
     },
     {"lse", "[2, 4, 3]", "[2, 4, 3, 1]"}},
    {"lse of f16", [](Call& c) { c.lse = c.keep(DType::kF16, kShape.lse()).view(); }, {"lse", "f32", "f16"}},
    {"null query", [](Call& c) { c.query.data = nullptr; }, {"query", "null"}},
    {"null value", [](Call& c) { c.value.data = nullptr; }, {"value", "null"}},
    {"null output", [](Call& c) { c.output.data = nullptr; }, {"output", "null"}},
    {"negative extent", [](Call& c) { c.query.shape[2] = -1; }, {"query", "negative", "[2, 4, -1, 8]"}},
    {"strides of another rank",
     [](Call& c) {
       c.key.strides = {40, 8, 1};
     },
     {"key", "strides"}},
    {"strides beyond 63 bits", [](Call& c) { c.key.strides[2] = INT64_MAX / 2; }, {"key", "63 bits"}},
    {"strides of the least number", [](Call& c) { c.value.strides[1] = INT64_MIN; }, {"value", "63 bits"}},
    {"overlapping output", [](Call& c) { c.output.strides[1] = 17; }, {"output", "two elements"}},
    {"output repeated by stride 0", [](Call& c) { c.output.strides[0] = 0; }, {"output", "two elements"}},
    {"lse repeated by stride 0", [](Call& c) { c.lse.strides[2] = 0; }, {"lse", "two elements"}},
};

const std::vector<Case> kOptionCases{
    {"infinite scale", [](Call& c) { c.options.scale = HUGE_VALF; }, {"scale", "finite"}},
    {"NaN scale", [](Call& c) { c.options.scale = std::nanf(""); }, {"scale", "finite"}},
    {"negative softcap", [](Call& c) { c.options.softcap = -1.0f; }, {"softcap", "-1"}},
    {"NaN softcap", [](Call& c) { c.options.softcap = std::nanf(""); }, {"softcap"}},
    {"infinite softcap", [](Call& c) { c.options.softcap = HUGE_VALF; }, {"softcap"}},
    {"negative window",
     [](Call& c) {
       c.options.window = Window{-1, std::nullopt};
     },
     {"window.left", "-1"}},
    {"negative window to the right",
     [](Call& c) {
       c.options.window = Window{3, -2};
     },
     {"window.right", "-2"}},
    {"the last 0 keys", [](Call& c) { c.options.window = last_keys(0); }, {"window.left", "-1"}},
    {"too many offsets",
     [](Call& c) {
       c.options.query_offsets = {0, 1, 2};
     },
     {"query offset", "2", "3"}},
    {"top_left and offsets",
     [](Call& c) { c.options.top_left = true, c.options.query_offsets = {0}; },
     {"top_left", "query_offsets"}},
    {"offset too large", [](Call& c) { c.options.query_offsets = {(Index{1} << 48) + 1}; }, {"query_offsets", "2^48"}},
    {"offset of the least number", [](Call& c) { c.options.query_offsets = {INT64_MIN}; }, {"query_offsets", "2^48"}},
    {"one key length for two", [](Call& c) { c.options.key_lengths = {5}; }, {"key_lengths", "2", "1"}},
    {"key length too large",
     [](Call& c) {
       c.options.key_lengths = {5, 6};
     },
     {"key_lengths[1]", "6"}},
    {"negative key length",
     [](Call& c) {
       c.options.key_lengths = {-1, 5};
     },
     {"key_lengths[0]", "-1"}},
    {"mask of floats",
     [](Call& c) {
       c.options.mask = c.keep(DType::kF32, {3, 5}).view();
     },
     {"mask", "f32", "attention_bias"}},
    {"mask of i8",
     [](Call& c) {
       c.options.mask = c.keep(DType::kI8, {3, 5}).view();
     },
     {"mask", "i8"}},
    {"mask of rank 0", [](Call& c) { c.options.mask = c.keep(DType::kBool, {}).view(); }, {"mask", "rank"}},
    {"mask of rank 3",
     [](Call& c) {
       c.options.mask = c.keep(DType::kBool, {4, 3, 5}).view();
     },
     {"mask", "rank 3"}},
    {"mask of rank 5",
     [](Call& c) {
       c.options.mask = c.keep(DType::kBool, {1, 1, 1, 3, 5}).view();
     },
     {"mask", "rank"}},
    {"mask of other sizes",
     [](Call& c) {
       c.options.mask = c.keep(DType::kBool, {3, 4}).view();
     },
     {"mask", "[3, 4]", "[2, 4, 3, 5]"}},
    {"mask by kv heads",
     [](Call& c) {
       c.options.mask = c.keep(DType::kBool, {1, 2, 3, 5}).view();
     },
     {"mask", "[1, 2, 3, 5]"}},
    {"null mask",
     [](Call& c) {
       c.options.mask = ConstTensorView(static_cast<const void*>(nullptr), DType::kBool, {3, 5});
     },
     {"mask", "null"}},
    {"bias of bool",
     [](Call& c) {
       c.options.attention_bias = c.keep(DType::kBool, {3, 5}).view();
     },
     {"attention_bias", "bool"}},
    {"bias of f64",
     [](Call& c) {
       c.options.attention_bias = c.keep(DType::kF64, {3, 5}).view();
     },
     {"attention_bias", "f64"}},
    {"bias of rank 3",
     [](Call& c) {
       c.options.attention_bias = c.keep(DType::kF32, {4, 3, 5}).view();
     },
     {"attention_bias", "rank 3"}},
    {"slopes of kv heads",
     [](Call& c) {
       c.options.alibi_slopes = {1, 2};
     },
     {"alibi_slopes", "4", "2"}},
    {"NaN slope",
     [](Call& c) {
       c.options.alibi_slopes = {1, 2, std::nanf(""), 4};
     },
     {"alibi_slopes", "finite"}},
    {"infinite slope",
     [](Call& c) {
       c.options.alibi_slopes = {1, 2, HUGE_VALF, 4};
     },
     {"alibi_slopes", "finite"}},
    {"too many sinks",
     [](Call& c) {
       c.options.sinks = {1, 2, 3, 4, 5};
     },
     {"sinks", "4", "5"}},
    {"NaN sink",
     [](Call& c) {
       c.options.sinks = {1, 2, std::nanf(""), 4};
     },
     {"sinks", "-inf"}},
    {"sink of +inf",
     [](Call& c) {
       c.options.sinks = {1, 2, HUGE_VALF, 4};
     },
     {"sinks", "-inf"}},
    {"packed with a batch",
     [](Call& c) {
       c.options.packed = PackedSequences{{0, 3}, {0, 5}};
     },
     {"packed", "batch 1"}},
};

void expect_refused(const std::vector<Case>& cases, const Shape& shape) {
  for (const Case& spoiled : cases) {
    SCOPED_TRACE(spoiled.name);
    const Problem problem = make_problem(shape, 23000);
    Tensor output = filled(DType::kF32, shape.output(), [](Index) { return 777; });
    Tensor lse = filled(DType::kF32, shape.lse(), [](Index) { return 777; });
    const std::vector<double> untouched_output = values_of(output), untouched_lse = values_of(lse);
    Call call{problem.inputs.query, problem.inputs.key, problem.inputs.value, output, lse, {}, {}};
    call.kept.reserve(4);
    spoiled.spoil(call);
    try {
      attention(call.query, call.key, call.value, call.output, call.options, call.lse);
      ADD_FAILURE() << "was accepted";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("attention: ", 0), 0u) << "the text does not begin with the function: " << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      for (const std::string& word : spoiled.words)
        EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
    }
    EXPECT_EQ(values_of(output), untouched_output);
    EXPECT_EQ(values_of(lse), untouched_lse);
    if (call.output.dtype != DType::kF64) {
      EXPECT_THROW(reference_attention(call.query, call.key, call.value, call.output, call.options, call.lse), InvalidArgument);
    }
  }
}

TEST(AttentionValidate, ShapesTypesAndMemory) { expect_refused(kShapeCases, kShape); }

TEST(AttentionValidate, Options) { expect_refused(kOptionCases, kShape); }

TEST(AttentionValidate, PackedSequences) {
  const auto packed = [](std::vector<Index> queries, std::vector<Index> keys) {
    return [queries, keys](Call& c) { c.options.packed = PackedSequences{queries, keys}; };
  };
  Shape one = kShape;
  one.batch = 1;
  expect_refused({{"no query starts", packed({}, {0, 5}), {"query_starts", "3"}},
                  {"no key starts", packed({0, 3}, {}), {"key_starts", "5"}},
                  {"not from 0", packed({1, 3}, {0, 5}), {"query_starts", "from 1 to 3"}},
                  {"not to the end", packed({0, 3}, {0, 4}), {"key_starts", "5", "from 0 to 4"}},
                  {"beyond the end", packed({0, 4}, {0, 5}), {"query_starts", "3", "from 0 to 4"}},
                  {"decreasing", packed({0, 2, 1, 3}, {0, 1, 2, 5}), {"query_starts", "never decreases"}},
                  {"different counts", packed({0, 1, 3}, {0, 5}), {"query_starts", "key_starts", "3", "2"}},
                  {"with key lengths",
                   [](Call& c) {
                     c.options.packed = PackedSequences{{0, 3}, {0, 5}};
                     c.options.key_lengths = {5};
                   },
                   {"packed", "key_lengths"}},
                  {"offsets for other sequences",
                   [](Call& c) {
                     c.options.packed = PackedSequences{{0, 1, 3}, {0, 2, 5}};
                     c.options.query_offsets = {0, 1, 2};
                   },
                   {"query offset", "2", "3"}},
                  {"many decreasing",
                   packed({0, 1, 2, 3, 2, 3, 3, 3, 3, 3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}),
                   {"query_starts", "11"}}},
                 one);
}

// What looks odd and is legal.
TEST(AttentionValidate, Accepts) {
  const auto accepts = [](const char* name, const std::function<void(Call&)>& change) {
    const Problem problem = make_problem(kShape, 23100);
    Tensor output(DType::kF32, kShape.output()), lse(DType::kF32, kShape.lse());
    Call call{problem.inputs.query, problem.inputs.key, problem.inputs.value, output, lse, {}, {}};
    change(call);
    EXPECT_NO_THROW(attention(call.query, call.key, call.value, call.output, call.options, call.lse)) << name;
  };
  accepts("scale 0", [](Call& c) { c.options.scale = 0.0f; });
  accepts("negative slope", [](Call& c) { c.options.alibi_slopes = {-1, 0, 1, 2}; });
  accepts("softcap 0", [](Call& c) { c.options.softcap = 0.0f; });
  accepts("offset without causality", [](Call& c) { c.options.query_offsets = {-7}; });
  accepts("top_left without causality", [](Call& c) { c.options.top_left = true; });
  accepts("window without sides", [](Call& c) { c.options.window = Window{}; });
  accepts("strides of axes of extent 1 are never used", [](Call& c) {
    c.query = c.query.slice(0, 0, 1), c.key = c.key.slice(0, 0, 1), c.value = c.value.slice(0, 0, 1);
    c.output = c.output.slice(0, 0, 1), c.lse = c.lse.slice(0, 0, 1);
    c.query.strides[0] = INT64_MAX, c.output.strides[0] = 0;
  });
}

}  // namespace
}  // namespace multihead::test
