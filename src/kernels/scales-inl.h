// Scales of a vector of groups. Included once per target.
#if defined(PITH_KERNELS_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_SCALES_INL_H_
#undef PITH_KERNELS_SCALES_INL_H_
#else
#define PITH_KERNELS_SCALES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A type that scales are stored in. Bits() rounds to nearest even; only of values that
// do not overflow. Value() is exact. Store() leaves the bits of a vector one after the
// other, and returns their values.
struct F32 {
  using Stored = std::uint32_t;
  static constexpr float kSmallestNormal = 0x1p-126F;
  static constexpr float kOverflow = std::numeric_limits<float>::infinity();
  static HWY_INLINE VU Bits(VF v) { return hn::BitCast(kDU, v); }
  static HWY_INLINE VF Value(VU bits) { return hn::BitCast(kDF, bits); }
  static HWY_INLINE VF Store(VF v, Stored* bits) {
    hn::Store(hn::BitCast(kDU, v), kDU, bits);
    return v;
  }
};

// Store() of a type of 16 bits.
template <class Type>
HWY_INLINE VF StoreRounded(VF v, std::uint16_t* out) {
  constexpr hn::Rebind<std::uint16_t, DF> d16;
  const VU bits = Type::Bits(v);
  hn::Store(hn::DemoteTo(d16, hn::BitCast(kDI, bits)), d16, out);
  return Type::Value(bits);
}

struct F16 {
  using Stored = std::uint16_t;
  static constexpr float kSmallestNormal = 0x1p-14F;
  static constexpr float kOverflow = 65520;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  static HWY_INLINE VU Bits(VF v) {
    constexpr hn::Rebind<hwy::float16_t, DF> half;
    constexpr hn::Rebind<std::uint16_t, DF> bits;
    return hn::PromoteTo(kDU, hn::BitCast(bits, hn::DemoteTo(half, v)));
  }
  static HWY_INLINE VF Value(VU bits) {
    constexpr hn::Rebind<hwy::float16_t, DF> half;
    constexpr hn::Rebind<std::uint16_t, DF> d16;
    return hn::PromoteTo(kDF,
                         hn::BitCast(half, hn::DemoteTo(d16, hn::BitCast(kDI, bits))));
  }
  static HWY_INLINE VF Store(VF v, Stored* bits) {
    constexpr hn::Rebind<hwy::float16_t, DF> half;
    constexpr hn::Rebind<std::uint16_t, DF> d16;
    const auto rounded = hn::DemoteTo(half, v);
    hn::Store(hn::BitCast(d16, rounded), d16, bits);
    return hn::PromoteTo(kDF, rounded);
  }
#else
  static HWY_INLINE VU Bits(VF v) {
    const VU bits = hn::BitCast(kDU, v);
    const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(kDU, 0x8000u));
    const VF magnitude = hn::Abs(v);
    const VU m = hn::BitCast(kDU, magnitude);
    // Half of the last place, less one if that is even, carries into it.
    const VU odd = hn::And(hn::ShiftRight<13>(m), hn::Set(kDU, 1u));
    const VU normal = hn::ShiftRight<13>(hn::Sub(
        hn::Add(m, hn::Add(odd, hn::Set(kDU, 0xfffu))), hn::Set(kDU, 112u << 23)));
    // The last place of 0.5 is 2^-24, the step of subnormal numbers.
    const VU subnormal = hn::Sub(hn::BitCast(kDU, hn::Add(magnitude, hn::Set(kDF, 0.5F))),
                                 hn::Set(kDU, 0x3f000000u));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(kDF, kSmallestNormal));
    return hn::Or(sign,
                  hn::IfThenElse(hn::RebindMask(kDU, is_subnormal), subnormal, normal));
  }
  static HWY_INLINE VF Value(VU bits) {
    const VU sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(kDU, 0x8000u)));
    const VU m = hn::And(bits, hn::Set(kDU, 0x7fffu));
    const VF normal =
        hn::BitCast(kDF, hn::Add(hn::ShiftLeft<13>(m), hn::Set(kDU, 112u << 23)));
    const VF subnormal =
        hn::Mul(hn::ConvertTo(kDF, hn::BitCast(kDI, m)), hn::Set(kDF, 0x1p-24F));
    const auto is_subnormal = hn::Lt(m, hn::Set(kDU, 0x400u));
    const VF magnitude =
        hn::IfThenElse(hn::RebindMask(kDF, is_subnormal), subnormal, normal);
    return hn::Or(magnitude, hn::BitCast(kDF, sign));
  }
  static HWY_INLINE VF Store(VF v, Stored* bits) { return StoreRounded<F16>(v, bits); }
#endif
};

struct BF16 {
  using Stored = std::uint16_t;
  static constexpr float kSmallestNormal = 0x1p-126F;
  static constexpr float kOverflow = 0x1.ffp127F;
  static HWY_INLINE VU Bits(VF v) {
    const VU bits = hn::BitCast(kDU, v);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kDU, 1u));
    return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(kDU, 0x7fffu))));
  }
  static HWY_INLINE VF Value(VU bits) {
    return hn::BitCast(kDF, hn::ShiftLeft<16>(bits));
  }
  static HWY_INLINE VF Store(VF v, Stored* bits) { return StoreRounded<BF16>(v, bits); }
};

using MF = hn::Mask<DF>;

// find_scales() of some groups.
struct VectorScales {
  VF value;    // as stored, in f32
  VF divisor;  // what values are divided by or multiplied with
  VU bits;     // as stored
  MF overflow;
  MF coarse;
  MF inverse;  // 1 / scale is infinite
};

// kBits: of the type. The scale of a group that overflows is infinite in `value` alone.
template <class Type, int kBits>
HWY_INLINE VectorScales ScalesOf(VF extreme, const FindScales& args) {
  const VF zero = hn::Zero(kDF);
  const VF infinity = hn::Set(kDF, std::numeric_limits<float>::infinity());
  const bool inverse = args.coding == Coding::kInverse;
  VectorScales s;
  const VF exact = hn::Div(extreme, hn::Set(kDF, args.denominator));
  s.overflow = hn::Ge(hn::Abs(exact), hn::Set(kDF, Type::kOverflow));
  s.bits = Type::Bits(exact);
  s.value = Type::Value(s.bits);
  s.coarse = hn::AndNot(hn::Eq(extreme, zero),
                        hn::Lt(hn::Abs(s.value), hn::Set(kDF, Type::kSmallestNormal)));
  if (kBits == 16 && !inverse) {
    const VF reached = hn::Mul(hn::Abs(s.value), hn::Set(kDF, args.reach));
    const MF low = hn::And(s.coarse, hn::Lt(reached, hn::Abs(extreme)));
    s.bits = hn::IfThenElse(hn::RebindMask(kDU, low), hn::Add(s.bits, hn::Set(kDU, 1u)),
                            s.bits);
    s.value = Type::Value(s.bits);
  }
  const MF is_zero = hn::Eq(s.value, zero);
  s.divisor = s.value;
  if (args.coding == Coding::kExact) {
    s.divisor = hn::IfThenElse(s.coarse, s.value, exact);
  }
  s.divisor = hn::IfThenElse(is_zero, infinity, s.divisor);
  s.inverse = hn::Lt(zero, zero);
  if (inverse) {
    const VF quotient = hn::Div(hn::Set(kDF, 1.0F), exact);
    const MF infinite = hn::Eq(hn::Abs(quotient), infinity);
    s.inverse = hn::AndNot(hn::Eq(exact, zero), infinite);
    s.divisor = hn::IfThenZeroElse(infinite, quotient);
  }
  if (args.zero_scale != 0) {
    const VF zero_scale = hn::Set(kDF, args.zero_scale);
    s.value = hn::IfThenElse(is_zero, zero_scale, s.value);
    s.bits = hn::IfThenElse(hn::RebindMask(kDU, is_zero), Type::Bits(zero_scale), s.bits);
  }
  s.value = hn::IfThenElse(s.overflow, infinity, s.value);
  return s;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_SCALES_INL_H_
