// 2^x and tanh on vectors, for one Highway target. Included once per target by the kernels.
#if defined(MULTIHEAD_KERNELS_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_EXP2_INL_H_
#undef MULTIHEAD_KERNELS_EXP2_INL_H_
#else
#define MULTIHEAD_KERNELS_EXP2_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Vec = hn::Vec<FloatTag>;
inline constexpr FloatTag kTag;
inline constexpr std::size_t kLanes = hn::MaxLanes(kTag);

// max(low, x), except that a NaN in x stays NaN. x86's own maximum returns its second operand then; elsewhere a select is
// safer.
template <typename D>
HWY_INLINE hn::Vec<D> at_least(D d, float low, hn::Vec<D> x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(hn::Set(d, low), x);
#else
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#endif
}

// 2^x, relative error below 1e-7 for -126 <= x < 127; exactly 0 below -126.5, so that a masked score of -inf has weight 0;
// exactly 1 at 0; NaN stays NaN. Adding 1.5 * 2^23 rounds x to an integer n in the low bits of the sum; the 127 makes them the
// exponent field of 2^n. f = x - n lies in [-1/2, 1/2], where the minimax polynomial of degree 6 is off by 2.6e-9; the first
// coefficient is forced to 1 so that 2^0 = 1. Multiplying by 2^n, instead of adding to the exponent, keeps NaN a NaN and lets
// the smallest n = -127 (exponent field 0) flush to 0 without a select.
template <typename D>
HWY_INLINE hn::Vec<D> exp2(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> bits;
  x = at_least(d, -127.0f, x);
  const auto magic = hn::Set(d, 12582912.0f + 127.0f);
  const auto shifted = hn::Add(x, magic);
  const auto f = hn::Sub(x, hn::Sub(shifted, magic));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  auto p = hn::Set(d, 0.000153458139f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133999309f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961848907f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555032864f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226462f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147182f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::Mul(p, power);
}

HWY_INLINE Vec exp2(Vec x) { return exp2(kTag, x); }

// tanh(x), relative error below 2e-7, NaN stays NaN. Near 0 an odd polynomial (minimax in x^2 on |x| <= 0.625, 4e-9), because
// 1 - e would cancel there and a softcap multiplies the error by its cap; elsewhere (1 - e) / (1 + e), e = exp(-2 |x|).
HWY_INLINE Vec tanh(Vec x) {
  const Vec magnitude = hn::Abs(x);
  const Vec z = hn::Mul(x, x);
  Vec q = hn::Set(kTag, -0.005659989081f);
  q = hn::MulAdd(q, z, hn::Set(kTag, 0.02059098892f));
  q = hn::MulAdd(q, z, hn::Set(kTag, -0.05372106656f));
  q = hn::MulAdd(q, z, hn::Set(kTag, 0.1333112717f));
  q = hn::MulAdd(q, z, hn::Set(kTag, -0.3333325982f));
  const Vec near_zero = hn::MulAdd(hn::Mul(q, z), x, x);
  const Vec e = exp2(hn::Mul(magnitude, hn::Set(kTag, -2.885390082f)));  // -2 log2(e)
  const Vec one = hn::Set(kTag, 1.0f);
  const Vec elsewhere = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(kTag, 0.625f)), elsewhere, near_zero);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
