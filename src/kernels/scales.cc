// Scales and zero points of groups: as many groups at a time as there are lanes.
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/scales.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"
#include "src/kernels/scales-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(kDI, bits)), d16,
               reinterpret_cast<std::uint16_t*>(out));
  } else {
    hn::StoreU(bits, kDU, reinterpret_cast<std::uint32_t*>(out));
  }
}

template <class Type, typename Bits>
ScaleFlags FindScalesOf(const FindScales& args) {
  MF any_overflow = hn::FirstN(kDF, 0);
  MF any_coarse = any_overflow;
  MF any_inverse = any_overflow;
  for (std::int64_t g = 0; g < args.groups; g += kLanes) {
    const std::int64_t n = args.groups - g < kLanes ? args.groups - g : kLanes;
    const bool full = n == kLanes;
    alignas(32) float padded[kLanes] = {};
    if (!full) CopyBytes(args.extreme + g, n * 4, padded);
    const VF extreme = hn::LoadU(kDF, full ? args.extreme + g : padded);
    const VectorScales scales = ScalesOf<Type, sizeof(Bits) * 8>(extreme, args);
    any_overflow = hn::Or(any_overflow, scales.overflow);
    any_coarse = hn::Or(any_coarse, scales.coarse);
    any_inverse = hn::Or(any_inverse, scales.inverse);
    StoreSome(scales.value, n, args.scales + g);
    StoreSome(scales.divisor, n, args.divisors + g);
    std::uint8_t* stored = args.stored + g * args.stored_stride;
    if (full && args.stored_stride == sizeof(Bits)) {
      StoreBits<Bits>(scales.bits, stored);
      continue;
    }
    alignas(32) std::uint8_t packed[kLanes * sizeof(Bits)];
    StoreBits<Bits>(scales.bits, packed);
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

PITH_EXPORT(FindScalesImpl);
PITH_EXPORT(FindZeroPointsImpl);

ScaleFlags find_scales(const FindScales& args) noexcept {
  return PITH_DISPATCH(FindScalesImpl)(args);
}

void find_zero_points(const FindZeroPoints& args) noexcept {
  PITH_DISPATCH(FindZeroPointsImpl)(args);
}

}  // namespace pith::kernels
#endif
