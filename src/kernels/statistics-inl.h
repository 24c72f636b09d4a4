// Sums over the coefficients of a block, for one Highway target. A strip is what one panel has of one key block, [keys][lanes]:
// scores become coefficients in place, and everything else is a second look at the strip while it is in the cache. Sums over a
// strip are f32, sums over strips f64.
#if defined(MULTIHEAD_KERNELS_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_STATISTICS_INL_H_
#undef MULTIHEAD_KERNELS_STATISTICS_INL_H_
#else
#define MULTIHEAD_KERNELS_STATISTICS_INL_H_
#endif

#include "kernels/observe-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

struct Strip {
  Index first;  // lane
  Index width;
  TileKeys tile;
  const LaneLse& lse;  // of the block's lanes

  Index count() const { return tile.end - tile.begin; }
  Index row(Index key) const { return (key - tile.begin) * width; }
};

// Adds `count` f32 numbers to f64 ones; lanes beyond the block's are left out.
HWY_INLINE void add_lanes(const BlockContext& c, Index first, Vec sums, double* HWY_RESTRICT out) {
  HWY_ALIGN float each[kLanes];
  hn::Store(sums, kTag, each);
  for (Index l = 0; l < std::min(kN, c.lanes - first); ++l) out[first + l] += static_cast<double>(each[l]);
}

// The largest scores of the strip, with and without the sequence's first keys.
HWY_INLINE void update_maxima(const BlockContext& c, const Strip& strip, const float* maxima, const LaneSums& lanes) {
  const Index real = std::min(strip.width, c.lanes - strip.first);
  for (Index l = 0; l < real; ++l) {
    float& largest = lanes.largest[strip.first + l];
    largest = std::max(largest, maxima[l]);
    float rest = maxima[l];
    if (strip.tile.begin < kFrontKeys) {
      rest = kMinusInfinity;
      for (Index key = kFrontKeys; key < strip.tile.end; ++key) rest = std::max(rest, c.scores[strip.row(key) + l]);
    }
    float& largest_rest = lanes.largest_rest[strip.first + l];
    largest_rest = std::max(largest_rest, rest);
  }
}

// Scores to coefficients, in place, and the sums that need nothing else. kKeepLog: log2 p goes to the place of the addends.
template <bool kKeepLog>
HWY_NOINLINE void weigh_strip(const BlockContext& c, const Strip& strip, const LaneSums& lanes) {
  HWY_ALIGN float position[kPanelLanes];
  for (Index l = 0; l < strip.width; ++l) {
    position[l] = static_cast<float>(lane_at(c, strip.first + l).position - strip.tile.begin);
  }
  const Vec lowest = hn::Set(kTag, -1e30f);  // 0 * that is 0; 0 * -inf would be NaN
  for (Index v = 0; v < strip.width; v += kN) {
    const Vec where = hn::Load(kTag, position + v);
    Vec mass = hn::Zero(kTag), log2_mass = mass, squares = mass, distance = mass, j = mass;
    for (Index key = 0; key < strip.count(); ++key) {
      float* HWY_RESTRICT at = c.scores + key * strip.width + v;
      const Vec log2 = strip.lse.log2_of(hn::Load(kTag, at), strip.first + v);
      const Vec p = exp2(log2);
      hn::Store(p, kTag, at);
      if constexpr (kKeepLog) hn::Store(log2, kTag, c.addends + key * strip.width + v);
      mass = hn::Add(mass, p);
      log2_mass = hn::NegMulAdd(p, hn::Max(log2, lowest), log2_mass);
      squares = hn::MulAdd(p, p, squares);
      distance = hn::MulAdd(p, hn::Abs(hn::Sub(where, j)), distance);
      j = hn::Add(j, hn::Set(kTag, 1.0f));
    }
    add_lanes(c, strip.first + v, mass, lanes.mass);
    add_lanes(c, strip.first + v, log2_mass, lanes.log2_mass);
    add_lanes(c, strip.first + v, squares, lanes.squares);
    add_lanes(c, strip.first + v, distance, lanes.distance);
  }
}

// Single coefficients: of the first keys, and at given distances.
HWY_INLINE void pick(const BlockContext& c, const Strip& strip, const StatisticsInput& input, const LaneSums& lanes) {
  const Index real = std::min(strip.width, c.lanes - strip.first);
  for (Index key = strip.tile.begin; key < std::min<Index>(kFrontKeys, strip.tile.end); ++key) {
    std::copy_n(c.scores + strip.row(key), real, lanes.front[static_cast<std::size_t>(key)] + strip.first);
  }
  for (std::size_t n = 0; n < input.offsets.size(); ++n) {
    for (Index l = 0; l < real; ++l) {
      const Index key = lane_at(c, strip.first + l).position - input.offsets[n];
      if (key >= strip.tile.begin && key < strip.tile.end) lanes.at_offset[n][strip.first + l] = c.scores[strip.row(key) + l];
    }
  }
}

// Mass on keys that carry the lane's token, and on keys behind which it stands.
inline HWY_NOINLINE void match_tokens(const BlockContext& c, const Strip& strip, const StatisticsInput& input,
                                      const LaneSums& lanes) {
  HWY_ALIGN float token[kPanelLanes], position[kPanelLanes];
  for (Index l = 0; l < strip.width; ++l) {
    token[l] = input.query_token[std::min(strip.first + l, c.lanes - 1)];
    position[l] = static_cast<float>(lane_at(c, strip.first + l).position - strip.tile.begin);
  }
  for (Index v = 0; v < strip.width; v += kN) {
    const Vec mine = hn::Load(kTag, token + v), where = hn::Load(kTag, position + v);
    Vec duplicate = hn::Zero(kTag), induction = duplicate, j = duplicate;
    for (Index key = strip.tile.begin; key < strip.tile.end; ++key) {
      const Vec p = hn::Load(kTag, c.scores + strip.row(key) + v);
      const auto same = hn::And(hn::Eq(mine, hn::Set(kTag, input.key_token[key])), hn::Lt(j, where));
      duplicate = hn::Add(duplicate, hn::IfThenElseZero(same, p));
      if (key > 0) {
        const auto follows = hn::And(hn::Eq(mine, hn::Set(kTag, input.key_token[key - 1])), hn::Le(j, where));
        induction = hn::Add(induction, hn::IfThenElseZero(follows, p));
      }
      j = hn::Add(j, hn::Set(kTag, 1.0f));
    }
    add_lanes(c, strip.first + v, duplicate, lanes.duplicate);
    add_lanes(c, strip.first + v, induction, lanes.induction);
  }
}

// Sums over all panels of a block and one key block, before they go to f64.
struct SharedStrips {
  HWY_ALIGN float received[kKeyBlock * static_cast<Index>(kLanes)];
  HWY_ALIGN float diagonal[kKeyBlock + kBlockLanes + static_cast<Index>(kLanes)];  // element lane - key + kKeyBlock - 1
  // Pairs and mass of a bin in one number, pairs * 2^40 + sum of p * 2^(bin / 2 + 24): whole numbers, so one addition does both
  // and nothing is rounded but p itself, to 24 bits. One table a lane, so that equal bins of neighbours do not wait for each
  // other. Bin kLogBins: nothing to count.
  std::uint64_t bins[(kLogBins + 1) * static_cast<Index>(kLanes)];
};

HWY_INLINE void add_received(const BlockContext& c, const Strip& strip, float* HWY_RESTRICT received) {
  float* HWY_RESTRICT out = received + (strip.tile.begin - strip.tile.block_begin) * kN;
  for (Index key = 0; key < strip.count(); ++key) {
    Vec sum = hn::Load(kTag, out + key * kN);
    for (Index v = 0; v < strip.width; v += kN) sum = hn::Add(sum, hn::Load(kTag, c.scores + key * strip.width + v));
    hn::Store(sum, kTag, out + key * kN);
  }
}

// Keys go in steps of a vector, so that what is stored is not read again, shifted by one lane, before it has arrived.
HWY_INLINE void add_diagonals(const BlockContext& c, const Strip& strip, float* HWY_RESTRICT diagonal) {
  const Index skip = strip.tile.begin - strip.tile.block_begin;
  for (Index start = 0; start < std::min(kN, strip.count()); ++start) {
    for (Index key = start; key < strip.count(); key += kN) {
      float* HWY_RESTRICT out = diagonal + strip.first - (skip + key) + kKeyBlock - 1;
      for (Index v = 0; v < strip.width; v += kN) {
        const Vec p = hn::Load(kTag, c.scores + key * strip.width + v);
        hn::StoreU(hn::Add(hn::LoadU(kTag, out + v), p), kTag, out + v);
      }
    }
  }
}

inline HWY_NOINLINE void add_bins(const BlockContext& c, const Strip& strip, SharedStrips& sums) {
  const hn::RebindToSigned<FloatTag> integers;
  HWY_ALIGN std::int32_t bin[kLanes], part[kLanes];
  const Vec last = hn::Set(kTag, static_cast<float>(kLogBins - 1)), nothing = hn::Set(kTag, static_cast<float>(kLogBins));
  const Vec two = hn::Set(kTag, 2.0f), half = hn::Set(kTag, 0.5f), scale = hn::Set(kTag, 16777216.0f);
  for (Index at = 0; at < strip.count() * strip.width; at += kN) {
    const Vec log2 = hn::Load(kTag, c.addends + at);
    const Vec half_bits = hn::Mul(log2, hn::Set(kTag, -2.0f));
    const auto counts = hn::Gt(log2, hn::Set(kTag, kMinusInfinity));  // not for NaN either, which would be no index
    const Vec place = hn::Floor(hn::Min(hn::Max(half_bits, hn::Zero(kTag)), last));
    hn::Store(hn::ConvertTo(integers, hn::IfThenElse(counts, place, nothing)), integers, bin);
    // p * 2^(bin / 2) is at most 1, or little more for a p that rounding has brought above 1.
    const Vec relative = hn::Min(exp2(hn::MulAdd(place, half, log2)), two);
    hn::Store(hn::ConvertTo(integers, hn::IfThenElseZero(counts, hn::Mul(relative, scale))), integers, part);
    for (Index l = 0; l < kN; ++l) {
      sums.bins[bin[l] * kN + l] += (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(part[l]);
    }
  }
}

HWY_INLINE void flush(const BlockContext& c, Index begin, Index end, const SharedStrips& sums, const SharedSums& shared) {
  if (shared.received != nullptr) {
    for (Index key = begin; key < end; ++key) {
      const float* const lanes = sums.received + (key - begin / kKeyBlock * kKeyBlock) * kN;
      double sum = 0;
      for (Index l = 0; l < kN; ++l) sum += static_cast<double>(lanes[l]);
      shared.received[key] += sum;
    }
  }
  if (shared.at_distance != nullptr) {
    const Index block_begin = begin / kKeyBlock * kKeyBlock;
    const Index low = lane_at(c, 0).position - (end - 1), high = lane_at(c, c.lanes - 1).position - begin;
    const Index origin = lane_at(c, 0).position - block_begin - (kKeyBlock - 1);  // distance of element 0
    for (Index d = low; d <= high; ++d) shared.at_distance[d] += static_cast<double>(sums.diagonal[d - origin]);
  }
  if (shared.bin_mass != nullptr) {
    for (Index bin = 0; bin < kLogBins; ++bin) {
      const double unit = std::exp2(-0.5 * static_cast<double>(bin) - 24);
      std::uint64_t parts = 0;
      for (Index l = 0; l < kN; ++l) {
        const std::uint64_t both = sums.bins[bin * kN + l];
        shared.bin_pairs[bin] += static_cast<Index>(both >> 40);
        parts += both & ((std::uint64_t{1} << 40) - 1);
      }
      shared.bin_mass[bin] += static_cast<double>(parts) * unit;
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
