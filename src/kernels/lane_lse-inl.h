// From scores to coefficients, given the lse of every lane, for one Highway target.
#if defined(MULTIHEAD_KERNELS_LANE_LSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_LANE_LSE_INL_H_
#undef MULTIHEAD_KERNELS_LANE_LSE_INL_H_
#else
#define MULTIHEAD_KERNELS_LANE_LSE_INL_H_
#endif

#include "kernels/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

// The lse of a block's lanes in log2 units, as high + low f32 parts. One f32 would be off by half a unit in its last place,
// 2e-6 for an lse of 32, and every coefficient by that factor, those near 1 too. A score next to the high part is subtracted
// exactly.
class LaneLse {
 public:
  // Padding lanes get +inf: their coefficients are then 0.
  HWY_INLINE LaneLse(const BlockContext& c, const double* lse) {
    for (Index l = 0; l < c.lanes; ++l) {
      const double log2 = lse[l] * kLog2E;
      high_[l] = static_cast<float>(log2);
      low_[l] = std::isfinite(high_[l]) ? static_cast<float>(log2 - static_cast<double>(high_[l])) : 0.0f;
    }
    std::fill_n(high_ + c.lanes, c.padded - c.lanes, std::numeric_limits<float>::infinity());
    std::fill_n(low_ + c.lanes, c.padded - c.lanes, 0.0f);
  }

  // log2 p = score - lse of the lanes from `lane` on; a score of -inf stays that, whatever lse is: with an lse of -inf, too,
  // there is nothing to see.
  HWY_INLINE Vec log2_of(Vec score, Index lane) const {
    const Vec below = hn::Sub(hn::Sub(score, hn::Load(kTag, high_ + lane)), hn::Load(kTag, low_ + lane));
    return hn::IfThenElse(hn::Eq(score, hn::Set(kTag, kMinusInfinity)), score, below);
  }

 private:
  HWY_ALIGN float high_[kBlockLanes];
  HWY_ALIGN float low_[kBlockLanes];
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
