// One block of lanes against one chunk of keys, backwards, for one Highway target.
#if defined(MULTIHEAD_KERNELS_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_INL_H_
#undef MULTIHEAD_KERNELS_BACKWARD_INL_H_
#else
#define MULTIHEAD_KERNELS_BACKWARD_INL_H_
#endif

#include "kernels/backward.h"
#include "kernels/backward_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// Rows of so many floats, in memory of our own: whole vectors of every target.
HWY_INLINE Index padded_columns(Index columns) { return round_up(columns, 16); }
// The same for rows of which a few columns are read at a time: 16 more, so that widths that are powers of two do not put all of
// them into one set of the cache.
HWY_INLINE Index spread_columns(Index columns) { return padded_columns(columns) + 16; }

// A chunk's part of the workspace.
struct ChunkMemory {
  float* key_sums;    // [keys, padded_columns(head_dim)]
  float* value_sums;  // [keys, padded_columns(value_dim)]
  float* keys;        // [keys, head_dim] copied
  float* values;      // [keys, value_dim] copied
  float* rest;
};

inline Index chunk_floats(const AttentionProblem& problem, Index keys) {
  return keys * (padded_columns(problem.head_dim) + padded_columns(problem.value_dim)) + round_up(keys * problem.head_dim, 16) +
         round_up(keys * problem.value_dim, 16);
}

inline ChunkMemory carve_chunk(const AttentionProblem& problem, Index keys, float* at) {
  ChunkMemory memory{};
  memory.key_sums = at;
  memory.value_sums = memory.key_sums + keys * padded_columns(problem.head_dim);
  memory.keys = memory.value_sums + keys * padded_columns(problem.value_dim);
  memory.values = memory.keys + round_up(keys * problem.head_dim, 16);
  memory.rest = at + chunk_floats(problem, keys);
  return memory;
}

struct BackwardContext {
  const BackwardProblem& problem;
  BlockContext block;  // the forward's view of it: packed queries, scores of one panel
  float* query_rows;   // [lanes, spread_columns(head_dim)]: Q times the scale of the scores, as it is packed
  float* grad_rows;    // [lanes, spread_columns(value_dim)]: dO
  float* packed_grad;  // panel after panel, [value_dim, panel width]
  float* query_sums;   // panel after panel, [head_dim, panel width]: dQ before its factor
  float* lse;          // in log2 units
  float* delta;
  float* weights;    // P, panel after panel, each [kKeyBlock, panel width]
  float* gradients;  // dS, the same
  float* raw;        // [kKeyBlock, panel]: scores before the softcap
  bool rows_finite;  // Q and dO
};

inline Index block_floats(const AttentionProblem& problem, Index lanes) {
  const Index padded = round_up(lanes, kN);
  const Index rows = spread_columns(problem.head_dim) + spread_columns(problem.value_dim);
  const Index all = padded * (rows + 2 * problem.head_dim + problem.value_dim + 2 + 2 * kKeyBlock) + 2 * kScoreFloats;
  return all + 11 * 16;  // each part is rounded up
}

inline BackwardContext carve_block(const BackwardProblem& problem, const Block& block, float* at) {
  const AttentionProblem& attention = problem.attention;
  BackwardContext c{problem, bare_context(attention, block)};
  const auto take = [&](Index floats) {
    float* const taken = at;
    at += round_up(floats, 16);
    return taken;
  };
  const Index padded = c.block.padded;
  c.query_rows = take(padded * spread_columns(attention.head_dim));
  c.grad_rows = take(padded * spread_columns(attention.value_dim));
  c.block.packed_query = take(padded * attention.head_dim);
  c.packed_grad = take(padded * attention.value_dim);
  c.query_sums = take(padded * attention.head_dim);
  c.lse = take(padded);
  c.delta = take(padded);
  c.weights = take(padded * kKeyBlock);
  c.gradients = take(padded * kKeyBlock);
  c.block.addends = take(kScoreFloats);
  c.raw = take(kScoreFloats);
  return c;
}

// One array of rows [padded, stride] to panels [columns, panel width].
HWY_INLINE void pack_panels(const BlockContext& c, Rows rows, Index columns, float* packed) {
  for (Index first = 0; first < c.padded; first += kPanelLanes) {
    const Index width = std::min(kPanelLanes, c.padded - first);
    for (Index l = 0; l < width; l += 4) {
      transpose_rows(rows.row(first + l), rows.stride, std::min<Index>(4, width - l), columns, packed + first * columns + l,
                     width);
    }
  }
}

// Rows of Q and dO, packed too; lse and D. Lanes of padding have lse = +inf and zeros, so their coefficients are 0; what they
// add goes nowhere.
inline HWY_NOINLINE void load_block(BackwardContext& c) {
  const AttentionProblem& attention = c.problem.attention;
  const BlockContext& block = c.block;
  const Index batch = block.block.sequence->batch;
  const Index query_stride = spread_columns(attention.head_dim), grad_stride = spread_columns(attention.value_dim);
  std::fill_n(c.query_rows, block.padded * query_stride, 0.0f);
  std::fill_n(c.grad_rows, block.padded * grad_stride, 0.0f);
  std::fill_n(c.lse, block.padded, std::numeric_limits<float>::infinity());
  std::fill_n(c.delta, block.padded, 0.0f);
  for (Index l = 0; l < block.lanes; ++l) {
    const Lane lane = lane_at(block, l);
    const auto& grad = c.problem.grad_output;
    load_query(block, l, c.query_rows + l * query_stride);
    load_row(grad.data, grad.dtype, grad.offset(batch, lane.head, lane.row, 0), grad.strides[3], attention.value_dim,
             c.grad_rows + l * grad_stride);
    const double lse = static_cast<double>(c.problem.lse.data[c.problem.lse.offset(batch, lane.head, lane.row, 0)]);
    c.lse[l] = static_cast<float>(lse * kLog2E);
    c.delta[l] = c.problem.delta.data[c.problem.delta.offset(batch, lane.head, lane.row, 0)];
  }
  const Rows queries{c.query_rows, query_stride}, grads{c.grad_rows, grad_stride};
  pack_panels(block, queries, attention.head_dim, block.packed_query);
  pack_panels(block, grads, attention.value_dim, c.packed_grad);
  c.rows_finite = all_finite(queries, block.lanes, attention.head_dim) && all_finite(grads, block.lanes, attention.value_dim);
}

// One key block of a chunk.
struct BackwardKeys {
  Index begin, end;  // keys of the sequence
  Rows keys, values;
  bool keys_finite;
  double* distance_sums;  // [group], or null
  double* gradient_sums;
};

// dS of a panel into the gradients of what was added to its scores.
HWY_INLINE void add_bias_sums(const BackwardContext& c, Index first, Index width, const TileKeys& tile, const float* gradients,
                              const BackwardKeys& rows) {
  const Strided<float>& bias = c.problem.bias_sums;
  const Sequence& sequence = *c.block.block.sequence;
  const Index count = tile.end - tile.begin;
  for (Index l = 0; l < std::min(width, c.block.lanes - first); ++l) {
    const Lane lane = lane_at(c.block, first + l);
    const float* HWY_RESTRICT gradient = gradients + l;
    if (bias.strides[3] != 0) {
      float* out = bias.data + bias.offset(sequence.batch, lane.head, lane.row, sequence.key_begin + tile.begin);
      for (Index j = 0; j < count; ++j) out[j * bias.strides[3]] += gradient[j * width];
      continue;
    }
    float sum = 0;
    for (Index j = 0; j < count; ++j) sum += gradient[j * width];
    if (bias.strides[2] != 0) {
      bias.data[bias.offset(sequence.batch, lane.head, lane.row, 0)] += sum;
    } else {
      rows.gradient_sums[lane.head % c.problem.attention.group] += static_cast<double>(sum);
    }
  }
}

// sum_key dS |position - key| of a panel's lanes, into their heads' sums.
HWY_INLINE void add_distance_sums(const BackwardContext& c, Index first, Index width, const TileKeys& tile,
                                  const float* gradients, double* sums) {
  HWY_ALIGN float position[kPanelLanes], total[kPanelLanes];
  for (Index l = 0; l < width; ++l) position[l] = static_cast<float>(lane_at(c.block, first + l).position - tile.begin);
  for (Index v = 0; v < width; v += kN) {
    Vec sum = hn::Zero(kTag);
    const Vec where = hn::Load(kTag, position + v);
    for (Index key = 0; key < tile.end - tile.begin; ++key) {
      const Vec distance = hn::Abs(hn::Sub(where, hn::Set(kTag, static_cast<float>(key))));
      sum = hn::MulAdd(hn::Load(kTag, gradients + key * width + v), distance, sum);
    }
    hn::Store(sum, kTag, total + v);
  }
  for (Index l = 0; l < std::min(width, c.block.lanes - first); ++l) {
    sums[lane_at(c.block, first + l).head % c.problem.attention.group] += static_cast<double>(total[l]);
  }
}

// dS *= 1 - tanh^2 of the scores before the softcap, which are computed once more.
template <int kVectors>
HWY_INLINE void undo_softcap(const BackwardContext& c, Index first, Index count, Rows keys, float* HWY_RESTRICT gradients) {
  const Index head_dim = c.problem.attention.head_dim;
  HWY_ALIGN float maxima[kPanelLanes];
  std::fill_n(maxima, kVectors * kN, kMinusInfinity);
  score_keys<kVectors, kVectors>(keys, count, c.block.packed_query + first * head_dim, head_dim, c.raw, maxima);
  const Vec one = hn::Set(kTag, 1.0f);
  for (Index at = 0; at < count * kVectors * kN; at += kN) {
    const Vec capped = tanh(hn::Load(kTag, c.raw + at)), gradient = hn::Load(kTag, gradients + at);
    const Vec slope = hn::Mul(hn::Sub(one, capped), hn::Add(one, capped));
    hn::Store(hn::IfThenElse(is_marked(gradient), gradient, hn::Mul(gradient, slope)), kTag, gradients + at);
  }
}

// Dropout's factors m behind what was computed without them: P (dP - D) becomes P (m dP - D) and P becomes m P.
template <int kVectors>
HWY_NOINLINE void drop_gradients(const BackwardContext& c, Index first, const TileKeys& tile, float* HWY_RESTRICT weights,
                                 float* HWY_RESTRICT gradients) {
  const PanelDraws<kVectors> draws(c.block, first);
  Index at = 0;
  for (Index key = tile.begin; key < tile.end; ++key) {
    for (int v = 0; v < kVectors; ++v, at += kN) {
      const Vec p = hn::Load(kTag, weights + at), share = hn::Mul(p, hn::Load(kTag, c.delta + first + v * kN));
      const Vec factor = draws.factor(v, key), gradient = hn::Add(hn::Load(kTag, gradients + at), share);
      const auto hidden = is_marked(p);
      // + 0: a visible -0 must not be taken for the mark.
      const Vec dropped = hn::Add(hn::MulSub(factor, gradient, share), hn::Zero(kTag));
      hn::Store(hn::IfThenElse(hidden, p, dropped), kTag, gradients + at);
      hn::Store(hn::IfThenElse(hidden, p, hn::Mul(p, factor)), kTag, weights + at);
    }
  }
}

// P, dS and dQ of one panel. kMark: some pair of the tile may not be visible.
template <int kVectors, bool kMark>
HWY_INLINE void panel_backward(const BackwardContext& c, Index first, const TileKeys& tile, const BackwardKeys& rows) {
  constexpr Index kWidth = kVectors * kN;
  const AttentionProblem& attention = c.problem.attention;
  const Index skip = tile.begin - rows.begin, count = tile.end - tile.begin;
  const Rows keys{rows.keys.row(skip), rows.keys.stride}, values{rows.values.row(skip), rows.values.stride};
  float* const weights = c.weights + first * kKeyBlock + skip * kWidth;
  float* const gradients = c.gradients + first * kKeyBlock + skip * kWidth;
  BlockContext scores = c.block;
  scores.scores = weights;
  HWY_ALIGN float maxima[kPanelLanes], seen[kPanelLanes] = {};
  panel_scores<kVectors>(scores, first, tile, keys, maxima, seen);
  recompute_weights<kVectors, kMark>(weights, count, c.lse + first);
  if (tile.limited) std::fill_n(gradients, count * kWidth, -0.0f);  // what no stretch covers
  const auto each_stretch = [&](const auto& work) HWY_ATTR {
    for_each_stretch<kVectors>(c.block, first, tile, [&](auto vectors, Index from, Index begin, Index end) HWY_ATTR {
      work(vectors, from * kN, begin - tile.begin, end - begin);
    });
  };
  each_stretch([&](auto vectors, Index lane, Index key, Index keys_now) HWY_ATTR {
    const Index at = key * kWidth + lane;
    score_gradients<vectors(), kVectors, kMark>(
        {values.row(key), values.stride}, attention.value_dim, keys_now,
        {c.packed_grad + first * attention.value_dim + lane, c.delta + first + lane, weights + at, gradients + at});
  });
  if (attention.drops()) drop_gradients<kVectors>(c, first, tile, weights, gradients);
  if (c.problem.bias_sums.data != nullptr) add_bias_sums(c, first, kWidth, tile, gradients, rows);
  if (rows.distance_sums != nullptr) add_distance_sums(c, first, kWidth, tile, gradients, rows.distance_sums);
  if (attention.softcap > 0) undo_softcap<kVectors>(c, first, count, keys, gradients);
  if (c.problem.query_sums.data == nullptr) return;
  each_stretch([&](auto vectors, Index lane, Index key, Index keys_now) HWY_ATTR {
    const Rows now{keys.row(key), keys.stride};
    const float* at = gradients + key * kWidth + lane;
    float* const sums = c.query_sums + first * attention.head_dim + lane;
    if (kMark && !rows.keys_finite) {
      add_query_sums<vectors(), kVectors, true>(now, attention.head_dim, at, keys_now, sums);
    } else {
      add_query_sums<vectors(), kVectors, false>(now, attention.head_dim, at, keys_now, sums);
    }
  });
}

// For every tile of kTileRows keys of a key block the lanes that see any of them by causality and window: both ends of a lane's
// range ascend with the lane.
HWY_INLINE void lanes_of_keys(const BackwardContext& c, const BackwardKeys& rows, KeyRange* lanes) {
  const auto range = [&](Index lane) {
    return key_range(c.problem.attention, *c.block.block.sequence, lane_at(c.block, lane).position);
  };
  Index first = 0, last = 0;
  for (Index key = rows.begin; key < rows.end; key += kTileRows, ++lanes) {
    const Index key_end = std::min(key + kTileRows, rows.end);
    while (first < c.block.lanes && range(first).end <= key) ++first;
    last = std::max(last, first);
    while (last < c.block.lanes && range(last).begin < key_end) ++last;
    *lanes = {first, last};
  }
}

inline HWY_NOINLINE void backward_keys(const BackwardContext& c, const BackwardKeys& rows, float* key_sums, float* value_sums) {
  const AttentionProblem& attention = c.problem.attention;
  const Index count = rows.end - rows.begin;
  bool marks = attention.mask.data != nullptr || attention.bias.data != nullptr, limited = false;
  for_each_panel(c.block, [&](auto vectors, Index first) HWY_ATTR {
    constexpr Index kWidth = vectors() * kN;
    const TileKeys tile = tile_keys(c.block, first, kWidth, rows.begin, rows.end);
    float* const weights = c.weights + first * kKeyBlock;
    float* const gradients = c.gradients + first * kKeyBlock;
    limited = limited || tile.limited || tile.begin > rows.begin || tile.end < rows.end;
    const Index before = std::min(std::max(tile.begin - rows.begin, Index{0}), count);
    const Index after = std::clamp(tile.end - rows.begin, before, count);
    for (float* const marked : {weights, gradients}) {
      std::fill_n(marked, before * kWidth, -0.0f);
      std::fill_n(marked + after * kWidth, (count - after) * kWidth, -0.0f);
    }
    if (before == after) return;
    if (marks || tile.limited) {
      panel_backward<vectors(), true>(c, first, tile, rows);
    } else {
      panel_backward<vectors(), false>(c, first, tile, rows);
    }
  });
  KeyRange lanes[kKeyBlock];
  if (limited) {
    lanes_of_keys(c, rows, lanes);
  } else {
    std::fill_n(lanes, kKeyBlock, KeyRange{0, c.block.lanes});
  }
  const bool skips = (marks || limited) && !c.rows_finite;
  const auto add = [&](const float* weights, Rows of_lanes, float* sums, Index columns) HWY_ATTR {
    const KeySums product{weights, c.block.padded, of_lanes, sums, padded_columns(columns)};
    if (skips) {
      add_all_key_sums<true>(product, lanes, count, columns);
    } else {
      add_all_key_sums<false>(product, lanes, count, columns);
    }
  };
  if (c.problem.grad_value.data != nullptr) {
    add(c.weights, {c.grad_rows, spread_columns(attention.value_dim)}, value_sums, attention.value_dim);
  }
  if (c.problem.grad_key.data != nullptr) {
    add(c.gradients, {c.query_rows, spread_columns(attention.head_dim)}, key_sums, attention.head_dim);
  }
}

// The sums so far of the block's rows of dQ, from rows to panels: so a row's bits do not depend on where chunks begin.
inline HWY_NOINLINE void load_query_sums(const BackwardContext& c) {
  const Strided<float>& sums = c.problem.query_sums;
  const Index dim = c.problem.attention.head_dim, stride = padded_columns(dim), batch = c.block.block.sequence->batch;
  float* const staging = c.query_rows;  // not in use yet
  for (Index first = 0; first < c.block.padded; first += kPanelLanes) {
    const Index width = std::min(kPanelLanes, c.block.padded - first);
    for (Index l = 0; l < width; l += 4) {
      const Index rows = std::min<Index>(4, width - l);
      for (Index r = 0; r < rows; ++r) {
        if (first + l + r < c.block.lanes) {
          const Lane lane = lane_at(c.block, first + l + r);
          load_row(sums.data, DType::kF32, sums.offset(batch, lane.head, lane.row, 0), sums.strides[3], dim,
                   staging + r * stride);
        } else {
          std::fill_n(staging + r * stride, dim, 0.0f);
        }
      }
      transpose_rows(staging, stride, rows, dim, c.query_sums + first * dim + l, width);
    }
  }
}

// And back.
inline HWY_NOINLINE void store_query_sums(const BackwardContext& c) {
  const Strided<float>& sums = c.problem.query_sums;
  const Strided<void> out{sums.data, DType::kF32, sums.strides};
  const Index dim = c.problem.attention.head_dim, stride = spread_columns(dim), batch = c.block.block.sequence->batch;
  float* const rows = c.query_rows;  // no longer needed
  for_each_panel(c.block, [&](auto vectors, Index first) HWY_ATTR {
    constexpr Index kWidth = vectors() * kN;
    for (Index t = 0; t < dim; t += 4) {
      transpose_rows(c.query_sums + first * dim + t * kWidth, kWidth, std::min<Index>(4, dim - t), kWidth, rows + t, stride);
    }
    for (Index l = 0; l < std::min(kWidth, c.block.lanes - first); ++l) {
      const Lane lane = lane_at(c.block, first + l);
      store_row(rows + l * stride, dim, 1.0f, out, out.offset(batch, lane.head, lane.row, 0));
    }
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
