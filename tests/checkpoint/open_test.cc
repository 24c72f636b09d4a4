// Files and folders: what is opened, and in which element types.
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/checkpoint_testing.h"

namespace multihead::testing {
namespace {

const char* const kLlama = R"({"model_type": "llama", "num_attention_heads": 4})";

std::vector<std::pair<std::string, ConstTensorView>> views_of(const NamedTensors& tensors) {
  std::vector<std::pair<std::string, ConstTensorView>> views;
  for (const auto& [name, tensor] : tensors) views.emplace_back(name, tensor.view());
  return views;
}

TEST(OpenTest, TakesAFolderAFileOrAnIndex) {
  const NamedTensors first = llama_tensors(1);
  NamedTensors second;
  add_block(second, {.path = "model.layers.1.self_attn"});
  const TempFolder folder;
  write_safetensors(folder / "a.safetensors", views_of(first));
  write_safetensors(folder / "b.safetensors", views_of(second));
  write_file(folder / "config.json", kLlama);
  std::string map;
  for (const auto& [name, tensor] : first) map += "\"" + name + "\": \"a.safetensors\", ";
  for (const auto& [name, tensor] : second) map += "\"" + name + "\": \"b.safetensors\", ";
  map.resize(map.size() - 2);

  EXPECT_EQ(Checkpoint::open(folder / "b.safetensors").layers().size(), 1u);
  expect_error<FormatError>([&] { Checkpoint::open(folder / ""); }, {"safetensors", "0 and 2"});
  write_file(folder / "model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {" + map + "}}");
  EXPECT_EQ(Checkpoint::open(folder / "").layers().size(), 2u);
  EXPECT_EQ(Checkpoint::open(folder / "model.safetensors.index.json").layers().size(), 2u);
  EXPECT_NO_THROW(Checkpoint::open(folder / "").load(1));
}

TEST(OpenTest, TheUsualNameComesBeforeOthers) {
  const CheckpointFolder folder(llama_tensors(1), kLlama);
  write_safetensors(folder / "consolidated.safetensors", views_of(llama_tensors(2)));
  EXPECT_EQ(folder.open().layers().size(), 1u);
  write_file(folder / "consolidated.safetensors.index.json", "{}");
  EXPECT_EQ(folder.open().layers().size(), 1u);
  const CheckpointFolder other(llama_tensors(1), kLlama, "fine-tuned.safetensors");
  EXPECT_EQ(other.open().layers().size(), 1u);
}

TEST(OpenTest, WhatCannotBeOpenedIsNamed) {
  const TempFolder folder;
  expect_error<IoError>([&] { Checkpoint::open(folder / "nothing"); }, {"nothing"});
  expect_error<FormatError>([&] { Checkpoint::open(folder / ""); }, {"expected", "0 and 0"});
  write_file(folder / "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  expect_error<FormatError>([&] { Checkpoint::open(folder / ""); }, {"LFS"});
}

TEST(OpenTest, LayersAreChecked) {
  const CheckpointFolder folder(llama_tensors(1), kLlama);
  const Checkpoint checkpoint = folder.open();
  expect_error<InvalidArgument>([&] { checkpoint.load_weights(1); }, {"Checkpoint", "below 1", "got 1"});
  expect_error<InvalidArgument>([&] { checkpoint.load(9); }, {"Checkpoint", "got 9"});
}

TEST(OpenTest, KeepsHalfPrecisionAndRefusesOthers) {
  NamedTensors tensors = llama_tensors(1);
  tensors[0].second = Tensor::converted(random_tensor({32, 32}, 1), DType::kBF16);
  tensors[1].second = Tensor::converted(random_tensor({16, 32}, 2), DType::kF16);
  const CheckpointFolder folder(tensors, kLlama);
  const LayerWeights weights = folder.open().load_weights(0);
  EXPECT_TRUE(same_bits(weights.query_weight, tensors[0].second));
  EXPECT_TRUE(same_bits(weights.key_weight, tensors[1].second));
  EXPECT_EQ(weights.value_weight.dtype(), DType::kF32);

  for (const DType dtype : {DType::kF64, DType::kI8, DType::kBool}) {
    tensors[2].second = Tensor(dtype, {16, 32});
    expect_refused(CheckpointFolder(tensors, kLlama), {"v_proj.weight", "F32, F16 or BF16"});
  }
}

TEST(OpenTest, LoadingAgreesWithTheFilesOrder) {
  const CheckpointFolder folder(llama_tensors(12), kLlama);
  const Checkpoint checkpoint = folder.open();
  ASSERT_EQ(checkpoint.layers().size(), 12u);
  EXPECT_EQ(checkpoint.layers()[2].name, "model.layers.2.self_attn");
  EXPECT_EQ(checkpoint.layers()[10].name, "model.layers.10.self_attn");
}

}  // namespace
}  // namespace multihead::testing
