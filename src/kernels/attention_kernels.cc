// The vector kernels' entry points, compiled once for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "kernels/block-inl.h"
#include "kernels/decode-inl.h"
#include "kernels/lane_lse-inl.h"
#include "kernels/results-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

KernelShape KernelShapeOf() { return {kN, kPanelLanes}; }

std::size_t WorkspaceFloats(const AttentionProblem& problem, Index lanes) {
  return static_cast<std::size_t>(context_floats(problem, lanes));
}

std::size_t PartialFloats(const AttentionProblem& problem, Index lanes) {
  return static_cast<std::size_t>(state_floats(round_up(lanes, kN), problem.value_dim));
}

// The two ways through a block. What a chunk leaves behind is laid out differently, so one way is kept to the end.
struct Panels {
  static void pack(const BlockContext& c) { pack_queries(c); }
  static void walk(const BlockContext& c, KeyRange visible, Index chunk) {
    walk_panels(c, visible, chunk,
                [&](auto vectors, Index first, const KeyBlockRows& rows) HWY_ATTR { attend_panel<vectors()>(c, first, rows); });
  }
  static void join_parts(const BlockContext& c, const SoftmaxState& total, const SoftmaxState& part) { join(c, total, part); }
  static void write(const BlockContext& c, const SoftmaxState& state) { finish(c, state); }
};
struct Decode {
  static void pack(const BlockContext& c) { pack_decode_queries(c); }
  static void walk(const BlockContext& c, KeyRange visible, Index chunk) { walk_decode(c, visible, chunk); }
  static void join_parts(const BlockContext& c, const SoftmaxState& total, const SoftmaxState& part) {
    join_decode(c, total, part);
  }
  static void write(const BlockContext& c, const SoftmaxState& state) { finish_decode(c, state); }
};

// Calls work(way).
template <typename Work>
HWY_INLINE void choose_way(const BlockContext& c, const Work& work) {
  if (is_decode(c)) {
    work(Decode());
  } else {
    work(Panels());
  }
}

bool IsDecodeBlock(const AttentionProblem& problem, const Block& block) { return is_decode(bare_context(problem, block)); }

void AttendBlock(const AttentionProblem& problem, const Block& block, float* workspace) {
  BlockContext c = make_context(problem, block, workspace);
  const KeyRange visible = block_keys(problem, block);
  choose_way(c, [&](auto way) HWY_ATTR {
    if (visible.begin >= visible.end) {
      reset(c, c.state);
      way.write(c, c.state);
      return;
    }
    way.pack(c);
    const Index first = visible.begin / kKeyChunk;
    const Index last = (visible.end - 1) / kKeyChunk;
    way.walk(c, visible, first);
    if (first < last) std::swap(c.state, c.total);
    for (Index chunk = first + 1; chunk <= last; ++chunk) {
      way.walk(c, visible, chunk);
      way.join_parts(c, c.total, c.state);
    }
    way.write(c, first < last ? c.total : c.state);
  });
}

void AttendChunk(const AttentionProblem& problem, const Block& block, Index chunk, Partial partial, float* workspace) {
  BlockContext c = make_context(problem, block, workspace);
  float* at = partial.data;
  c.state = carve_state(at, c.padded, problem.value_dim);
  choose_way(c, [&](auto way) HWY_ATTR {
    way.pack(c);
    way.walk(c, block_keys(problem, block), chunk);
  });
}

void JoinChunks(const AttentionProblem& problem, const Block& block, Partial total, bool first,
                const std::vector<Partial>& partials) {
  BlockContext c = bare_context(problem, block);
  float* at = total.data;
  c.total = carve_state(at, c.padded, problem.value_dim);
  if (first) reset(c, c.total);
  choose_way(c, [&](auto way) HWY_ATTR {
    for (const Partial& partial : partials) {
      at = partial.data;
      way.join_parts(c, c.total, carve_state(at, c.padded, problem.value_dim));
    }
  });
}

void FinishBlock(const AttentionProblem& problem, const Block& block, Partial total, float* workspace) {
  const BlockContext c = make_context(problem, block, workspace);
  float* at = total.data;
  const SoftmaxState state = carve_state(at, c.padded, problem.value_dim);
  choose_way(c, [&](auto way) HWY_ATTR { way.write(c, state); });
}

// Coefficients of a block's lanes over keys [keys.begin, keys.end).
void ProbabilityRows(const AttentionProblem& problem, const Block& block, const ProbabilityTarget& target, float* workspace) {
  BlockContext c = make_context(problem, block, workspace);
  reset(c, c.state);
  pack_queries(c);
  const LaneLse lse(c, target.lse);
  const KeyRange visible = block_keys(problem, block);
  for (Index l = 0; l < c.lanes; ++l) std::fill_n(target.rows[l], target.keys.end - target.keys.begin, 0.0f);
  const KeyRange keys{std::max(visible.begin, target.keys.begin), std::min(visible.end, target.keys.end)};
  for (Index begin = keys.begin / kKeyBlock * kKeyBlock; begin < keys.end; begin += kKeyBlock) {
    const Index from = std::max(begin, keys.begin), end = std::min(begin + kKeyBlock, keys.end);
    const Rows rows = rows_of(problem.key, key_offset(c, problem.key, from), end - from, problem.head_dim, c.keys);
    for_each_panel(c, [&](auto vectors, Index first) HWY_ATTR {
      constexpr Index kWidth = vectors() * kN;
      TileKeys tile = tile_keys(c, first, kWidth, begin, end);
      tile.begin = std::max(tile.begin, from);
      if (tile.begin >= tile.end) return;
      HWY_ALIGN float maxima[kPanelLanes];
      panel_scores<vectors()>(c, first, tile, {rows.row(tile.begin - from), rows.stride}, maxima, c.state.seen + first);
      for (Index key = tile.begin; key < tile.end; ++key) {
        float* at = c.scores + (key - tile.begin) * kWidth;
        for (Index v = 0; v < kWidth; v += kN) {
          hn::Store(exp2(lse.log2_of(hn::Load(kTag, at + v), first + v)), kTag, at + v);
        }
        for (Index l = 0; l < std::min(kWidth, c.lanes - first); ++l) target.rows[first + l][key - target.keys.begin] = at[l];
      }
    });
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(KernelShapeOf);
HWY_EXPORT(WorkspaceFloats);
HWY_EXPORT(PartialFloats);
HWY_EXPORT(IsDecodeBlock);
HWY_EXPORT(AttendBlock);
HWY_EXPORT(AttendChunk);
HWY_EXPORT(JoinChunks);
HWY_EXPORT(FinishBlock);
HWY_EXPORT(ProbabilityRows);

// Every plan starts here, so no other kernel is dispatched before.
KernelShape kernel_shape() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(KernelShapeOf)();
}

std::size_t workspace_floats(const AttentionProblem& problem, Index lanes) {
  return HWY_DYNAMIC_DISPATCH(WorkspaceFloats)(problem, lanes);
}

std::size_t partial_floats(const AttentionProblem& problem, Index lanes) {
  return HWY_DYNAMIC_DISPATCH(PartialFloats)(problem, lanes);
}

bool is_decode_block(const AttentionProblem& problem, const Block& block) {
  return HWY_DYNAMIC_DISPATCH(IsDecodeBlock)(problem, block);
}

void attend_block(const AttentionProblem& problem, const Block& block, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendBlock)(problem, block, workspace);
}

void attend_chunk(const AttentionProblem& problem, const Block& block, Index chunk, Partial partial, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendChunk)(problem, block, chunk, partial, workspace);
}

void join_chunks(const AttentionProblem& problem, const Block& block, Partial total, bool first,
                 const std::vector<Partial>& partials) {
  HWY_DYNAMIC_DISPATCH(JoinChunks)(problem, block, total, first, partials);
}

void finish_block(const AttentionProblem& problem, const Block& block, Partial total, float* workspace) {
  HWY_DYNAMIC_DISPATCH(FinishBlock)(problem, block, total, workspace);
}

void probability_rows(const AttentionProblem& problem, const Block& block, const ProbabilityTarget& target, float* workspace) {
  HWY_DYNAMIC_DISPATCH(ProbabilityRows)(problem, block, target, workspace);
}

}  // namespace multihead::kernels
#endif  // HWY_ONCE
