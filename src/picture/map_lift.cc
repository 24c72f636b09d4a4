#include "picture/map_lift.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace multihead::picture {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A bias says two things: how much, which even attention does not know, and by -inf which pairs exist at all. The second is
// kept: an array of 0 and -inf under the same strides.
void own_visibility_of_bias(Capture& uniform, const Capture& capture) {
  const ConstTensorView& bias = *capture.options.attention_bias;
  Tensor memory = Tensor::converted(capture.bias_memory, DType::kF32);
  float* values = memory.data<float>();
  for (Index i = 0; i < memory.size(); ++i) values[i] = values[i] == -kInfinity ? -kInfinity : 0;
  const auto first =
      static_cast<const unsigned char*>(bias.data) - static_cast<const unsigned char*>(capture.bias_memory.view().data);
  ConstTensorView view = bias;
  view.dtype = DType::kF32;
  view.data = values + first / static_cast<std::ptrdiff_t>(size_of(bias.dtype));
  uniform.options.attention_bias = view;
  uniform.bias_memory = std::move(memory);
}

// Queries and keys of one 0 each: every score is 0, and with lse = ln V(i) every coefficient is 1 / V(i). Only the rows that
// are looked at get an lse.
Capture uniform_capture(const AttentionMap& map, Index head, IndexRange rows) {
  const Capture& capture = map.capture();
  Capture uniform;
  uniform.query = Tensor(DType::kF32, {capture.batch(), capture.num_heads(), capture.query_len(), 1});
  uniform.key = Tensor(DType::kF32, {capture.batch(), 1, capture.key_len(), 1});
  uniform.lse = Tensor(DType::kF32, {capture.batch(), capture.num_heads(), capture.query_len()});
  uniform.options = capture.options;
  uniform.options.scale = 1;
  uniform.options.softcap.reset();
  uniform.options.alibi_slopes.clear();
  uniform.options.sinks.clear();
  if (capture.options.mask) uniform.own_mask(*capture.options.mask);
  if (capture.options.attention_bias) own_visibility_of_bias(uniform, capture);
  for (Index i = rows.begin; i < std::min(rows.end, map.query_len()); ++i) {
    const auto seen = static_cast<double>(map.visible_keys(head, i));
    uniform.lse.view().at<float>(map.batch_entry(), head, i) = static_cast<float>(std::log(seen));
  }
  return uniform;
}

}  // namespace

std::vector<float> lift_of(const AttentionMap& map, Index head, const Tile& tile, const Progress& progress) {
  std::vector<float> lift(tile.log2.size());
  if (tile.pooling == Pooling::kMax) {
    for (std::size_t i = 0; i < lift.size(); ++i) {
      if (tile.state[i] != CellState::kValue) continue;
      lift[i] = tile.log2[i] + static_cast<float>(std::log2(static_cast<double>(map.visible_keys(head, tile.max_row[i]))));
    }
    return lift;
  }
  const AttentionMap even(std::make_shared<const Capture>(uniform_capture(map, head, tile.rows)), map.batch_entry());
  const Tile base = even.tile(head, {tile.rows, tile.keys, tile.height, tile.width, tile.pooling}, progress);
  for (std::size_t i = 0; i < lift.size(); ++i) {
    if (tile.state[i] == CellState::kValue) lift[i] = tile.log2[i] - base.log2[i];
  }
  return lift;
}

}  // namespace multihead::picture
