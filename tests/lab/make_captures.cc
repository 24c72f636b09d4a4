// Writes captures for the lab's tests: make_captures FOLDER [LONG]
//
//     small.safetensors   4 query heads over 2 key/value heads, causal, 600 tokens, with values, outputs and tokens
//     cross.safetensors   2 heads, 40 queries over 700 keys, nothing masked
//     long.safetensors    with LONG: one causal head of width 64 over so many tokens
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "multihead/observe.h"
#include "random_inputs.h"

namespace {

using namespace multihead;

Tensor random_tensor(const Dims& shape, std::uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  test::Random random(seed);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = static_cast<float>(random.normal());
  return tensor;
}

// Keys that look like their neighbours' queries, so that a map has a diagonal, and a first key that everybody likes.
void give_structure(Tensor& query, Tensor& key) {
  const Index length = std::min(query.shape()[2], key.shape()[2]), dim = query.shape()[3];
  const Index heads = query.shape()[1], kv_heads = key.shape()[1];
  for (Index head = 0; head < heads; ++head) {
    const Index kv_head = head * kv_heads / heads;
    for (Index i = 0; i < length; ++i) {
      float* const q = query.data<float>() + (head * query.shape()[2] + i) * dim;
      const Index back = std::max<Index>(0, i - head);
      const float* const k = key.data<float>() + (kv_head * key.shape()[2] + back) * dim;
      const float* const first = key.data<float>() + kv_head * key.shape()[2] * dim;
      for (Index t = 0; t < dim; ++t) q[t] = 0.4F * q[t] + 0.6F * k[t] + 0.2F * first[t];
    }
  }
}

struct Sizes {
  Index heads, kv_heads, queries, keys, dim;
};

Capture make(const Sizes& sizes, bool causal, bool parts) {
  Tensor query = random_tensor({1, sizes.heads, sizes.queries, sizes.dim}, 1);
  Tensor key = random_tensor({1, sizes.kv_heads, sizes.keys, sizes.dim}, 2);
  const Tensor value = random_tensor({1, sizes.kv_heads, sizes.keys, sizes.dim}, 3);
  give_structure(query, key);
  Tensor output(DType::kF32, query.shape());
  AttentionOptions options;
  options.causal = causal;
  return capture(query, key, value, output, options, {parts, parts});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  if (argc > 2) {
    save_capture(folder / "long.safetensors", make({1, 1, std::atoll(argv[2]), std::atoll(argv[2]), 64}, true, false));
    return 0;
  }
  Capture small = make({4, 2, 600, 600, 32}, true, true);
  small.labels.name = "tests.small";
  small.labels.layer = 3;
  for (int i = 0; i < 600; ++i) small.labels.query_tokens.push_back("t" + std::to_string(i % 97));
  small.labels.key_tokens = small.labels.query_tokens;
  save_capture(folder / "small.safetensors", small);
  save_capture(folder / "cross.safetensors", make({2, 2, 40, 700, 16}, false, true));
}
