// Scales and zero points of groups: as many groups at a time as there are lanes.
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/scales.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;
constexpr DU kDU;

// A type that scales are stored in. Bits() rounds to nearest even; only of values that
// do not overflow. Value() is exact.
struct F32 {
  static constexpr float kSmallestNormal = 0x1p-126F;
  static constexpr float kOverflow = std::numeric_limits<float>::infinity();
  static HWY_INLINE VU Bits(VF v) { return hn::BitCast(kDU, v); }
  static HWY_INLINE VF Value(VU bits) { return hn::BitCast(kDF, bits); }
};

struct F16 {
  static constexpr float kSmallestNormal = 0x1p-14F;
  static constexpr float kOverflow = 65520;
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
    constexpr hn::RebindToSigned<DF> di;
    const VU sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(kDU, 0x8000u)));
    const VU m = hn::And(bits, hn::Set(kDU, 0x7fffu));
    const VF normal =
        hn::BitCast(kDF, hn::Add(hn::ShiftLeft<13>(m), hn::Set(kDU, 112u << 23)));
    const VF subnormal =
        hn::Mul(hn::ConvertTo(kDF, hn::BitCast(di, m)), hn::Set(kDF, 0x1p-24F));
    const auto is_subnormal = hn::Lt(m, hn::Set(kDU, 0x400u));
    const VF magnitude =
        hn::IfThenElse(hn::RebindMask(kDF, is_subnormal), subnormal, normal);
    return hn::Or(magnitude, hn::BitCast(kDF, sign));
  }
};

struct BF16 {
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
};

HWY_INLINE void CopyBytes(const void* from, std::int64_t bytes, void* to) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

HWY_INLINE void StoreSome(VF v, std::int64_t n, float* out) {
  if (n == kLanes) {
    hn::StoreU(v, kDF, out);
    return;
  }
  alignas(32) float all[kLanes];
  hn::Store(v, kDF, all);
  CopyBytes(all, n * 4, out);
}

// The bits of all lanes, as 2 or 4 bytes each.
template <typename Bits>
HWY_INLINE void StoreBits(VU bits, std::uint8_t* out) {
  if constexpr (sizeof(Bits) == 2) {
    constexpr hn::Rebind<std::uint16_t, DF> d16;
    constexpr hn::RebindToSigned<DF> di;
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, bits)), d16,
               reinterpret_cast<std::uint16_t*>(out));
  } else {
    hn::StoreU(bits, kDU, reinterpret_cast<std::uint32_t*>(out));
  }
}

template <class Type, typename Bits>
ScaleFlags FindScalesOf(const FindScales& args) {
  const VF zero = hn::Zero(kDF);
  const VF infinity = hn::Set(kDF, std::numeric_limits<float>::infinity());
  const VF denominator = hn::Set(kDF, args.denominator);
  const VF reach = hn::Set(kDF, args.reach);
  const VF zero_scale = hn::Set(kDF, args.zero_scale);
  const bool inverse = args.coding == Coding::kInverse;
  const bool raise = sizeof(Bits) == 2 && !inverse;
  auto any_overflow = hn::FirstN(kDF, 0);
  auto any_coarse = any_overflow;
  auto any_inverse = any_overflow;
  for (std::int64_t g = 0; g < args.groups; g += kLanes) {
    const std::int64_t n = args.groups - g < kLanes ? args.groups - g : kLanes;
    const bool full = n == kLanes;
    alignas(32) float padded[kLanes] = {};
    if (!full) CopyBytes(args.extreme + g, n * 4, padded);
    const VF extreme = hn::LoadU(kDF, full ? args.extreme + g : padded);
    const VF exact = hn::Div(extreme, denominator);
    const auto overflow = hn::Ge(hn::Abs(exact), hn::Set(kDF, Type::kOverflow));
    any_overflow = hn::Or(any_overflow, overflow);
    VU bits = Type::Bits(exact);
    VF value = Type::Value(bits);
    const auto coarse =
        hn::AndNot(hn::Eq(extreme, zero),
                   hn::Lt(hn::Abs(value), hn::Set(kDF, Type::kSmallestNormal)));
    any_coarse = hn::Or(any_coarse, coarse);
    if (raise) {
      const auto low =
          hn::And(coarse, hn::Lt(hn::Mul(hn::Abs(value), reach), hn::Abs(extreme)));
      bits =
          hn::IfThenElse(hn::RebindMask(kDU, low), hn::Add(bits, hn::Set(kDU, 1u)), bits);
      value = Type::Value(bits);
    }
    const auto is_zero = hn::Eq(value, zero);
    VF divisor = value;
    if (args.coding == Coding::kExact) divisor = hn::IfThenElse(coarse, value, exact);
    divisor = hn::IfThenElse(is_zero, infinity, divisor);
    if (inverse) {
      const VF quotient = hn::Div(hn::Set(kDF, 1.0F), exact);
      const auto infinite = hn::Eq(hn::Abs(quotient), infinity);
      any_inverse = hn::Or(any_inverse, hn::AndNot(hn::Eq(exact, zero), infinite));
      divisor = hn::IfThenZeroElse(infinite, quotient);
    }
    if (args.zero_scale != 0) {
      value = hn::IfThenElse(is_zero, zero_scale, value);
      bits = hn::IfThenElse(hn::RebindMask(kDU, is_zero), Type::Bits(zero_scale), bits);
    }
    value = hn::IfThenElse(overflow, infinity, value);
    StoreSome(value, n, args.scales + g);
    StoreSome(divisor, n, args.divisors + g);
    std::uint8_t* stored = args.stored + g * args.stored_stride;
    if (full && args.stored_stride == sizeof(Bits)) {
      StoreBits<Bits>(bits, stored);
      continue;
    }
    alignas(32) std::uint8_t packed[kLanes * sizeof(Bits)];
    StoreBits<Bits>(bits, packed);
    for (std::int64_t i = 0; i < n; ++i) {
      std::memcpy(stored + i * args.stored_stride,
                  packed + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
    }
  }
  ScaleFlags flags;
  flags.overflow = !hn::AllFalse(kDF, any_overflow);
  flags.coarse = !hn::AllFalse(kDF, any_coarse);
  flags.inverse = !hn::AllFalse(kDF, any_inverse);
  return flags;
}

ScaleFlags FindScalesImpl(const FindScales& args) {
  switch (args.type) {
    case DType::kF16:
      return FindScalesOf<F16, std::uint16_t>(args);
    case DType::kBF16:
      return FindScalesOf<BF16, std::uint16_t>(args);
    default:
      return FindScalesOf<F32, std::uint32_t>(args);
  }
}

template <Rounding kRounding>
void FindZeroPointsOf(const FindZeroPoints& args) {
  const VF low = hn::Set(kDF, static_cast<float>(args.low));
  const VF high = hn::Set(kDF, static_cast<float>(args.high));
  for (std::int64_t g = 0; g < args.groups; g += kLanes) {
    const std::int64_t n = args.groups - g < kLanes ? args.groups - g : kLanes;
    alignas(32) float smallest[kLanes] = {};
    alignas(32) float divisors[kLanes] = {};
    std::memcpy(smallest, args.smallest + g, static_cast<std::size_t>(n) * sizeof(float));
    std::memcpy(divisors, args.divisors + g, static_cast<std::size_t>(n) * sizeof(float));
    for (std::int64_t i = n; i < kLanes; ++i) divisors[i] = 1;
    const VF t = hn::Sub(low, hn::Div(hn::Load(kDF, smallest), hn::Load(kDF, divisors)));
    const VF limited = hn::Min(hn::Max(t, low), high);
    alignas(32) float rounded[kLanes];
    hn::Store(RoundToInteger<kRounding>(limited, args.high), kDF, rounded);
    for (std::int64_t i = 0; i < n; ++i) {
      args.zero_points[g + i] = rounded[i];
      args.stored[g + i] = static_cast<std::int8_t>(rounded[i]);
    }
  }
}

void FindZeroPointsImpl(const FindZeroPoints& args) {
  if (args.rounding == Rounding::kHalfEven) {
    FindZeroPointsOf<Rounding::kHalfEven>(args);
  } else {
    FindZeroPointsOf<Rounding::kHalfAway>(args);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(FindScalesImpl);
HWY_EXPORT(FindZeroPointsImpl);

ScaleFlags find_scales(const FindScales& args) noexcept {
  return PITH_DISPATCH(FindScalesImpl)(args);
}

void find_zero_points(const FindZeroPoints& args) noexcept {
  PITH_DISPATCH(FindZeroPointsImpl)(args);
}

}  // namespace pith::kernels
#endif
