// The codes of a block of 32 values, stored. Included once per target.
#if defined(PITH_KERNELS_BLOCK_CODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_BLOCK_CODER_INL_H_
#undef PITH_KERNELS_BLOCK_CODER_INL_H_
#else
#define PITH_KERNELS_BLOCK_CODER_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/kernels/codes-inl.h"
#include "src/kernels/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// Values that are scanned or encoded at a time.
constexpr std::int64_t kBlock = 32;

template <Packing kPackingOf, bool kLimit>
struct BlockCoder {
  static constexpr Packing kPacking = kPackingOf;
  // Codes of ordinary blocks of Q4_0 are at most a step outside: bytes hold them. Others
  // that are limited have ties there, which are none once their values are limited.
  static constexpr bool kLimitBytes = kLimit && kPacking == Packing::kInt4Halves;
  static constexpr bool kLimitValues = kLimit && !kLimitBytes;
  static constexpr bool kNibbles = kPacking != Packing::kInt8;

  const EncodeGroups& args;
  std::int8_t* bytes;  // or null
  FastLimits<kNibbles> limits;
  V8 low_byte;  // in registers: a store of codes could change what is behind a reference
  V8 high_byte;
  std::uint64_t saturated = 0;  // if there are bytes

  HWY_INLINE explicit BlockCoder(const QuantizeGroups& groups)
      : args(groups.codes),
        bytes(kPacking == Packing::kInt8 ? nullptr : groups.bytes),
        limits(args.low, args.high),
        low_byte(hn::Set(kD8, static_cast<std::int8_t>(args.low))),
        high_byte(hn::Set(kD8, static_cast<std::int8_t>(args.high))) {}

  // Mixed codes.
  HWY_INLINE V8 Step(const float* values, VF factor, const float* divisor) {
    V8 codes;
    if (HWY_LIKELY((FastCodes<kLimitValues, kNibbles>(values, factor, limits, codes)))) {
      if constexpr (kLimitBytes) {
        const V8 limited = hn::Min(hn::Max(codes, low_byte), high_byte);
        if (bytes != nullptr) {
          saturated += hn::CountTrue(kD8, hn::Ne(codes, limited));
        }
        codes = limited;
      }
      return codes;
    }
    const CodeRule rule = {*divisor,   0,        false,     args.inverse,
                           args.limit, args.low, args.high, args.rounding};
    if constexpr (kLimitBytes) {
      if (bytes != nullptr) saturated += CountSaturatedStep(rule, values);
    }
    return ExactCodes(rule, values);
  }

  static HWY_NOINLINE std::uint64_t CountSaturatedStep(const CodeRule& rule,
                                                       const float* values) {
    VI ones = hn::Zero(kDI);
    for (std::int64_t i = 0; i < kStep; i += kLanes) {
      ones = hn::Add(ones, rule.inverse ? Saturated<true, false>(rule, values + i)
                                        : Saturated<false, false>(rule, values + i));
    }
    return static_cast<std::uint64_t>(-hn::GetLane(hn::SumOfLanes(kDI, ones)));
  }

  // The codes of kBlock values.
  template <bool kStream>
  HWY_INLINE void Encode(const float* values, VF factor, const float* divisor,
                         std::uint8_t* out) {
    V8 codes[kBlock / kStep];
    for (std::int64_t i = 0; i < kBlock / kStep; ++i) {
      codes[i] = Step(values + i * kStep, factor, divisor);
    }
    if (kPacking != Packing::kInt8 && bytes != nullptr) {
      for (std::int64_t i = 0; i < kBlock / kStep; ++i) {
        hn::StoreU(Order(codes[i]), kD8, bytes + (values - args.in.values) + i * kStep);
      }
    }
    if constexpr (kPacking == Packing::kInt4Halves) {
      StoreHalves(codes, out);
      return;
    }
    for (std::int64_t i = 0; i < kBlock / kStep; ++i) {
      if constexpr (kPacking == Packing::kInt4) {
        StoreInt4(codes[i], out + i * kStep / 2);
      } else if constexpr (kStream) {
        hn::Stream(Order(codes[i]), kD8, reinterpret_cast<std::int8_t*>(out + i * kStep));
      } else {
        hn::StoreU(Order(codes[i]), kD8, reinterpret_cast<std::int8_t*>(out + i * kStep));
      }
    }
  }
};

// Integers of numbers that fit, and two vectors of them as bytes, each half of vectors by
// itself: ConvertTo() mends what does not fit, and Highway 1.0 packs wider lanes only.
template <class V>
HWY_INLINE VI Truncated(V v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return VI{_mm256_cvttps_epi32(v.raw)};
#elif HWY_TARGET == HWY_SSE4
  return VI{_mm_cvttps_epi32(v.raw)};
#else
  return hn::ConvertTo(kDI, v);
#endif
}
template <class V>
HWY_INLINE V8 PackBytes(V low, V high) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return V8{_mm256_packs_epi16(low.raw, high.raw)};
#elif HWY_TARGET == HWY_SSE4
  return V8{_mm_packs_epi16(low.raw, high.raw)};
#else
  constexpr hn::Half<D8> half;
  return hn::Combine(kD8, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
#endif
}

// Bytes of a definition that multiplies, rounds halves away from zero and stays inside: it
// is as fast as what stands in for a division, and has no doubts.
struct ProductCoder {
  static constexpr Packing kPacking = Packing::kInt8;

  static constexpr std::int8_t* bytes = nullptr;
  static constexpr std::uint64_t saturated = 0;
  VF half = Fixed(hn::Set(kDF, 0.49999997F));
  VF sign = Fixed(hn::Set(kDF, -0.0F));

  HWY_INLINE explicit ProductCoder(const QuantizeGroups&) {}

  static HWY_INLINE bool Knows(const EncodeGroups& args) {
    return args.packing == Packing::kInt8 && args.inverse && !args.limit &&
           args.rounding == Rounding::kHalfAway;
  }

  // As RoundToInteger().
  HWY_INLINE VI Code(VF value, VF factor) const {
    const VF t = hn::Mul(value, factor);
    return Truncated(hn::Add(t, hn::Or(half, hn::And(t, sign))));
  }

  // The bytes of four vectors of codes, in their order.
  static HWY_INLINE V8 Packed(VI a, VI b, VI c, VI d) {
    constexpr hn::Repartition<std::int16_t, DF> d16;
    const V8 codes =
        PackBytes(hn::ReorderDemote2To(d16, a, b), hn::ReorderDemote2To(d16, c, d));
    if constexpr (kLanes == 8) {  // each half of the vectors by itself
      alignas(32) static constexpr std::int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
      return hn::BitCast(kD8, hn::TableLookupLanes(hn::BitCast(kDI, codes),
                                                   hn::SetTableIndices(kDI, kOrder)));
    } else {
      return codes;
    }
  }

  template <bool kStream>
  HWY_INLINE void Encode(const float* values, VF factor, const float*,
                         std::uint8_t* out) const {
    const auto code = [&](std::int64_t i)
                          HWY_ATTR { return Code(hn::LoadU(kDF, values + i), factor); };
    for (std::int64_t i = 0; i < kBlock; i += kStep) {
      const V8 codes =
          Packed(code(i), code(i + kLanes), code(i + 2 * kLanes), code(i + 3 * kLanes));
      hn::StoreU(codes, kD8, reinterpret_cast<std::int8_t*>(out + i));
    }
  }
};

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_BLOCK_CODER_INL_H_
