// Coefficients of a block, one by one or reduced over cells of keys, for one Highway target.
#if defined(MULTIHEAD_KERNELS_OBSERVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_OBSERVE_INL_H_
#undef MULTIHEAD_KERNELS_OBSERVE_INL_H_
#else
#define MULTIHEAD_KERNELS_OBSERVE_INL_H_
#endif

#include "kernels/lane_lse-inl.h"
#include "kernels/observe.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// Calls work(vectors as a constant, first lane, tile) with the scores of each panel against keys [from, end) of one key block
// in c.scores, where `keys` are the rows from `from` on.
template <typename Work>
HWY_INLINE void for_each_panel_scores(const BlockContext& c, Index from, Index end, Rows keys, float* maxima,
                                      const Work& work) {
  for_each_panel(c, [&](auto vectors, Index first) HWY_ATTR {
    // Limited is what some lane sees less of than of the whole key block; for a part of it that errs on the safe side.
    TileKeys tile = tile_keys(c, first, vectors() * kN, from / kKeyBlock * kKeyBlock, end);
    tile.begin = std::max(tile.begin, from);
    if (tile.begin >= tile.end) return;
    panel_scores<vectors()>(c, first, tile, {keys.row(tile.begin - from), keys.stride}, maxima, c.state.seen + first);
    work(vectors, first, tile);
  });
}

// The pieces of [begin, end) that lie in one key block each.
template <typename Work>
HWY_INLINE void for_each_piece(Index begin, Index end, const Work& work) {
  while (begin < end) {
    const Index next = std::min(end, (begin / kKeyBlock + 1) * kKeyBlock);
    work(begin, next);
    begin = next;
  }
}

HWY_INLINE Rows key_rows(const BlockContext& c, Index begin, Index end) {
  return rows_of(c.problem.key, key_offset(c, c.problem.key, begin), end - begin, c.problem.head_dim, c.keys);
}

// What each lane of a block has gathered of one cell.
struct CellLanes {
  HWY_ALIGN float largest[kBlockLanes];
  HWY_ALIGN float key[kBlockLanes];
  HWY_ALIGN float relative[kBlockLanes];
  HWY_ALIGN float mass[kBlockLanes];
  HWY_ALIGN float visible[kBlockLanes];

  void reset(Index padded) {
    std::fill_n(largest, padded, kMinusInfinity);
    std::fill_n(key, padded, 0.0f);
    std::fill_n(relative, padded, 0.0f);
    std::fill_n(visible, padded, 0.0f);
  }
};

// Adds the panel's scores of `count` keys to a cell. Everything is relative to the largest of them, found in a pass of its own,
// so nothing underflows; `first_key` counts from the cell's first key.
template <int kVectors>
HWY_NOINLINE void add_to_cell(const float* HWY_RESTRICT scores, Index count, Index first_key, Index first, const LaneLse& lse,
                              CellLanes& cell) {
  Vec maximum[kVectors], base[kVectors], sum[kVectors], where[kVectors];
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) maximum[v] = hn::Load(kTag, scores + v * kN);
  for (Index key = 1; key < count; ++key) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) maximum[v] = hn::Max(maximum[v], hn::Load(kTag, scores + (key * kVectors + v) * kN));
  }
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    base[v] = hn::IfThenZeroElse(hn::Eq(maximum[v], hn::Set(kTag, kMinusInfinity)), maximum[v]);
    sum[v] = where[v] = hn::Zero(kTag);
  }
  const Vec one = hn::Set(kTag, 1.0f);
  Vec j = hn::Set(kTag, static_cast<float>(first_key + count - 1));
  for (Index key = count - 1; key >= 0; --key, j = hn::Sub(j, one)) {  // downwards: the first of equal ones is written last
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const Vec s = hn::Load(kTag, scores + (key * kVectors + v) * kN);
      sum[v] = hn::Add(sum[v], exp2(hn::Sub(s, base[v])));
      where[v] = hn::IfThenElse(hn::Eq(s, maximum[v]), j, where[v]);
    }
  }
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    const Index at = first + v * kN;
    const Vec now = lse.log2_of(maximum[v], at), before = hn::Load(kTag, cell.largest + at);
    const Vec largest = hn::Max(before, now);
    const Vec origin = hn::IfThenZeroElse(hn::Eq(largest, hn::Set(kTag, kMinusInfinity)), largest);
    const Vec old = hn::Mul(hn::Load(kTag, cell.relative + at), exp2(hn::Sub(before, origin)));
    hn::Store(hn::MulAdd(sum[v], exp2(hn::Sub(now, origin)), old), kTag, cell.relative + at);
    hn::Store(hn::IfThenElse(hn::Gt(now, before), where[v], hn::Load(kTag, cell.key + at)), kTag, cell.key + at);
    hn::Store(largest, kTag, cell.largest + at);
  }
}

// Adds the number of `keys`, some of the tile's, that each lane sees, from ranges and the addends of mask and bias.
inline HWY_NOINLINE void count_visible(const BlockContext& c, Index first, Index width, const TileKeys& tile, KeyRange keys,
                                       CellLanes& cell) {
  HWY_ALIGN float lowest[kPanelLanes], limit[kPanelLanes];
  for (Index l = 0; l < width; ++l) {
    const KeyRange range = key_range(c.problem, *c.block.sequence, lane_at(c, first + l).position);
    lowest[l] = static_cast<float>(std::clamp<Index>(range.begin - tile.begin, 0, kKeyBlock));
    limit[l] = static_cast<float>(std::clamp<Index>(range.end - tile.begin, 0, kKeyBlock));
  }
  const Vec one = hn::Set(kTag, 1.0f);
  for (Index v = 0; v < width; v += kN) {
    const Vec low = hn::Load(kTag, lowest + v), high = hn::Load(kTag, limit + v);
    Vec count = hn::Load(kTag, cell.visible + first + v);
    for (Index key = keys.begin - tile.begin; key < keys.end - tile.begin; ++key) {
      const Vec j = hn::Set(kTag, static_cast<float>(key));
      const auto hidden = hn::Eq(hn::Load(kTag, c.addends + key * width + v), hn::Set(kTag, kMinusInfinity));
      const auto visible = hn::AndNot(hidden, hn::And(hn::Ge(j, low), hn::Lt(j, high)));
      count = hn::Add(count, hn::IfThenElseZero(visible, one));
    }
    hn::Store(count, kTag, cell.visible + first + v);
  }
}

HWY_INLINE void finish_cell(const BlockContext& c, CellLanes& cell) {
  for (Index v = 0; v < c.padded; v += kN) {
    const Vec relative = hn::Load(kTag, cell.relative + v);
    hn::Store(hn::Mul(relative, exp2(hn::Load(kTag, cell.largest + v))), kTag, cell.mass + v);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
