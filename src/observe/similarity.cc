// head_similarity: products of the maps of all heads, tile by tile.
#include <algorithm>
#include <cmath>

#include "base/message.h"
#include "base/parallel.h"
#include "kernels/observe.h"
#include "multihead/statistics.h"
#include "observe/capture_view.h"
#include "observe/pool.h"
#include "observe/progress.h"

namespace multihead {
namespace {

constexpr std::size_t kGroups = 16;  // as in statistics.cc

// One sequence seen by all heads.
struct AllHeads {
  HeadSequences heads;
  std::vector<kernels::AttentionProblem> problems;
};

// A panel of rows of one sequence.
struct Work {
  const AllHeads* all;
  Index begin, end;

  double pairs() const {
    const HeadSequence& one = *all->heads.front();
    const kernels::KeyRange keys = kernels::block_keys(one.problem, one.block(begin, end));
    return static_cast<double>(end - begin) * static_cast<double>(keys.end - keys.begin);
  }
};

void add_block(const Work& work, std::vector<double>& gram) {
  const std::size_t heads = work.all->heads.size();
  const Index lanes = work.end - work.begin;
  const HeadSequence& first = *work.all->heads.front();
  const auto floats = (static_cast<Index>(kernels::workspace_floats(first.problem, lanes)) + 15) / 16 * 16;
  Tensor memory = Tensor::uninitialized(DType::kF32, {static_cast<Index>(heads), floats});
  std::vector<double> lse(heads * static_cast<std::size_t>(lanes));
  std::vector<const double*> lse_of;
  std::vector<float*> workspaces;
  for (std::size_t h = 0; h < heads; ++h) {
    double* const at = lse.data() + h * static_cast<std::size_t>(lanes);
    work.all->heads[h]->load_lse(work.begin, work.end, at);
    lse_of.push_back(at);
    workspaces.push_back(memory.data<float>() + static_cast<Index>(h) * floats);
  }
  kernels::add_products(work.all->problems, first.block(work.begin, work.end), lse_of, gram.data(), workspaces);
}

}  // namespace

double HeadSimilarity::cosine(std::size_t a, std::size_t b) const {
  const std::size_t n = heads.size();
  const double lengths = std::sqrt(gram[a * n + a] * gram[b * n + b]);
  return lengths > 0 ? gram[a * n + b] / lengths : 0;
}

HeadSimilarity head_similarity(const AttentionMap& map, const std::vector<Index>& wanted, const Progress& progress) {
  const CaptureView view(map.shared_capture(), map.batch_entry());
  HeadSimilarity result;
  result.heads = wanted;
  for (Index h = 0; wanted.empty() && h < view.heads(); ++h) result.heads.push_back(h);
  for (const Index head : result.heads) view.require_head("head_similarity", head);
  const std::size_t heads = result.heads.size();
  std::vector<AllHeads> sequences;
  std::vector<Work> work;
  double pairs = 0;
  for (const kernels::Sequence& s : view.sequences()) {
    AllHeads& all = sequences.emplace_back();
    for (const Index head : result.heads) {
      all.heads.push_back(view.head(head, s));
      all.problems.push_back(all.heads.back()->problem);
    }
  }
  const Index panel = kernels::kernel_shape().panel_lanes;
  for (const AllHeads& all : sequences) {
    for (Index begin = 0; heads > 0 && begin < all.heads.front()->rows(); begin += panel) {
      work.push_back({&all, begin, std::min(all.heads.front()->rows(), begin + panel)});
      pairs += work.back().pairs();
    }
  }
  const std::size_t groups = std::min(kGroups, work.size());
  std::vector<std::vector<double>> parts(groups, std::vector<double>(heads * heads, 0));
  Meter meter(progress, pairs);
  parallel_for(static_cast<Index>(groups), threads_for(static_cast<Index>(groups)), [&](Index group, int) {
    for (std::size_t n = static_cast<std::size_t>(group); n < work.size(); n += kGroups) {
      add_block(work[n], parts[static_cast<std::size_t>(group)]);
      meter.add(work[n].pairs());
    }
  });
  result.gram.assign(heads * heads, 0);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (const auto& part : parts) sum += part[a * heads + b];
      result.gram[a * heads + b] = result.gram[b * heads + a] = sum;
    }
  }
  return result;
}

}  // namespace multihead
