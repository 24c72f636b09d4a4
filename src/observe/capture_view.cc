#include "observe/capture_view.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"

namespace multihead {
namespace {

using kernels::Sequence;
using kernels::Strided;

Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The array from one element on, [batch, head, row, column] away.
Strided<const void> moved(const Strided<const void>& array, Index batch, Index head, Index row, Index column) {
  if (array.data == nullptr) return array;
  Strided<const void> result = array;
  result.data = static_cast<const unsigned char*>(array.data) +
                array.offset(batch, head, row, column) * static_cast<Index>(size_of(array.dtype));
  return result;
}

ValidatedProblem validated(const std::shared_ptr<const Capture>& capture) {
  require(capture != nullptr, "AttentionMap: expected a capture; got a null pointer");
  check(*capture);
  return validate({"AttentionMap", capture->query, capture->key, nullptr, capture->options});
}

bool is_minus_infinity(const Strided<const void>& array, Index offset) {
  switch (array.dtype) {
    case DType::kF32:
      return static_cast<const float*>(array.data)[offset] == -HUGE_VALF;
    case DType::kF16:
      return static_cast<const Float16*>(array.data)[offset].bits == 0xFC00;
    default:
      return static_cast<const BFloat16*>(array.data)[offset].bits == 0xFF80;
  }
}

}  // namespace

bool HeadSequence::unmasked(Index row, Index key) const {
  if (problem.mask.data != nullptr &&
      static_cast<const std::uint8_t*>(problem.mask.data)[problem.mask.offset(0, 0, row, key)] == 0) {
    return false;
  }
  return problem.bias.data == nullptr || !is_minus_infinity(problem.bias, problem.bias.offset(0, 0, row, key));
}

CaptureView::CaptureView(std::shared_ptr<const Capture> capture, Index batch)
    : capture_(std::move(capture)), batch_(batch), call_(validated(capture_)) {
  require(batch >= 0 && batch < call_.batch, "AttentionMap: expected a batch entry of 0 … ", call_.batch - 1, "; got ", batch);
  for (const Sequence& sequence : call_.sequences) {
    if (sequence.batch == batch) sequences_.push_back(sequence);
  }
  const Index rows = heads() * query_len();
  const auto keep = [&](const auto* lse) { lse_.assign(lse + batch * rows, lse + (batch + 1) * rows); };
  if (capture_->lse.dtype() == DType::kF64) {
    keep(capture_->lse.data<double>());
  } else {
    keep(capture_->lse.data<float>());
  }
}

void CaptureView::require_head(const char* function, Index head) const {
  require(head >= 0 && head < heads(), function, ": expected a head of 0 … ", heads() - 1, "; got ", head);
}

const Sequence& CaptureView::sequence_of(Index row) const {
  const auto behind = std::upper_bound(sequences_.begin(), sequences_.end(), row,
                                       [](Index r, const Sequence& s) { return r < s.query_begin + s.query_len; });
  return *behind;
}

std::unique_ptr<HeadSequence> CaptureView::head(Index head, const Sequence& sequence) const {
  const kernels::AttentionProblem& all = call_.problem;
  auto one = std::make_unique<HeadSequence>();
  one->problem = all;
  kernels::AttentionProblem& problem = one->problem;
  problem.num_heads = problem.group = 1;
  problem.value_dim = 0;
  problem.sequences = {};
  problem.query = moved(all.query, sequence.batch, head, sequence.query_begin, 0);
  problem.key = moved(all.key, sequence.key_batch, head / all.group, sequence.key_begin, 0);
  problem.mask = moved(all.mask, sequence.batch, head, sequence.query_begin, sequence.key_begin);
  problem.bias = moved(all.bias, sequence.batch, head, sequence.query_begin, sequence.key_begin);
  if (all.alibi_slopes != nullptr) {
    one->slope = all.alibi_slopes[head];
    problem.alibi_slopes = &one->slope;
  }
  problem.sinks = nullptr;  // they are in lse
  one->sequence = sequence;
  one->sequence.batch = one->sequence.key_batch = one->sequence.query_begin = one->sequence.key_begin = 0;
  one->row_origin = sequence.query_begin;
  one->key_origin = sequence.key_begin;
  one->lse = lse_.data() + head * query_len() + sequence.query_begin;
  return one;
}

// Row r0 + r * step with r0 chosen such that it stands at a multiple of the step, key j * step: with D = (offset + r0) / step,
//
//     j step <= position         <=>   j <= r + D
//     j step >= position - left  <=>   j >= r + D - floor(left / step)       and likewise on the right.
std::unique_ptr<HeadSequence> CaptureView::sampled(Index head_index, const Sequence& sequence, Index step) const {
  std::unique_ptr<HeadSequence> one = head(head_index, sequence);
  kernels::AttentionProblem& problem = one->problem;
  Sequence& s = one->sequence;
  const Index skip = -sequence.query_offset - floor_div(-sequence.query_offset, step) * step;
  problem.query = moved(problem.query, 0, 0, skip, 0);
  problem.mask = moved(problem.mask, 0, 0, skip, 0);
  problem.bias = moved(problem.bias, 0, 0, skip, 0);
  for (Strided<const void>* rows : {&problem.query, &problem.key, &problem.mask, &problem.bias}) rows->strides[2] *= step;
  problem.mask.strides[3] *= step;
  problem.bias.strides[3] *= step;
  if (problem.window_left != kernels::kUnlimited) problem.window_left /= step;
  if (problem.window_right != kernels::kUnlimited) problem.window_right /= step;
  one->slope *= static_cast<float>(step);
  one->lse += skip;
  one->lse_step = step;
  one->row_origin += skip;
  one->row_step = one->key_step = step;
  s.query_offset = (sequence.query_offset + skip) / step;  // exact
  s.query_len = skip < s.query_len ? (s.query_len - skip + step - 1) / step : 0;
  s.key_len = (s.key_len + step - 1) / step;
  return one;
}

}  // namespace multihead
