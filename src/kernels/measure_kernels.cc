// The two limits that every speed is a fraction of, measured with the active target's own instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/measure_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "kernels/measure.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// As many independent chains of multiply-adds as the kernels' own tile has: enough to cover the latency.
double MultiplyAdd(Index rounds) {
  constexpr int kChains = kTileRows * kMaxVectors;
  Vec chain[kChains];
  const Vec a = hn::Set(kTag, 0.999f), b = hn::Set(kTag, 0.001f);
  HWY_UNROLL(32)
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(kTag, static_cast<float>(i));
  for (Index round = 0; round < rounds; ++round) {
    HWY_UNROLL(32)
    for (int i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(chain[i], a, b);
  }
  Vec sum = chain[0];
  HWY_UNROLL(32)
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  // Used, so that the loop stays; the value converges to b / (1 - a) and never overflows.
  if (hn::GetLane(sum) == -1.0f) return 0;
  return 2.0 * static_cast<double>(rounds) * kChains * static_cast<double>(kLanes);
}

float ReadAll(const float* data, Index count) {
  constexpr int kStreams = 8;
  constexpr Index kStep = kStreams * static_cast<Index>(kLanes);
  Vec sum[kStreams];
  HWY_UNROLL(8)
  for (int i = 0; i < kStreams; ++i) sum[i] = hn::Zero(kTag);
  for (Index at = 0; at + kStep <= count; at += kStep) {
    HWY_UNROLL(8)
    for (int i = 0; i < kStreams; ++i) sum[i] = hn::Add(sum[i], hn::LoadU(kTag, data + at + i * static_cast<Index>(kLanes)));
  }
  HWY_UNROLL(8)
  for (int i = 1; i < kStreams; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  return hn::GetLane(sum[0]);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(ReadAll);

double multiply_add(Index rounds) { return HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds); }

float read_all(const float* data, Index count) { return HWY_DYNAMIC_DISPATCH(ReadAll)(data, count); }

}  // namespace multihead::kernels
#endif  // HWY_ONCE
