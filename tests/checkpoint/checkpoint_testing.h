// Checkpoints made by tests: named tensors and a config.json in a folder that vanishes.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "io/io_testing.h"
#include "multihead/checkpoint.h"

namespace multihead::testing {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Uniform in ±bound, the same for the same seed everywhere.
inline Tensor random_tensor(const Dims& shape, unsigned seed, double bound = 1) {
  std::mt19937 engine(seed);
  Tensor tensor(DType::kF32, shape);
  for (Index i = 0; i < tensor.size(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(bound * (2.0 * static_cast<double>(engine()) / 4294967295.0 - 1));
  }
  return tensor;
}

inline double max_difference(const ConstTensorView& a, const ConstTensorView& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (Index i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(load_as_double(a, i) - load_as_double(b, i));
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.empty() == b.empty() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.empty() ||
          std::memcmp(a.data<char>(), b.data<char>(), static_cast<std::size_t>(a.size()) * size_of(a.dtype())) == 0);
}

/// What an attention block is called, and how large it is, where the numbers in it do not matter.
struct PlainBlock {
  std::string path = "model.layers.0.self_attn";
  std::vector<std::string> names = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"};
  Index model_dim = 32, num_heads = 4, num_kv_heads = 2, head_dim = 8;
};

/// Separate query, key, value and output weights of zeros.
inline void add_block(NamedTensors& tensors, const PlainBlock& block) {
  const Index query = block.num_heads * block.head_dim, key = block.num_kv_heads * block.head_dim, width = block.model_dim;
  const Dims shapes[] = {{query, width}, {key, width}, {key, width}, {width, query}};
  for (std::size_t i = 0; i < 4; ++i) {
    tensors.emplace_back(block.path + (block.path.empty() ? "" : ".") + block.names[i], Tensor(DType::kF32, shapes[i]));
  }
}

/// Llama's names in `layers` layers of 4 heads over 2 key/value heads.
inline NamedTensors llama_tensors(int layers = 1) {
  NamedTensors tensors;
  for (int i = 0; i < layers; ++i) add_block(tensors, {.path = "model.layers." + std::to_string(i) + ".self_attn"});
  return tensors;
}

/// A folder with model.safetensors and, unless `config` is empty, config.json.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(const NamedTensors& tensors, const std::string& config = "",
                            const std::string& file = "model.safetensors") {
    std::vector<std::pair<std::string, ConstTensorView>> views;
    for (const auto& [name, tensor] : tensors) views.emplace_back(name, tensor.view());
    write_safetensors(folder_ / file, views, {{"format", "pt"}});
    if (!config.empty()) write_file(folder_ / "config.json", config);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  Checkpoint open() const { return Checkpoint::open(folder_ / ""); }

 private:
  TempFolder folder_;
};

/// Opening must throw a FormatError with all these parts.
inline void expect_refused(const CheckpointFolder& folder, std::initializer_list<std::string_view> parts) {
  expect_error<FormatError>([&] { folder.open(); }, parts);
}

}  // namespace multihead::testing
