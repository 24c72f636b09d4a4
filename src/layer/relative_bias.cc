#include "layer/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace multihead {

Index relative_bucket(const RelativeBias& bias, Index buckets, Index distance) {
  Index first = 0;
  if (bias.bidirectional) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<Index>(0, -distance);
  }
  // The first half of the buckets hold one distance each, the rest grow as the logarithm up to max_distance.
  const Index exact = buckets / 2;
  if (distance < exact) return first + distance;
  // In f32, as the models were trained: at a border float64 may land in the bucket before.
  const auto ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const auto range = static_cast<float>(std::log(static_cast<double>(bias.max_distance) / static_cast<double>(exact)));
  const Index beyond = static_cast<Index>(std::log(ratio) / range * static_cast<float>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

RelativeBiasLines::RelativeBiasLines(const RelativeBias& bias, const ConstTensorView& table, Index query_len, Index key_len,
                                     Index query_offset)
    : query_len_(query_len), key_len_(key_len) {
  const Index buckets = table.shape[0], num_heads = table.shape[1];
  const Index line = query_len + key_len;  // one more than needed, so that empty calls need no case of their own
  const Tensor numbers = Tensor::converted(table, DType::kF32);
  lines_ = Tensor(DType::kF32, {num_heads, line});
  for (Index n = 0; n + 1 < line; ++n) {
    const Index bucket = relative_bucket(bias, buckets, n - (query_len - 1) - query_offset);
    for (Index head = 0; head < num_heads; ++head) {
      lines_.data<float>()[head * line + n] = numbers.data<float>()[bucket * num_heads + head];
    }
  }
}

ConstTensorView RelativeBiasLines::view() const {
  const Index num_heads = lines_.shape()[0], line = lines_.shape()[1];
  return {lines_.data<float>() + std::max<Index>(query_len_ - 1, 0),
          DType::kF32,
          {1, num_heads, query_len_, key_len_},
          {0, line, -1, 1}};
}

Tensor add_biases(const ConstTensorView& relative, const kernels::Strided<const void>& given, Index given_batch) {
  const ConstTensorView numbers(given.data, given.dtype, {}, {});
  Tensor sum = Tensor::uninitialized(DType::kF32, {given_batch, relative.shape[1], relative.shape[2], relative.shape[3]});
  const TensorView out = sum;
  const Index heads = relative.shape[1], rows = given_batch * heads * relative.shape[2];
  parallel_for(rows, threads_for(rows), [&](Index row, int) {
    const Index i = row % relative.shape[2], head = row / relative.shape[2] % heads, batch = row / relative.shape[2] / heads;
    for (Index j = 0; j < relative.shape[3]; ++j) {
      const auto added = static_cast<float>(load_as_double(numbers, given.offset(batch, head, i, j)));
      out.at<float>(batch, head, i, j) = relative.at<float>(0, head, i, j) + added;
    }
  });
  return sum;
}

}  // namespace multihead
