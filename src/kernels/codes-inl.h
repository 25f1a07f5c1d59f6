// The codes of a few values at a time: a step turns four vectors of values into a vector
// of bytes. Included once per target.
#if defined(PITH_KERNELS_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_CODES_INL_H_
#undef PITH_KERNELS_CODES_INL_H_
#else
#define PITH_KERNELS_CODES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::Repartition<std::int8_t, DF>;
using V8 = hn::Vec<D8>;
constexpr D8 kD8;
constexpr std::int64_t kStep = 4 * kLanes;  // values of a step, codes of a vector

// Added to a quotient t in (-128.5, 127.5), it leaves a number in [256, 512), whose last
// place is 2^-15: eight bits of code + 128, and 15 bits behind the point. The half of it
// makes the nearest integer of what is left when these are cut off. The last place of it
// is for ties; see FastCodes().
constexpr float kOffset = 384.5F + 0x1p-15F;
// The same for codes of 4 bits: a number in [128, 256) has 16 bits behind the point.
constexpr float kNibbleOffset = 192.5F + 0x1p-16F;

// Bits of sums with kOffset, once to the left: code + 128 in the third byte, below it what
// is behind the point. Those with kNibbleOffset have that, and code + 64, without.
HWY_INLINE VU Doubled(VF sum) {
  const VU bits = hn::BitCast(kDU, sum);
  return hn::Add(bits, bits);
}

// In pairs of bytes, what the sums of two vectors have that is not code: 128 in the third
// byte and 0x87 in the fourth, or 64 and 0x43.
using DPairs = hn::Repartition<std::uint16_t, DF>;
using VPairs = hn::Vec<DPairs>;
template <bool kNibbles>
HWY_INLINE VPairs CommonBytes() {
  return hn::Set(DPairs(), kNibbles ? std::uint16_t{(0x43 + 0x40) << 8 | 0x40}
                                    : std::uint16_t{(0x87 + 0x80 - 0x100) << 8 | 0x80});
}

// The codes of four vectors, from the bits of sums: those of lane i of a, c, b and d one
// after the other.
HWY_INLINE V8 Mix(VU a, VU b, VU c, VU d, VPairs common) {
  constexpr DPairs d16;
  const auto ab =
      hn::OddEven(hn::BitCast(d16, b), hn::BitCast(d16, hn::ShiftRight<16>(a)));
  const auto cd =
      hn::OddEven(hn::BitCast(d16, d), hn::BitCast(d16, hn::ShiftRight<16>(c)));
  const auto mixed = hn::Add(ab, hn::ShiftLeft<8>(cd));
  return hn::Sub(hn::BitCast(kD8, mixed), hn::BitCast(kD8, common));
}

// Mixed codes in the order of their values.
HWY_INLINE V8 Order(V8 mixed) {
  alignas(16) static constexpr std::int8_t kGather[16] = {0, 4, 8, 12, 2, 6, 10, 14,
                                                          1, 5, 9, 13, 3, 7, 11, 15};
  const V8 gathered = hn::TableLookupBytes(mixed, hn::LoadDup128(kD8, kGather));
  if constexpr (kLanes == 8) {
    alignas(32) static constexpr std::int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return hn::BitCast(kD8, hn::TableLookupLanes(hn::BitCast(kDI, gathered),
                                                 hn::SetTableIndices(kDI, kOrder)));
  } else {
    return gathered;
  }
}

// ---- codes by their definition

// What all values of a group have in common.
struct CodeRule {
  float divisor;
  float zero_point;
  bool has_zero_point;
  bool inverse;
  bool limit;
  int low;
  int high;
  Rounding rounding;
};

template <Rounding kRounding, bool kInverse, bool kLimit, bool kZeroPoint>
struct Coder {
  static HWY_INLINE VF Steps(VF v, const CodeRule& rule) {
    const VF divisor = hn::Set(kDF, rule.divisor);
    VF t = kInverse ? hn::Mul(v, divisor) : hn::Div(v, divisor);
    if constexpr (kZeroPoint) t = hn::Add(t, hn::Set(kDF, rule.zero_point));
    return t;
  }

  // A code in doubled sums.
  static HWY_INLINE VU Code(const float* values, const CodeRule& rule) {
    VF t = Steps(hn::LoadU(kDF, values), rule);
    if constexpr (kLimit) {
      t = hn::Max(t, hn::Set(kDF, static_cast<float>(rule.low)));
      t = hn::Min(t, hn::Set(kDF, static_cast<float>(rule.high)));
    }
    t = RoundToInteger<kRounding>(t, rule.high);
    return Doubled(hn::Add(t, hn::Set(kDF, kOffset)));
  }

  static HWY_INLINE V8 Codes(const float* values, const CodeRule& rule) {
    return Mix(Code(values, rule), Code(values + kLanes, rule),
               Code(values + 2 * kLanes, rule), Code(values + 3 * kLanes, rule),
               CommonBytes<false>());
  }
};

template <bool kInverse, bool kLimit, bool kZeroPoint>
HWY_INLINE V8 CodesByRounding(const CodeRule& rule, const float* values) {
  switch (rule.rounding) {
    case Rounding::kHalfAway:
      return Coder<Rounding::kHalfAway, kInverse, kLimit, kZeroPoint>::Codes(values,
                                                                             rule);
    case Rounding::kHalfEven:
      return Coder<Rounding::kHalfEven, kInverse, kLimit, kZeroPoint>::Codes(values,
                                                                             rule);
    case Rounding::kHalfUp:
      return Coder<Rounding::kHalfUp, kInverse, kLimit, kZeroPoint>::Codes(values, rule);
  }
  return hn::Zero(kD8);
}

// The codes of kStep values of a group, mixed.
inline HWY_NOINLINE V8 ExactCodes(const CodeRule& rule, const float* values) {
  if (rule.has_zero_point) return CodesByRounding<false, true, true>(rule, values);
  if (rule.inverse) {
    return rule.limit ? CodesByRounding<true, true, false>(rule, values)
                      : CodesByRounding<true, false, false>(rule, values);
  }
  return rule.limit ? CodesByRounding<false, true, false>(rule, values)
                    : CodesByRounding<false, false, false>(rule, values);
}

// Of kLanes values, -1 for each that is more than half a step outside. kHalfAway: the
// rounding does not matter.
template <bool kInverse, bool kZeroPoint>
HWY_INLINE VI Saturated(const CodeRule& rule, const float* values) {
  using Any = Coder<Rounding::kHalfAway, kInverse, true, kZeroPoint>;
  const VF t = Any::Steps(hn::LoadU(kDF, values), rule);
  const VF above = hn::Set(kDF, static_cast<float>(rule.high) + 0.5F);
  const VF below = hn::Set(kDF, static_cast<float>(rule.low) - 0.5F);
  return hn::VecFromMask(kDI,
                         hn::RebindMask(kDI, hn::Or(hn::Gt(t, above), hn::Lt(t, below))));
}

// ---- the same codes without division

// Values are multiplied with 1 / divisor instead, which serves as long as it is 0 or
// between these.
constexpr float kSmallestFactor = 0x1p-100F;
constexpr float kLargestFactor = 0x1p100F;

template <bool kNibbles>
struct FastLimits {
  static constexpr float kOffsetOf = kNibbles ? kNibbleOffset : kOffset;

  VF low;  // limits of codes, with the offset in them
  VF high;
  VPairs common = Fixed(CommonBytes<kNibbles>());

  HWY_INLINE FastLimits(int smallest, int largest)
      : low(hn::Set(kDF, kOffsetOf + static_cast<float>(smallest))),
        high(hn::Set(kDF, kOffsetOf + static_cast<float>(largest))) {}
};

// Mixed codes; kNibbles: of 4 bits, or at most some steps outside. False if the
// definition has to decide, as the nearest integer is in doubt. A sum differs from what
// the definition rounds, and the offset, by less than 1.3 units of its last place: half of
// one by its own rounding, a quarter each by those of the factor, the product (where it is
// rounded) and the quotient of the definition, 2^-5 by the sum of half_up; less of codes
// of 4 bits, whose quotients are smaller. So a quotient halfway between two integers,
// whose sum would be one place above an integer if it were exact, has 0, 1 or 2 behind the
// point; and with any other number there, a sum is on the same side of that integer as the
// definition's.
template <bool kLimit, bool kNibbles>
HWY_INLINE bool FastCodes(const float* values, VF factor,
                          const FastLimits<kNibbles>& limits, V8& codes) {
  constexpr DPairs d16;
  const VF offset = hn::Set(kDF, FastLimits<kNibbles>::kOffsetOf);
  const auto code = [&](std::int64_t i) HWY_ATTR {
    VF sum = hn::MulAdd(hn::LoadU(kDF, values + i), factor, offset);
    if constexpr (kLimit) sum = hn::Min(hn::Max(sum, limits.low), limits.high);
    return kNibbles ? hn::BitCast(kDU, sum) : Doubled(sum);
  };
  const VU a = code(0);
  const VU b = code(kLanes);
  const VU c = code(2 * kLanes);
  const VU d = code(3 * kLanes);
  // The upper halves are above 0x4300 and do not matter.
  const auto smallest = hn::Min(hn::Min(hn::BitCast(d16, a), hn::BitCast(d16, b)),
                                hn::Min(hn::BitCast(d16, c), hn::BitCast(d16, d)));
  constexpr std::uint16_t kInDoubt = kNibbles ? 2 : 2 * 2;
  const auto beyond = hn::SaturatedSub(smallest, hn::Set(d16, kInDoubt));
  if (HWY_UNLIKELY(!hn::AllFalse(d16, hn::Eq(beyond, hn::Zero(d16))))) return false;
  codes = Mix(a, b, c, d, limits.common);
  return true;
}

// ---- memory

// Values are read from so many places at a time: memory gives them more than one.
constexpr std::int64_t kStreams = 4;

// True if codes may bypass the caches.
template <Packing kPacking>
HWY_INLINE bool MayStream(const EncodeGroups& args) {
  constexpr auto kVectorBytes = static_cast<std::int64_t>(sizeof(V8));
  return args.stream && kPacking == Packing::kInt8 &&
         reinterpret_cast<std::uintptr_t>(args.codes) % kVectorBytes == 0 &&
         args.stride % kVectorBytes == 0;
}

// ---- packing

using DHalf = hn::Full128<std::uint8_t>;

// Mixed codes in [-8, 7] as halves of bytes: the even ones low, the odd ones high.
template <class V>
HWY_INLINE void StoreInt4(V mixed, std::uint8_t* out) {
  constexpr hn::Repartition<std::uint64_t, DF> d64;
  constexpr hn::Repartition<std::uint8_t, DF> d8;
  const auto codes = hn::BitCast(d64, hn::And(mixed, hn::Set(kD8, std::int8_t{0x0f})));
  // Of lanes i and i + 1, i even: pairs of a, c, b and d.
  const auto pairs = hn::BitCast(d8, hn::Or(codes, hn::ShiftRight<28>(codes)));
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 8, 2, 10, 1, 9, 3, 11,
                                                           0, 8, 2, 10, 1, 9, 3, 11};
  const auto gathered = hn::TableLookupBytes(pairs, hn::LoadDup128(d8, kGather));
  if constexpr (sizeof(V) == 32) {
    constexpr hn::Full128<std::uint16_t> d16;
    const auto all =
        hn::InterleaveLower(d16, hn::BitCast(d16, hn::LowerHalf(gathered)),
                            hn::BitCast(d16, hn::UpperHalf(DHalf(), gathered)));
    hn::StoreU(hn::BitCast(DHalf(), all), DHalf(), out);
  } else {
    constexpr hn::Full64<std::uint8_t> half;
    hn::StoreU(hn::LowerHalf(half, gathered), half, out);
  }
}

// Elements k and k + 16 of a block of Q4_0, codes in [-8, 7], in byte k: in their order, in
// one vector of mixed ones, or in two.
HWY_INLINE void StoreHalves(hn::Vec<DHalf> first, hn::Vec<DHalf> second,
                            std::uint8_t* out) {
  constexpr DHalf d;
  constexpr hn::Full128<std::uint16_t> d16;
  const auto offset = hn::Set(d, std::uint8_t{8});
  const auto high = hn::BitCast(d16, hn::Add(second, offset));
  hn::StoreU(hn::Or(hn::Add(first, offset), hn::BitCast(d, hn::ShiftLeft<4>(high))), d,
             out);
}

template <class V>
HWY_INLINE void StoreHalves(const V (&mixed)[1], std::uint8_t* out) {
  constexpr hn::Full128<std::uint32_t> d32;
  const auto pairs =
      hn::BitCast(DPairs(), hn::Add(mixed[0], hn::Set(kD8, std::int8_t{8})));
  // The lower bytes: of a and c, of b and d.
  const auto halves = hn::BitCast(kD8, hn::Or(pairs, hn::ShiftRight<4>(pairs)));
  alignas(16) static constexpr std::int8_t kGather[16] = {0, 4, 8, 12, 2, 6, 10, 14,
                                                          0, 4, 8, 12, 2, 6, 10, 14};
  const auto gathered =
      hn::BitCast(hn::Repartition<std::uint32_t, DF>(),
                  hn::TableLookupBytes(halves, hn::LoadDup128(kD8, kGather)));
  const auto all =
      hn::InterleaveLower(d32, hn::LowerHalf(gathered), hn::UpperHalf(d32, gathered));
  hn::StoreU(hn::BitCast(DHalf(), all), DHalf(), out);
}

template <class V>
HWY_INLINE void StoreHalves(const V (&mixed)[2], std::uint8_t* out) {
  StoreHalves(hn::BitCast(DHalf(), Order(mixed[0])),
              hn::BitCast(DHalf(), Order(mixed[1])), out);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_CODES_INL_H_
