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

// 2^23 + 128: added to a code in [-128, 127] it leaves code + 128 in the lowest byte of
// the sum, whose last place is 1. As the sum is rounded to even, so is the code.
constexpr float kShift = 8388736.0F;
constexpr std::int32_t kShiftBits = 0x4b000080;

// The codes of four vectors in their order, from sums with kShift.
HWY_INLINE V8 Gather(VI a, VI b, VI c, VI d) {
  // Lane i: bytes of a, b, c, d. Shifts drop the upper bits of all but a; the constant
  // clears these and takes the 128 off again.
  const VI mixed = hn::Xor(
      hn::Xor(hn::Xor(a, hn::ShiftLeft<8>(b)),
              hn::Xor(hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(d))),
      hn::Set(kDI, static_cast<std::int32_t>(std::uint32_t{kShiftBits} ^ 0x80808000u)));
  alignas(16) static constexpr std::int8_t kGather[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                          2, 6, 10, 14, 3, 7, 11, 15};
  const V8 gathered =
      hn::TableLookupBytes(hn::BitCast(kD8, mixed), hn::LoadDup128(kD8, kGather));
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

  // The code plus kShift.
  static HWY_INLINE VI Code(const float* values, const CodeRule& rule) {
    VF t = Steps(hn::LoadU(kDF, values), rule);
    if constexpr (kLimit) {
      t = hn::Max(t, hn::Set(kDF, static_cast<float>(rule.low)));
      t = hn::Min(t, hn::Set(kDF, static_cast<float>(rule.high)));
    }
    if constexpr (kRounding != Rounding::kHalfEven) {
      t = RoundToInteger<kRounding>(t, rule.high);
    }
    return hn::BitCast(kDI, hn::Add(t, hn::Set(kDF, kShift)));
  }

  static HWY_INLINE V8 Codes(const float* values, const CodeRule& rule) {
    return Gather(Code(values, rule), Code(values + kLanes, rule),
                  Code(values + 2 * kLanes, rule), Code(values + 3 * kLanes, rule));
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

// The codes of kStep values of a group.
inline HWY_NOINLINE V8 ExactCodes(const CodeRule& rule, const float* values) {
  if (rule.has_zero_point) return CodesByRounding<false, true, true>(rule, values);
  if (rule.inverse) {
    return rule.limit ? CodesByRounding<true, true, false>(rule, values)
                      : CodesByRounding<true, false, false>(rule, values);
  }
  return rule.limit ? CodesByRounding<false, true, false>(rule, values)
                    : CodesByRounding<false, false, false>(rule, values);
}

// ---- the same codes without division

// Two factors close to 1 / divisor: value times one of them, rounded to even, is below,
// value times the other above what the definition rounds. Where both round to the same
// integer, that is the code, whatever becomes of ties; else the definition decides. Their
// distance is more than all roundings together: 2^-24 each of quotient, factors and
// product. half_up adds up to 2^-21 of a step in a sum, which is 2^-20 of the smallest
// quotient that it could matter to, one half.
HWY_INLINE float FactorDistance(Rounding rounding) {
  return rounding == Rounding::kHalfUp ? 0x1p-18F : 0x1p-21F;
}

// Factors serve as long as 1 / divisor is 0 or between these.
constexpr float kSmallestFactor = 0x1p-100F;
constexpr float kLargestFactor = 0x1p100F;

struct Factors {
  VF below;
  VF above;
};

HWY_INLINE Factors FactorsAround(VF factor, float distance) {
  return {hn::Mul(factor, hn::Set(kDF, 1 - distance)),
          hn::Mul(factor, hn::Set(kDF, 1 + distance))};
}

HWY_INLINE VF FastCode(const float* values, const Factors& factors, VI& differs) {
  const VF v = hn::LoadU(kDF, values);
  const VF a = hn::MulAdd(v, factors.below, hn::Set(kDF, kShift));
  const VF b = hn::MulAdd(v, factors.above, hn::Set(kDF, kShift));
  differs = hn::Or(differs, hn::Xor(hn::BitCast(kDI, a), hn::BitCast(kDI, b)));
  return a;
}

// low and high have kShift in them. False if the definition has to decide.
template <bool kLimit>
HWY_INLINE bool FastCodes(const float* values, const Factors& factors, VF low, VF high,
                          V8& codes) {
  VI differs = hn::Zero(kDI);
  VF a = FastCode(values, factors, differs);
  VF b = FastCode(values + kLanes, factors, differs);
  VF c = FastCode(values + 2 * kLanes, factors, differs);
  VF d = FastCode(values + 3 * kLanes, factors, differs);
  if (HWY_UNLIKELY(!hn::AllTrue(kDI, hn::Eq(differs, hn::Zero(kDI))))) return false;
  if constexpr (kLimit) {
    a = hn::Min(hn::Max(a, low), high);
    b = hn::Min(hn::Max(b, low), high);
    c = hn::Min(hn::Max(c, low), high);
    d = hn::Min(hn::Max(d, low), high);
  }
  codes = Gather(hn::BitCast(kDI, a), hn::BitCast(kDI, b), hn::BitCast(kDI, c),
                 hn::BitCast(kDI, d));
  return true;
}

// ---- packing

// Codes in [-8, 7] as halves of bytes: the even ones low, the odd ones high.
HWY_INLINE void StoreInt4(V8 codes, std::uint8_t* out) {
  constexpr hn::Repartition<std::uint16_t, D8> d16;
  constexpr hn::Rebind<std::uint8_t, decltype(d16)> d8;
  constexpr hn::RebindToSigned<decltype(d16)> ds16;
  const auto pairs = hn::BitCast(d16, codes);
  const auto low = hn::And(pairs, hn::Set(d16, std::uint16_t{0x0f}));
  const auto high = hn::And(hn::ShiftRight<4>(pairs), hn::Set(d16, std::uint16_t{0xf0}));
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(ds16, hn::Or(low, high))), d8, out);
}

// Elements k and k + 16 of a block of Q4_0, codes in [-8, 7], in byte k.
using DHalf = hn::Full128<std::uint8_t>;
HWY_INLINE void StoreHalves(hn::Vec<DHalf> first, hn::Vec<DHalf> second,
                            std::uint8_t* out) {
  constexpr DHalf d;
  constexpr hn::Full128<std::uint16_t> d16;
  const auto offset = hn::Set(d, std::uint8_t{8});
  const auto high = hn::BitCast(d16, hn::Add(second, offset));
  hn::StoreU(hn::Or(hn::Add(first, offset), hn::BitCast(d, hn::ShiftLeft<4>(high))), d,
             out);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_CODES_INL_H_
