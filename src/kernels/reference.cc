#include "kernels/reference.h"

#include "kernels/reference_row.h"

namespace multihead::kernels {
namespace {

using reference::Row;
using reference::Scratch;
using reference::store;

void store_row(const AttentionProblem& problem, const Sequence& sequence, const Row& at, const Scratch& scratch, double lse,
               const ReferenceOutputs& outputs) {
  const Index row = sequence.query_begin + at.row;
  for (Index t = 0; t < problem.value_dim; ++t) {
    store(outputs.output, outputs.output.offset(sequence.batch, at.head, row, t), scratch.totals[static_cast<std::size_t>(t)]);
  }
  if (outputs.lse.data != nullptr) store(outputs.lse, outputs.lse.offset(sequence.batch, at.head, row, 0), lse);
  for (Index j = 0; outputs.probabilities.data != nullptr && j < sequence.key_len; ++j) {
    store(outputs.probabilities, outputs.probabilities.offset(sequence.batch, at.head, row, sequence.key_begin + j),
          scratch.probabilities[static_cast<std::size_t>(j)]);
  }
}

}  // namespace

void reference_attention(const AttentionProblem& problem, const ReferenceOutputs& outputs) {
  Scratch scratch = reference::make_scratch(problem);
  for (const Sequence& sequence : problem.sequences) {
    reference::start_sequence(sequence, scratch);
    for (Index head = 0; head < problem.num_heads; ++head) {
      reference::start_head(problem, sequence, head, scratch);
      for (Index i = 0; i < sequence.query_len; ++i) {
        const Row at{head, i, sequence.query_offset + i};
        const double lse = reference::attend(problem, sequence, at, scratch);
        store_row(problem, sequence, at, scratch, lse, outputs);
      }
    }
  }
}

}  // namespace multihead::kernels
