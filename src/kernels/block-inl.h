// A block of lanes walking over keys with the online softmax, for one Highway target.
//
// For every panel of up to kPanelLanes lanes and every block of kKeyBlock keys (Milakov & Gimelshein 2018; Dao 2023, §3.1):
//
//     S = K Q^T                       scores, in units of log2: scale * log2(e) is folded into Q
//     m' = max(m, max_key S)          alpha = 2^(m - m')
//     P = 2^(S - m')                  l = l alpha + sum_key P
//     O = O alpha + P V
//
// and at the end O / l. m starts at -inf: 2^(-inf - m') is 0, which is right for an empty O. A lane that has seen no key keeps
// m = -inf; 0 stands in for it where it would be subtracted.
#if defined(MULTIHEAD_KERNELS_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BLOCK_INL_H_
#undef MULTIHEAD_KERNELS_BLOCK_INL_H_
#else
#define MULTIHEAD_KERNELS_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

inline constexpr Index kN = static_cast<Index>(kLanes);
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
inline constexpr double kLog2E = 1.4426950408889634;

// Blocks of so few lanes, all looking at the same keys, go through decode-inl.h.
inline constexpr Index kDecodeLanes = std::min<Index>(4, kPanelLanes);
inline constexpr Index kScoreFloats = kKeyBlock * std::max<Index>(kPanelLanes, 4);

// In log2 units. A finite number stays finite: a bias near the lowest f32 hides nothing, and 0 * infinity would be NaN.
HWY_INLINE float to_log2(float x) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float product = x * static_cast<float>(kLog2E);
  if (product < -kLargest && x >= -kLargest) return -kLargest;
  return product > kLargest && x <= kLargest ? kLargest : product;
}

HWY_INLINE Index round_up(Index value, Index step) { return (value + step - 1) / step * step; }

// The softmax of a block over some keys, not yet divided: arrays over lanes padded to whole vectors.
struct SoftmaxState {
  float* maximum;  // m, in log2 units
  float* sum;      // l
  float* seen;     // 1 when a key was visible, else 0: an empty row is decided by this, never by a score
  float* output;   // panel after panel, each [value_dim, panel width]
};

struct BlockContext {
  const AttentionProblem& problem;
  const Block& block;
  Index lanes;   // of the block, without padding
  Index padded;  // to whole vectors
  float* packed_query;
  SoftmaxState state;  // of the chunk at hand
  SoftmaxState total;  // of the chunks before it
  float* scores;       // [kKeyBlock, panel]; decoding: [kDecodeLanes, kKeyBlock]
  float* addends;      // [kKeyBlock, panel]: bias and mask, -inf where not visible
  float* keys;         // [kKeyBlock, head_dim] copied
  float* values;       // [kKeyBlock, value_dim] copied
};

HWY_INLINE SoftmaxState carve_state(float*& at, Index padded, Index value_dim) {
  SoftmaxState state{at, at + padded, at + 2 * padded, at + 3 * padded};
  at += padded * (3 + value_dim);
  return state;
}

inline Index state_floats(Index padded, Index value_dim) { return padded * (3 + value_dim); }

inline Index context_floats(const AttentionProblem& problem, Index lanes) {
  const Index padded = round_up(lanes, kN);
  const Index dims = problem.head_dim + problem.value_dim;
  return padded * problem.head_dim + 2 * state_floats(padded, problem.value_dim) + 2 * kScoreFloats +
         round_up(kKeyBlock * dims, 16);
}

// A context without memory: for what depends on the block alone.
HWY_INLINE BlockContext bare_context(const AttentionProblem& problem, const Block& block) {
  const Index lanes = block.lane_end - block.lane_begin;
  return {problem, block, lanes, round_up(lanes, kN), nullptr, {}, {}, nullptr, nullptr, nullptr, nullptr};
}

HWY_INLINE BlockContext make_context(const AttentionProblem& problem, const Block& block, float* workspace) {
  BlockContext context = bare_context(problem, block);
  context.packed_query = workspace;
  float* at = workspace + context.padded * problem.head_dim;
  context.state = carve_state(at, context.padded, problem.value_dim);
  context.total = carve_state(at, context.padded, problem.value_dim);
  context.scores = at;
  context.addends = context.scores + kScoreFloats;
  context.keys = context.addends + kScoreFloats;
  context.values = context.keys + kKeyBlock * problem.head_dim;
  return context;
}

// A lane's place in the arrays.
struct Lane {
  Index head, row, position;
};

HWY_INLINE Lane lane_at(const BlockContext& c, Index lane) {
  // Padding lanes repeat the last real one, so that they never make a tile partial.
  const Index r = c.block.lane_begin + std::min(lane, c.lanes - 1);
  const Index query = r / c.problem.group;
  return {c.block.kv_head * c.problem.group + r % c.problem.group, c.block.sequence->query_begin + query,
          c.block.sequence->query_offset + query};
}

// The scores' scale, in log2 units where no softcap comes between. With a scale rounded to f32 all scores would be off by the
// same factor, which softmax turns into an error that rounding each product does not make.
HWY_INLINE WideFactor query_factor(const AttentionProblem& problem) {
  return WideFactor(problem.softcap > 0 ? problem.scale / problem.softcap : problem.scale * kLog2E);
}

HWY_INLINE Index query_offset(const BlockContext& c, const Lane& lane) {
  return c.problem.query.offset(c.block.sequence->batch, lane.head, lane.row, 0);
}

// One lane's query as f32, scale folded in, to `row`.
HWY_INLINE void load_query(const BlockContext& c, Index index, float* row) {
  const AttentionProblem& problem = c.problem;
  load_row(problem.query.data, problem.query.dtype, query_offset(c, lane_at(c, index)), problem.query.strides[3],
           problem.head_dim, row);
  multiply_row(row, problem.head_dim, query_factor(problem));
}

// Packs the block's queries panel by panel as [head_dim, panel width], four lanes at a time, from where they lie if they can be
// read there. Lanes of padding repeat the last real one.
HWY_INLINE void pack_queries(const BlockContext& c) {
  const AttentionProblem& problem = c.problem;
  const Index dim = problem.head_dim;
  const bool in_place = problem.query.dtype == DType::kF32 && (problem.query.strides[3] == 1 || dim == 1);
  const WideFactor factor = query_factor(problem);
  float* const staging = c.keys;  // not in use yet
  for (Index first = 0; first < c.padded; first += kPanelLanes) {
    const Index width = std::min(kPanelLanes, c.padded - first);
    for (Index l = 0; l < width; l += 4) {
      const Index height = std::min<Index>(4, width - l);
      const float* rows[4];
      for (Index r = 0; r < height; ++r) {
        const Index offset = query_offset(c, lane_at(c, first + l + r));
        rows[r] = in_place ? static_cast<const float*>(problem.query.data) + offset : staging + r * dim;
        if (!in_place) {
          load_row(problem.query.data, problem.query.dtype, offset, problem.query.strides[3], dim, staging + r * dim);
        }
      }
      transpose_times(rows, height, dim, factor, c.packed_query + first * dim + l, width);
    }
  }
}

HWY_INLINE void reset(const BlockContext& c, const SoftmaxState& state) {
  std::fill_n(state.maximum, c.padded, kMinusInfinity);
  std::fill_n(state.sum, c.padded * (2 + c.problem.value_dim), 0.0f);  // sum, seen and output are adjacent
}

// Keys [begin, end) of the sequence that a tile spans, and what must be done to its scores.
struct TileKeys {
  Index block_begin;  // first key of the key block
  Index begin, end;
  bool limited;  // some lane does not see all of them by causality or window
  bool addends;  // bias or mask matter here
};

// The mask's bytes of one lane for the tile's keys, gathered to `scratch` where they are not adjacent.
HWY_INLINE const std::uint8_t* mask_row(const BlockContext& c, Index index, const TileKeys& tile, std::uint8_t* scratch) {
  const Strided<const void>& mask = c.problem.mask;
  const Lane lane = lane_at(c, index);
  const auto* row = static_cast<const std::uint8_t*>(mask.data) +
                    mask.offset(c.block.sequence->batch, lane.head, lane.row, c.block.sequence->key_begin + tile.begin);
  if (mask.strides[3] == 1) return row;
  for (Index j = 0; j < tile.end - tile.begin; ++j) scratch[j] = row[j * mask.strides[3]];
  return scratch;
}

// What the boolean mask does to a tile as a whole.
enum class MaskTile { kHidden, kMixed, kOpen };

HWY_INLINE MaskTile look_at_mask(const BlockContext& c, Index first, Index width, const TileKeys& tile) {
  std::uint8_t scratch[kKeyBlock];
  const Index count = tile.end - tile.begin;
  const std::uint8_t* before = nullptr;
  bool any_open = false, any_hidden = false;
  for (Index l = 0; l < width; ++l) {
    const std::uint8_t* HWY_RESTRICT row = mask_row(c, first + l, tile, scratch);
    if (row == before && row != scratch) continue;  // a mask of keys alone, or shared by the heads of a group
    before = row;
    Index open = 0;
    for (Index j = 0; j < count; ++j) open += row[j] != 0 ? 1 : 0;
    any_open |= open > 0;
    any_hidden |= open < count;
    if (any_open && any_hidden) return MaskTile::kMixed;
  }
  return any_open ? MaskTile::kOpen : MaskTile::kHidden;
}

// One lane's bias in log2 units, 0 without one, and -inf where the mask hides the pair.
HWY_INLINE void addend_row(const BlockContext& c, Index index, const TileKeys& tile, float* HWY_RESTRICT out) {
  const Strided<const void>& bias = c.problem.bias;
  const Index count = tile.end - tile.begin;
  if (bias.data != nullptr) {
    const Lane lane = lane_at(c, index);
    load_row(bias.data, bias.dtype,
             bias.offset(c.block.sequence->batch, lane.head, lane.row, c.block.sequence->key_begin + tile.begin),
             bias.strides[3], count, out);
    for (Index j = 0; j < count; ++j) out[j] = to_log2(out[j]);
  } else {
    std::fill_n(out, count, 0.0f);
  }
  if (c.problem.mask.data == nullptr) return;
  std::uint8_t scratch[kKeyBlock];
  const std::uint8_t* HWY_RESTRICT mask = mask_row(c, index, tile, scratch);
  for (Index j = 0; j < count; ++j) out[j] = mask[j] != 0 ? out[j] : kMinusInfinity;
}

// Bias and mask of a tile as addends, -inf where a pair is not visible: four lanes at a time along the rows in which they are
// stored, then turned.
HWY_INLINE void load_addends(const BlockContext& c, Index first, Index width, const TileKeys& tile) {
  float* const rows = c.scores;  // [width, keys]: the scores are not there yet, and no more room than theirs is ours
  const Index keys = tile.end - tile.begin;
  for (Index l = 0; l < width; l += 4) {
    const Index count = std::min<Index>(4, width - l);
    for (Index r = 0; r < count; ++r) addend_row(c, first + l + r, tile, rows + r * keys);
    transpose_rows(rows, keys, count, keys, c.addends + l, width);
  }
}

inline bool bends_scores(const AttentionProblem& problem) { return problem.softcap > 0 || problem.alibi_slopes != nullptr; }

inline bool needs_adjustment(const AttentionProblem& problem) {
  return problem.mask.data != nullptr || problem.bias.data != nullptr || bends_scores(problem);
}

// softcap -> bias and ALiBi -> visibility, in place on the scores of one panel; new maxima; which lanes saw a key. kPlain: the
// scores are neither bent nor added to, as along every causal diagonal.
template <bool kPlain>
HWY_NOINLINE void adjust_scores(const BlockContext& c, Index first, Index width, const TileKeys& tile,
                                float* HWY_RESTRICT maxima, float* HWY_RESTRICT seen) {
  const AttentionProblem& problem = c.problem;
  HWY_ALIGN float lowest[kPanelLanes], limit[kPanelLanes], slope[kPanelLanes], position[kPanelLanes];
  for (Index l = 0; l < width; ++l) {
    const Lane lane = lane_at(c, first + l);
    const KeyRange range = key_range(problem, *c.block.sequence, lane.position);
    lowest[l] = static_cast<float>(std::clamp<Index>(range.begin - tile.block_begin, 0, kKeyBlock));
    limit[l] = static_cast<float>(std::clamp<Index>(range.end - tile.block_begin, 0, kKeyBlock));
    if constexpr (kPlain) continue;
    slope[l] = problem.alibi_slopes != nullptr ? to_log2(problem.alibi_slopes[lane.head]) : 0;
    position[l] = static_cast<float>(lane.position - tile.block_begin);
  }
  const Vec hidden = hn::Set(kTag, kMinusInfinity);
  const Vec cap = hn::Set(kTag, static_cast<float>(problem.softcap * kLog2E));
  for (Index v = 0; v < width; v += kN) {
    Vec maximum = hidden;
    Vec any = hn::Load(kTag, seen + v);
    const Vec lo = hn::Load(kTag, lowest + v), hi = hn::Load(kTag, limit + v);
    Vec j = hn::Set(kTag, static_cast<float>(tile.begin - tile.block_begin));
    float* HWY_RESTRICT at = c.scores + v;
    for (Index key = tile.begin; key < tile.end; ++key, at += width, j = hn::Add(j, hn::Set(kTag, 1.0f))) {
      Vec s = hn::Load(kTag, at);
      auto visible = hn::And(hn::Ge(j, lo), hn::Lt(j, hi));
      if constexpr (!kPlain) {
        if (problem.softcap > 0) s = hn::Mul(tanh(s), cap);
        if (tile.addends) {
          const Vec addend = hn::Load(kTag, c.addends + (key - tile.begin) * width + v);
          visible = hn::AndNot(hn::Eq(addend, hidden), visible);  // not Ne: with some targets a NaN would be hidden
          s = hn::Add(s, addend);
        }
        if (problem.alibi_slopes != nullptr) {
          const Vec distance = hn::Abs(hn::Sub(hn::Load(kTag, position + v), j));
          s = hn::NegMulAdd(hn::Load(kTag, slope + v), distance, s);
        }
      }
      s = hn::IfThenElse(visible, s, hidden);
      any = hn::IfThenElse(visible, hn::Set(kTag, 1.0f), any);
      maximum = hn::Max(maximum, s);
      hn::Store(s, kTag, at);
    }
    hn::Store(maximum, kTag, maxima + v);
    hn::Store(any, kTag, seen + v);
  }
}

// Which elements are -0, the mark of what is not visible.
HWY_INLINE auto is_marked(Vec x) {
  const hn::RebindToUnsigned<FloatTag> bits;
  return hn::RebindMask(kTag, hn::Eq(hn::BitCast(bits, x), hn::Set(bits, 0x80000000u)));
}

// From scores to weights, in place; sums, those of a key block by themselves first, so that small weights are added to small
// sums; what the old output must be multiplied by. kSkip marks pairs that are not visible
// with a weight of -0, for output_tile to step over.
template <int kVectors, bool kSkip>
HWY_NOINLINE void softmax_step(float* HWY_RESTRICT scores, Index count, const float* HWY_RESTRICT maxima,
                               float* HWY_RESTRICT maximum, float* HWY_RESTRICT sum, float* HWY_RESTRICT alpha) {
  Vec base[kVectors], total[kVectors];
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    const Vec old = hn::Load(kTag, maximum + v * kN);
    const Vec now = hn::Max(old, hn::Load(kTag, maxima + v * kN));
    base[v] = hn::IfThenZeroElse(hn::Eq(now, hn::Set(kTag, kMinusInfinity)), now);
    const Vec factor = exp2(hn::Sub(old, base[v]));
    total[v] = hn::Zero(kTag);
    hn::Store(hn::Mul(hn::Load(kTag, sum + v * kN), factor), kTag, sum + v * kN);
    hn::Store(now, kTag, maximum + v * kN);
    hn::Store(factor, kTag, alpha + v * kN);
  }
  for (Index key = 0; key < count; ++key) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT at = scores + (key * kVectors + v) * kN;
      const Vec s = hn::Load(kTag, at);
      Vec p = exp2(hn::Sub(s, base[v]));
      total[v] = hn::Add(total[v], p);
      if constexpr (kSkip) p = hn::IfThenElse(hn::Eq(s, hn::Set(kTag, kMinusInfinity)), hn::Set(kTag, -0.0f), p);
      hn::Store(p, kTag, at);
    }
  }
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) hn::Store(hn::Add(hn::Load(kTag, sum + v * kN), total[v]), kTag, sum + v * kN);
}

// Dropout's factors for a panel of lanes against one key after another: the vectors' form of DropoutDraws::factor_of.
template <int kVectors>
class PanelDraws {
 public:
  HWY_INLINE PanelDraws(const BlockContext& c, Index first) : draws_(c.problem.dropout) {
    HWY_ALIGN std::uint32_t words[2][kVectors * kN];
    for (Index l = 0; l < kVectors * kN; ++l) {
      const Lane lane = lane_at(c, first + l);
      const DropoutDraws::Row row = c.problem.draws_of(*c.block.sequence, lane.head, lane.position);
      words[0][l] = row.first;
      words[1][l] = row.second;
    }
    for (int v = 0; v < kVectors; ++v) {
      first_[v] = hn::Load(kBits, words[0] + v * kN);
      second_[v] = hn::Load(kBits, words[1] + v * kN);
    }
  }

  HWY_INLINE Vec factor(int v, Index key) const {
    Bits x = hn::Add(first_[v], hn::Set(kBits, DropoutDraws::kKeyStep * static_cast<std::uint32_t>(key)));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(kBits, DropoutDraws::kFirstRound));
    x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), second_[v]);
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(kBits, DropoutDraws::kSecondRound));
    // 31 bits, which signed comparisons know.
    const auto draw = hn::BitCast(kSigned, hn::ShiftRight<1>(hn::Xor(x, hn::ShiftRight<15>(x))));
    const auto dropped = hn::Lt(draw, hn::Set(kSigned, static_cast<std::int32_t>(draws_.threshold)));
    return hn::IfThenZeroElse(hn::RebindMask(kTag, dropped), hn::Set(kTag, draws_.factor));
  }

 private:
  static constexpr hn::RebindToUnsigned<FloatTag> kBits{};
  static constexpr hn::RebindToSigned<FloatTag> kSigned{};
  using Bits = hn::Vec<hn::RebindToUnsigned<FloatTag>>;

  const DropoutDraws& draws_;
  Bits first_[kVectors], second_[kVectors];
};

// Weights of a panel times dropout's factors, in place. What is dropped becomes +0 and is not stepped over: what a row sees
// decides where a NaN goes, not a draw.
template <int kVectors>
HWY_NOINLINE void drop_weights(const BlockContext& c, Index first, const TileKeys& tile, float* HWY_RESTRICT weights) {
  const PanelDraws<kVectors> draws(c, first);
  for (Index key = tile.begin; key < tile.end; ++key, weights += kVectors * kN) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec p = hn::Load(kTag, weights + v * kN);
      const Vec dropped = hn::Mul(p, draws.factor(v, key));
      hn::Store(hn::IfThenElse(is_marked(p), p, dropped), kTag, weights + v * kN);
    }
  }
}

// Which keys of a key block the lanes [first, first + width) look at.
HWY_INLINE TileKeys tile_keys(const BlockContext& c, Index first, Index width, Index block_begin, Index block_end) {
  // Positions ascend over lanes and both ends of the range ascend with the position.
  const KeyRange low = key_range(c.problem, *c.block.sequence, lane_at(c, first).position);
  const KeyRange high = key_range(c.problem, *c.block.sequence, lane_at(c, first + width - 1).position);
  const bool addends = c.problem.mask.data != nullptr || c.problem.bias.data != nullptr;
  TileKeys tile{block_begin, std::max(block_begin, low.begin), std::min(block_end, high.end), false, addends};
  tile.limited = high.begin > tile.begin || low.end < tile.end;
  return tile;
}

// Calls work(vectors as a constant, first vector, begin, end) for stretches of the tile's keys and the vectors of the panel
// that look at any of them: along a causal diagonal the first vectors have seen all they may before the last have begun.
template <int kPanel, typename Work>
HWY_INLINE void for_each_stretch(const BlockContext& c, Index first, const TileKeys& tile, const Work& work) {
  if (!tile.limited || kPanel == 1) {
    work(std::integral_constant<int, kPanel>(), Index{0}, tile.begin, tile.end);
    return;
  }
  TileKeys of_vector[kPanel];
  Index cuts[2 * kPanel];
  for (int v = 0; v < kPanel; ++v) {
    of_vector[v] = tile_keys(c, first + v * kN, kN, tile.begin, tile.end);
    of_vector[v].end = std::max(of_vector[v].begin, of_vector[v].end);
    cuts[2 * v] = of_vector[v].begin;
    cuts[2 * v + 1] = of_vector[v].end;
  }
  std::sort(cuts, cuts + 2 * kPanel);
  for (int i = 0; i + 1 < 2 * kPanel; ++i) {
    const Index begin = cuts[i], end = cuts[i + 1];
    if (begin == end) continue;
    // Ranges ascend with the lane, so the vectors that look at a stretch are neighbours.
    Index from = 0, to = kPanel;
    while (from < kPanel && (of_vector[from].begin > begin || of_vector[from].end < end)) ++from;
    while (to > from && (of_vector[to - 1].begin > begin || of_vector[to - 1].end < end)) --to;
    with_constant<kPanel>(to - from, [&](auto vectors) HWY_ATTR { work(vectors, from, begin, end); });
  }
}

// Scores of one panel against one tile of keys, with everything that happens to them before the softmax.
template <int kVectors>
HWY_INLINE void panel_scores(const BlockContext& c, Index first, const TileKeys& tile, Rows keys, float* maxima, float* seen) {
  constexpr Index kWidth = kVectors * kN;
  const AttentionProblem& problem = c.problem;
  if (tile.addends) load_addends(c, first, kWidth, tile);
  std::fill_n(maxima, kWidth, kMinusInfinity);
  for_each_stretch<kVectors>(c, first, tile, [&](auto vectors, Index from, Index begin, Index end) HWY_ATTR {
    const Index skip = begin - tile.begin;
    score_keys<vectors(), kVectors>({keys.row(skip), keys.stride}, end - begin,
                                    c.packed_query + first * problem.head_dim + from * kN, problem.head_dim,
                                    c.scores + skip * kWidth + from * kN, maxima + from * kN);
  });
  if (tile.addends || bends_scores(problem)) {
    adjust_scores<false>(c, first, kWidth, tile, maxima, seen);
  } else if (tile.limited) {
    adjust_scores<true>(c, first, kWidth, tile, maxima, seen);
  } else {
    std::fill_n(seen, kWidth, 1.0f);
  }
}

struct KeyBlockRows {
  Index begin, end;  // keys of the sequence
  Rows keys, values;
  bool values_finite;  // only looked at where some pair is not visible
};

template <int kVectors, bool kSkip>
HWY_INLINE void weigh_values(const BlockContext& c, Index first, const TileKeys& tile, Rows values, const float* maxima) {
  constexpr Index kWidth = kVectors * kN;
  HWY_ALIGN float alpha[kWidth];
  softmax_step<kVectors, kSkip>(c.scores, tile.end - tile.begin, maxima, c.state.maximum + first, c.state.sum + first, alpha);
  if (c.problem.drops()) drop_weights<kVectors>(c, first, tile, c.scores);
  for_each_stretch<kVectors>(c, first, tile, [&](auto vectors, Index from, Index begin, Index end) HWY_ATTR {
    const Index skip = begin - tile.begin;
    accumulate_values<vectors(), kVectors, kSkip>({values.row(skip), values.stride}, c.problem.value_dim,
                                                  c.scores + skip * kWidth + from * kN, end - begin, alpha + from * kN,
                                                  c.state.output + first * c.problem.value_dim + from * kN);
    std::fill_n(alpha + from * kN, vectors() * kN, 1.0f);  // once is enough
  });
}

template <int kVectors>
HWY_INLINE void attend_panel(const BlockContext& c, Index first, const KeyBlockRows& rows) {
  TileKeys tile = tile_keys(c, first, kVectors * kN, rows.begin, rows.end);
  if (tile.begin >= tile.end) return;
  if (c.problem.mask.data != nullptr) {
    const MaskTile seen = look_at_mask(c, first, kVectors * kN, tile);
    if (seen == MaskTile::kHidden) return;  // nothing would be added to anything
    if (seen == MaskTile::kOpen) tile.addends = c.problem.bias.data != nullptr;
  }
  HWY_ALIGN float maxima[kPanelLanes];
  const Index skip = tile.begin - rows.begin;
  panel_scores<kVectors>(c, first, tile, {rows.keys.row(skip), rows.keys.stride}, maxima, c.state.seen + first);
  const Rows values{rows.values.row(skip), rows.values.stride};
  if (rows.values_finite) {
    weigh_values<kVectors, false>(c, first, tile, values, maxima);
  } else {
    weigh_values<kVectors, true>(c, first, tile, values, maxima);
  }
}

// Calls work(vectors as a constant, first lane) for every panel of the block.
template <typename Work>
HWY_INLINE void for_each_panel(const BlockContext& c, const Work& work) {
  for (Index first = 0; first < c.padded; first += kPanelLanes) {
    with_constant<kMaxVectors>(std::min(kPanelLanes, c.padded - first) / kN,
                               [&](auto vectors) HWY_ATTR { work(vectors, first); });
  }
}

// Calls work(begin, end) for every key block of one chunk that `visible` leaves.
template <typename Work>
HWY_INLINE void for_each_key_block(KeyRange visible, Index chunk, const Work& work) {
  const Index chunk_end = std::min((chunk + 1) * kKeyChunk, visible.end);
  const Index start = std::max(chunk * kKeyChunk, visible.begin / kKeyBlock * kKeyBlock);
  for (Index begin = start; begin < chunk_end; begin += kKeyBlock) work(begin, std::min(begin + kKeyBlock, chunk_end));
}

// Where key `key` of this block's head begins, in elements.
HWY_INLINE Index key_offset(const BlockContext& c, const Strided<const void>& array, Index key) {
  return array.offset(c.block.sequence->key_batch, c.block.kv_head, c.block.sequence->key_row(key), 0);
}

// One chunk of keys into c.state, panel by panel: attend(vectors as a constant, first lane, rows) for every key block.
template <typename Attend>
HWY_INLINE void walk_panels(const BlockContext& c, KeyRange visible, Index chunk, const Attend& attend) {
  reset(c, c.state);
  const bool may_hide = c.problem.mask.data != nullptr || c.problem.bias.data != nullptr;
  for_each_key_block(visible, chunk, [&](Index begin, Index end) HWY_ATTR {
    KeyBlockRows rows{begin, end, {}, {}, true};
    rows.keys = rows_of(c.problem.key, key_offset(c, c.problem.key, begin), end - begin, c.problem.head_dim, c.keys);
    rows.values = rows_of(c.problem.value, key_offset(c, c.problem.value, begin), end - begin, c.problem.value_dim, c.values);
    if (may_hide || tile_keys(c, 0, c.padded, rows.begin, rows.end).limited) {
      rows.values_finite = all_finite(rows.values, rows.end - rows.begin, c.problem.value_dim);
    }
    for_each_panel(c, [&](auto vectors, Index first) HWY_ATTR { attend(vectors, first, rows); });
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
