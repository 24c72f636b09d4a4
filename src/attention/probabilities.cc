// attention_probabilities: every coefficient of a call, recomputed block by block from query, key and lse.
#include "attention/plan.h"
#include "attention/validate.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/kernels.h"
#include "multihead/attention.h"

namespace multihead {
namespace {

using kernels::Block;

// One block of at most 192 rows, in strips of keys that keep the buffer small.
class BlockWriter {
 public:
  BlockWriter(const kernels::AttentionProblem& problem, const kernels::Strided<const void>& lse,
              const kernels::Strided<void>& out)
      : problem_(problem), lse_(lse), out_(out) {}

  void operator()(const Block& block) const {
    constexpr Index kStrip = 4 * kernels::kKeyBlock;
    const Index lanes = block.lane_end - block.lane_begin;
    const std::size_t floats = kernels::workspace_floats(problem_, lanes);
    float* const workspace = thread_scratch(floats + static_cast<std::size_t>(lanes * kStrip));
    float* const strip = workspace + floats;
    std::vector<double> lse(static_cast<std::size_t>(lanes));
    std::vector<float*> rows(static_cast<std::size_t>(lanes));
    for (Index l = 0; l < lanes; ++l) {
      const auto [head, row] = place(block, l);
      const Index at = lse_.offset(block.sequence->batch, head, row, 0);
      lse[static_cast<std::size_t>(l)] = lse_.dtype == DType::kF64
                                             ? static_cast<const double*>(lse_.data)[at]
                                             : static_cast<double>(static_cast<const float*>(lse_.data)[at]);
      rows[static_cast<std::size_t>(l)] = strip + l * kStrip;
    }
    for (Index begin = 0; begin < block.sequence->key_len; begin += kStrip) {
      const kernels::KeyRange keys{begin, std::min(begin + kStrip, block.sequence->key_len)};
      kernels::probability_rows(problem_, block, {lse.data(), rows.data(), keys}, workspace);
      for (Index l = 0; l < lanes; ++l) store(block, l, keys, rows[static_cast<std::size_t>(l)]);
    }
  }

 private:
  struct Place {
    Index head, row;
  };
  Place place(const Block& block, Index lane) const {
    const Index r = block.lane_begin + lane;
    return {block.kv_head * problem_.group + r % problem_.group, block.sequence->query_begin + r / problem_.group};
  }

  void store(const Block& block, Index lane, kernels::KeyRange keys, const float* row) const {
    const auto [head, query] = place(block, lane);
    for (Index key = keys.begin; key < keys.end; ++key) {
      const Index at = out_.offset(block.sequence->batch, head, query, block.sequence->key_begin + key);
      const float value = row[key - keys.begin];
      switch (out_.dtype) {
        case DType::kF32:
          static_cast<float*>(out_.data)[at] = value;
          break;
        case DType::kF16:
          static_cast<Float16*>(out_.data)[at] = Float16(value);
          break;
        default:
          static_cast<BFloat16*>(out_.data)[at] = BFloat16(value);
          break;
      }
    }
  }

  const kernels::AttentionProblem& problem_;
  const kernels::Strided<const void>& lse_;
  const kernels::Strided<void>& out_;
};

}  // namespace

void attention_probabilities(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& lse,
                             const TensorView& probabilities, const AttentionOptions& options) {
  constexpr const char* kFunction = "attention_probabilities";
  const ValidatedProblem call = validate({kFunction, query, key, nullptr, options});
  const kernels::AttentionProblem& problem = call.problem;
  const auto lse_rows =
      validate_input(kFunction, "lse", lse, {call.batch, problem.num_heads, call.query_len}, {DType::kF32, DType::kF64});
  const auto out =
      validate_result(kFunction, "probabilities", probabilities, {call.batch, problem.num_heads, call.query_len, call.key_len},
                      {DType::kF32, DType::kF16, DType::kBF16});
  clear(probabilities);  // keys beyond a length and pairs of different sequences
  if (probabilities.size() == 0) return;
  const WorkCut cut = cut_work(problem, kernels::kBlockLanes);
  const BlockWriter write(problem, lse_rows, out);
  parallel_for(cut.items(), cut.threads, [&](Index item, int) { write(cut.block(problem, item)); });
}

}  // namespace multihead
