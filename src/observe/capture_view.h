// A capture as the kernels see it: one batch entry, one head and one sequence at a time.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "attention/validate.h"
#include "kernels/kernels.h"
#include "multihead/capture.h"

namespace multihead {

/// One head over one sequence, as a problem of its own whose rows and keys count from 0. Local row r is row
/// row_origin + r * row_step of the map, local key likewise; steps above 1 are for samples. Not copyable: its blocks point to
/// it.
struct HeadSequence {
  HeadSequence() = default;
  HeadSequence(const HeadSequence&) = delete;
  HeadSequence& operator=(const HeadSequence&) = delete;

  kernels::AttentionProblem problem;
  kernels::Sequence sequence;
  const double* lse = nullptr;  ///< of local row 0; the next is lse_step further
  Index lse_step = 1;
  Index row_origin = 0, row_step = 1;
  Index key_origin = 0, key_step = 1;
  float slope = 0;  ///< ALiBi; the problem points here

  Index rows() const { return sequence.query_len; }
  Index keys() const { return sequence.key_len; }
  Index position(Index row) const { return sequence.query_offset + row; }
  /// Keys that causality and the window leave to a local row.
  kernels::KeyRange range(Index row) const { return kernels::key_range(problem, sequence, position(row)); }
  kernels::Block block(Index begin, Index end) const { return {&sequence, 0, begin, end}; }
  /// The first local row or key at or behind a place of the map.
  Index local_row(Index row) const { return local(row - row_origin, row_step, rows()); }
  Index local_key(Index key) const { return local(key - key_origin, key_step, keys()); }
  /// lse of local rows [begin, end).
  void load_lse(Index begin, Index end, double* out) const {
    for (Index r = begin; r < end; ++r) out[r - begin] = lse[r * lse_step];
  }
  bool has_mask() const { return problem.mask.data != nullptr || problem.bias.data != nullptr; }
  /// Whether mask and bias let a local pair through.
  bool unmasked(Index row, Index key) const;

 private:
  static Index local(Index distance, Index step, Index length) {
    if (distance <= 0) return 0;
    return std::min((distance + step - 1) / step, length);
  }
};

class CaptureView {
 public:
  /// Throws InvalidArgument as check() does, and for a batch entry that is not there.
  CaptureView(std::shared_ptr<const Capture> capture, Index batch);
  CaptureView(const CaptureView&) = delete;
  CaptureView& operator=(const CaptureView&) = delete;

  const std::shared_ptr<const Capture>& shared() const { return capture_; }
  const Capture& capture() const { return *capture_; }
  Index batch() const { return batch_; }
  Index heads() const { return call_.problem.num_heads; }
  Index group() const { return call_.problem.group; }
  Index query_len() const { return call_.query_len; }
  Index key_len() const { return call_.key_len; }
  /// Of this batch entry; the sequences' rows and keys are [query_begin, …) and [key_begin, …) of the map.
  const std::vector<kernels::Sequence>& sequences() const { return sequences_; }
  const kernels::AttentionProblem& problem() const { return call_.problem; }
  bool has_mask() const { return call_.problem.mask.data != nullptr || call_.problem.bias.data != nullptr; }
  /// Of a row of the map, natural log.
  double lse(Index head, Index row) const { return lse_[static_cast<std::size_t>(head * query_len() + row)]; }

  /// Throws InvalidArgument that names `function` unless it is there.
  void require_head(const char* function, Index head) const;
  /// The sequence that a row belongs to.
  const kernels::Sequence& sequence_of(Index row) const;
  std::unique_ptr<HeadSequence> head(Index head, const kernels::Sequence& sequence) const;
  /// Every step-th row and key of it, on one grid of absolute positions: visibility and distances are exact for what is left.
  std::unique_ptr<HeadSequence> sampled(Index head, const kernels::Sequence& sequence, Index step) const;

 private:
  std::shared_ptr<const Capture> capture_;
  Index batch_;
  ValidatedProblem call_;
  std::vector<double> lse_;  // of this batch entry, [heads, query_len]
  std::vector<kernels::Sequence> sequences_;
};

}  // namespace multihead
