// The backward pass's entry points, compiled once for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/backward_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "kernels/backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

Index BackwardLanes(const AttentionProblem& problem) {
  constexpr Index kMaxFloats = 192 * 1024;
  Index lanes = kBackwardLanes;
  while (lanes > kPanelLanes && lanes % 2 == 0 && lanes * (3 * problem.head_dim + 2 * problem.value_dim) > kMaxFloats) {
    lanes /= 2;
  }
  return lanes;
}

std::size_t BackwardFloats(const AttentionProblem& problem, Index keys) {
  return static_cast<std::size_t>(chunk_floats(problem, keys) + block_floats(problem, BackwardLanes(problem)));
}

void BackwardDelta(const BackwardProblem& problem, const Sequence& sequence, Index head, float* workspace) {
  const Index dim = problem.attention.value_dim, padded = padded_columns(dim);
  float* const output = workspace;
  float* const grad = workspace + padded;
  std::fill_n(workspace, 2 * padded, 0.0f);
  for (Index i = 0; i < sequence.query_len; ++i) {
    const Index row = sequence.query_begin + i;
    load_row(problem.output.data, problem.output.dtype, problem.output.offset(sequence.batch, head, row, 0),
             problem.output.strides[3], dim, output);
    load_row(problem.grad_output.data, problem.grad_output.dtype, problem.grad_output.offset(sequence.batch, head, row, 0),
             problem.grad_output.strides[3], dim, grad);
    Vec sum = hn::Zero(kTag);
    bool all_zero = true;
    for (Index t = 0; t < padded; t += kN) {
      const Vec o = hn::LoadU(kTag, output + t);
      all_zero = all_zero && hn::AllTrue(kTag, hn::Eq(o, hn::Zero(kTag)));
      sum = hn::MulAdd(hn::LoadU(kTag, grad + t), o, sum);
    }
    problem.delta.data[problem.delta.offset(sequence.batch, head, row, 0)] =
        all_zero ? 0.0f : hn::GetLane(hn::SumOfLanes(kTag, sum));
  }
}

void BackwardBegin(const BackwardProblem& problem, BackwardChunk& chunk, float* workspace) {
  const AttentionProblem& attention = problem.attention;
  const Index count = chunk.end - chunk.begin;
  const ChunkMemory memory = carve_chunk(attention, count, workspace);
  std::fill(memory.key_sums, memory.keys, 0.0f);
  const Block block{chunk.sequence, chunk.kv_head, 0, 1};
  const BlockContext c = bare_context(attention, block);
  const Rows keys = rows_of(attention.key, key_offset(c, attention.key, chunk.begin), count, attention.head_dim, memory.keys);
  rows_of(attention.value, key_offset(c, attention.value, chunk.begin), count, attention.value_dim, memory.values);
  chunk.keys_finite = all_finite(keys, count, attention.head_dim);
}

// Where a row of the chunk lies: in place, or in the copy that BackwardBegin made.
HWY_INLINE Rows chunk_rows(const BlockContext& c, const Strided<const void>& array, const BackwardChunk& chunk, Index key,
                           Index dim, const float* copied) {
  if (is_dense(array, dim)) return {static_cast<const float*>(array.data) + key_offset(c, array, key), dim};
  return {copied + (key - chunk.begin) * dim, dim};
}

void BackwardBlock(const BackwardProblem& problem, const BackwardChunk& chunk, const Block& block, float* workspace) {
  const AttentionProblem& attention = problem.attention;
  const ChunkMemory memory = carve_chunk(attention, chunk.end - chunk.begin, workspace);
  BackwardContext c = carve_block(problem, block, memory.rest);
  const KeyRange visible = block_keys(attention, block);
  const Index first = std::max(chunk.begin, visible.begin / kKeyBlock * kKeyBlock);
  if (problem.query_sums.data != nullptr) load_query_sums(c);
  load_block(c);
  for (Index begin = first; begin < std::min(chunk.end, visible.end); begin += kKeyBlock) {
    const Index skip = begin - chunk.begin;
    const auto sums_of = [&](double* sums) { return sums == nullptr ? nullptr : sums + skip / kKeyBlock * attention.group; };
    const BackwardKeys rows{begin,
                            std::min(begin + kKeyBlock, chunk.end),
                            chunk_rows(c.block, attention.key, chunk, begin, attention.head_dim, memory.keys),
                            chunk_rows(c.block, attention.value, chunk, begin, attention.value_dim, memory.values),
                            chunk.keys_finite,
                            sums_of(chunk.distance_sums),
                            sums_of(chunk.gradient_sums)};
    backward_keys(c, rows, memory.key_sums + skip * padded_columns(attention.head_dim),
                  memory.value_sums + skip * padded_columns(attention.value_dim));
  }
  if (problem.query_sums.data != nullptr) store_query_sums(c);
}

void BackwardEnd(const BackwardProblem& problem, const BackwardChunk& chunk, float* workspace) {
  const AttentionProblem& attention = problem.attention;
  const ChunkMemory memory = carve_chunk(attention, chunk.end - chunk.begin, workspace);
  const Block block{chunk.sequence, chunk.kv_head, 0, 1};
  const BlockContext c = bare_context(attention, block);
  // The rows of Q carry the scale of the scores: scale * log2(e), or scale / softcap.
  const double unscale = attention.softcap > 0 ? attention.softcap : 1 / kLog2E;
  for (Index key = chunk.begin; key < chunk.end; ++key) {
    const auto write = [&](const Strided<void>& array, const float* sums, Index columns, double factor) {
      if (array.data == nullptr) return;
      const Index offset = array.offset(chunk.sequence->key_batch, c.block.kv_head, chunk.sequence->key_row(key), 0);
      store_row(sums + (key - chunk.begin) * padded_columns(columns), columns, static_cast<float>(factor), array, offset);
    };
    write(problem.grad_key, memory.key_sums, attention.head_dim, unscale);
    write(problem.grad_value, memory.value_sums, attention.value_dim, 1);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(BackwardLanes);
HWY_EXPORT(BackwardFloats);
HWY_EXPORT(BackwardDelta);
HWY_EXPORT(BackwardBegin);
HWY_EXPORT(BackwardBlock);
HWY_EXPORT(BackwardEnd);

// Every backward call starts here, so no other of its kernels is dispatched before.
Index backward_lanes(const AttentionProblem& problem) {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(BackwardLanes)(problem);
}

std::size_t backward_floats(const AttentionProblem& problem, Index keys) {
  return HWY_DYNAMIC_DISPATCH(BackwardFloats)(problem, keys);
}

void backward_delta(const BackwardProblem& problem, const Sequence& sequence, Index head, float* workspace) {
  HWY_DYNAMIC_DISPATCH(BackwardDelta)(problem, sequence, head, workspace);
}

void backward_begin(const BackwardProblem& problem, BackwardChunk& chunk, float* workspace) {
  HWY_DYNAMIC_DISPATCH(BackwardBegin)(problem, chunk, workspace);
}

void backward_block(const BackwardProblem& problem, const BackwardChunk& chunk, const Block& block, float* workspace) {
  HWY_DYNAMIC_DISPATCH(BackwardBlock)(problem, chunk, block, workspace);
}

void backward_end(const BackwardProblem& problem, const BackwardChunk& chunk, float* workspace) {
  HWY_DYNAMIC_DISPATCH(BackwardEnd)(problem, chunk, workspace);
}

}  // namespace multihead::kernels
#endif  // HWY_ONCE
