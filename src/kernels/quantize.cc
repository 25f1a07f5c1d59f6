// Codes of values. A step turns four vectors of values into a vector of bytes.
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/quantize.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::RebindToSigned<DF>;
using D8 = hn::Repartition<std::int8_t, DF>;
using VI = hn::Vec<DI>;
using V8 = hn::Vec<D8>;
constexpr DI kDI;
constexpr D8 kD8;
constexpr std::int64_t kStep = 4 * kLanes;  // values of a step, codes of a vector
constexpr std::int64_t kBatchGroups = 64;   // whose inverses are found at once

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
struct Rule {
  VF divisor;
  VF zero_point;
  VF low;
  VF high;
  int highest;
};

template <Rounding kRounding, bool kInverse, bool kLimit, bool kZeroPoint>
struct Coder {
  static HWY_INLINE VF Steps(VF v, const Rule& rule) {
    VF t = kInverse ? hn::Mul(v, rule.divisor) : hn::Div(v, rule.divisor);
    if constexpr (kZeroPoint) t = hn::Add(t, rule.zero_point);
    return t;
  }

  // The code plus kShift.
  static HWY_INLINE VI Code(const float* values, const Rule& rule) {
    VF t = Steps(hn::LoadU(kDF, values), rule);
    if constexpr (kLimit) t = hn::Min(hn::Max(t, rule.low), rule.high);
    if constexpr (kRounding != Rounding::kHalfEven) {
      t = RoundToInteger<kRounding>(t, rule.highest);
    }
    return hn::BitCast(kDI, hn::Add(t, hn::Set(kDF, kShift)));
  }

  static HWY_INLINE V8 Codes(const float* values, const Rule& rule) {
    return Gather(Code(values, rule), Code(values + kLanes, rule),
                  Code(values + 2 * kLanes, rule), Code(values + 3 * kLanes, rule));
  }

  static HWY_INLINE Rule RuleOf(const EncodeGroups& args, std::int64_t group) {
    const std::int64_t g = args.one_scale ? 0 : group;
    Rule rule;
    rule.divisor = hn::Set(kDF, args.divisors[g]);
    rule.zero_point = hn::Set(kDF, kZeroPoint ? args.zero_points[g] : 0.0F);
    rule.low = hn::Set(kDF, static_cast<float>(args.low));
    rule.high = hn::Set(kDF, static_cast<float>(args.high));
    rule.highest = args.high;
    return rule;
  }
};

template <bool kInverse, bool kLimit, bool kZeroPoint>
HWY_INLINE V8 CodesByRounding(const EncodeGroups& args, std::int64_t group,
                              const float* values) {
  switch (args.rounding) {
    case Rounding::kHalfAway: {
      using C = Coder<Rounding::kHalfAway, kInverse, kLimit, kZeroPoint>;
      return C::Codes(values, C::RuleOf(args, group));
    }
    case Rounding::kHalfEven: {
      using C = Coder<Rounding::kHalfEven, kInverse, kLimit, kZeroPoint>;
      return C::Codes(values, C::RuleOf(args, group));
    }
    case Rounding::kHalfUp: {
      using C = Coder<Rounding::kHalfUp, kInverse, kLimit, kZeroPoint>;
      return C::Codes(values, C::RuleOf(args, group));
    }
  }
  return hn::Zero(kD8);
}

// The codes of kStep values of a group.
HWY_NOINLINE V8 ExactCodes(const EncodeGroups& args, std::int64_t group,
                           const float* values) {
  if (args.zero_points != nullptr) {
    return CodesByRounding<false, true, true>(args, group, values);
  }
  if (args.inverse) {
    return args.limit ? CodesByRounding<true, true, false>(args, group, values)
                      : CodesByRounding<true, false, false>(args, group, values);
  }
  return args.limit ? CodesByRounding<false, true, false>(args, group, values)
                    : CodesByRounding<false, false, false>(args, group, values);
}

// ---- the same codes without division

// Two factors close to 1 / divisor: value times one of them, rounded to even, is below,
// value times the other above what the definition rounds. Where both round to the same
// integer, that is the code, whatever becomes of ties; else the definition decides. Their
// distance is more than all roundings together: 2^-24 each of quotient, factors and
// product. half_up adds up to 2^-21 of a step in a sum, which is 2^-20 of the smallest
// quotient that it could matter to, one half.
constexpr float kDistance = 0x1p-21F;
constexpr float kDistanceHalfUp = 0x1p-18F;

struct Factors {
  alignas(32) float below[kBatchGroups];
  alignas(32) float above[kBatchGroups];

  // False if there are none: 1 / divisor is neither 0 nor well inside the range of f32.
  HWY_INLINE bool Find(const float* divisors, std::int64_t groups, bool inverse,
                       float distance) {
    auto normal = hn::Eq(hn::Zero(kDF), hn::Zero(kDF));
    for (std::int64_t g = 0; g < groups; g += kLanes) {
      alignas(32) float padded[kLanes] = {};
      const std::int64_t rest = groups - g;
      if (rest < kLanes) {
        std::memcpy(padded, divisors + g, static_cast<std::size_t>(rest) * sizeof(float));
        for (std::int64_t i = rest; i < kLanes; ++i) padded[i] = 1;
      }
      VF factor = hn::LoadU(kDF, rest < kLanes ? padded : divisors + g);
      if (!inverse) factor = hn::Div(hn::Set(kDF, 1.0F), factor);
      const VF magnitude = hn::Abs(factor);
      const auto inside = hn::And(hn::Ge(magnitude, hn::Set(kDF, 0x1p-100F)),
                                  hn::Le(magnitude, hn::Set(kDF, 0x1p100F)));
      normal = hn::And(normal, hn::Or(inside, hn::Eq(factor, hn::Zero(kDF))));
      hn::Store(hn::Mul(factor, hn::Set(kDF, 1 - distance)), kDF, below + g);
      hn::Store(hn::Mul(factor, hn::Set(kDF, 1 + distance)), kDF, above + g);
    }
    return hn::AllTrue(kDF, normal);
  }
};

template <bool kLimit>
HWY_INLINE VI FastCode(const float* values, VF below, VF above, VF low, VF high,
                       VI& differs) {
  const VF v = hn::LoadU(kDF, values);
  VF a = hn::MulAdd(v, below, hn::Set(kDF, kShift));
  VF b = hn::MulAdd(v, above, hn::Set(kDF, kShift));
  if constexpr (kLimit) {
    a = hn::Min(hn::Max(a, low), high);
    b = hn::Min(hn::Max(b, low), high);
  }
  const VI code = hn::BitCast(kDI, a);
  differs = hn::Or(differs, hn::Xor(code, hn::BitCast(kDI, b)));
  return code;
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

// One block of Q4_0: 32 codes in [-8, 7].
HWY_INLINE void StoreHalves(const std::int8_t* codes, std::uint8_t* out) {
  constexpr hn::Full128<std::uint8_t> d;
  constexpr hn::Full128<std::uint16_t> d16;
  const auto offset = hn::Set(d, std::uint8_t{8});
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(codes);
  const auto low = hn::Add(hn::Load(d, bytes), offset);
  const auto high = hn::Add(hn::Load(d, bytes + 16), offset);
  hn::StoreU(hn::Or(low, hn::BitCast(d, hn::ShiftLeft<4>(hn::BitCast(d16, high)))), d,
             out);
}

template <Packing kPacking, bool kStream>
HWY_INLINE void Store(V8 codes, std::uint8_t* out) {
  if constexpr (kPacking == Packing::kInt4) {
    StoreInt4(codes, out);
  } else if constexpr (kStream) {
    hn::Stream(codes, kD8, reinterpret_cast<std::int8_t*>(out));
  } else {
    hn::StoreU(codes, kD8, reinterpret_cast<std::int8_t*>(out));
  }
}

// Fewer than kStep values: as if zeros followed, in memory of our own.
template <Packing kPacking>
HWY_NOINLINE void EncodeTail(const EncodeGroups& args, std::int64_t group,
                             const float* values, std::int64_t n, std::uint8_t* out) {
  alignas(32) float padded[kStep] = {};
  alignas(32) std::uint8_t codes[kStep];
  std::memcpy(padded, values, static_cast<std::size_t>(n) * sizeof(float));
  Store<kPacking, false>(ExactCodes(args, group, padded), codes);
  std::int64_t bytes = n;
  if (kPacking == Packing::kInt4) {
    bytes = (n + 1) / 2;
    if (n % 2 != 0) codes[bytes - 1] &= 0x0f;
  }
  std::memcpy(out, codes, static_cast<std::size_t>(bytes));
}

// ---- groups

template <Packing kPacking, bool kLimit>
HWY_INLINE V8 FastCodes(const EncodeGroups& args, std::int64_t group, VF below, VF above,
                        VF low, VF high, const float* values) {
  VI differs = hn::Zero(kDI);
  const VI a = FastCode<kLimit>(values, below, above, low, high, differs);
  const VI b = FastCode<kLimit>(values + kLanes, below, above, low, high, differs);
  const VI c = FastCode<kLimit>(values + 2 * kLanes, below, above, low, high, differs);
  const VI d = FastCode<kLimit>(values + 3 * kLanes, below, above, low, high, differs);
  if (HWY_UNLIKELY(!hn::AllTrue(kDI, hn::Eq(differs, hn::Zero(kDI))))) {
    return ExactCodes(args, group, values);
  }
  return Gather(a, b, c, d);
}

// Bytes of codes that n values have.
template <Packing kPacking>
HWY_INLINE std::int64_t CodeBytes(std::int64_t n) {
  return kPacking == Packing::kInt4 ? n / 2 : n;
}

template <Packing kPacking, bool kFast, bool kLimit, bool kStream>
void EncodeSome(const EncodeGroups& args, const Factors& factors, std::int64_t begin,
                std::int64_t end) {
  // In registers: a store of bytes could change all that is behind a reference.
  const std::int64_t size = args.in.size;
  const std::int64_t stride = args.stride;
  const std::int64_t prefetch = args.prefetch;
  const bool one_scale = args.one_scale;
  const float* values = args.in.values + begin * size;
  std::uint8_t* out = args.codes + begin * stride;
  const VF low = hn::Set(kDF, kShift + static_cast<float>(args.low));
  const VF high = hn::Set(kDF, kShift + static_cast<float>(args.high));
  for (std::int64_t g = begin; g < end; ++g, values += size, out += stride) {
    const std::int64_t n = g + 1 < args.in.groups ? size : args.in.last;
    const std::int64_t f = one_scale ? 0 : g - begin;
    const VF below = hn::Set(kDF, factors.below[f]);
    const VF above = hn::Set(kDF, factors.above[f]);
    alignas(32) std::int8_t halves[32];
    std::int64_t i = 0;
    for (; i + kStep <= n; i += kStep) {
      if (prefetch > 0) {
        const auto* ahead = reinterpret_cast<const std::uint8_t*>(values + i) + prefetch;
        for (std::int64_t byte = 0; byte < kStep * 4; byte += 64) {
          hwy::Prefetch(ahead + byte);
        }
      }
      const V8 codes = kFast ? FastCodes<kPacking, kLimit>(args, g, below, above, low,
                                                           high, values + i)
                             : ExactCodes(args, g, values + i);
      if constexpr (kPacking == Packing::kInt4Halves) {
        hn::Store(codes, kD8, halves + i);
      } else {
        Store<kPacking, kStream>(codes, out + CodeBytes<kPacking>(i));
      }
    }
    if constexpr (kPacking == Packing::kInt4Halves) {
      StoreHalves(halves, out);
    } else if (i < n) {
      EncodeTail<kPacking>(args, g, values + i, n - i, out + CodeBytes<kPacking>(i));
    }
  }
}

template <Packing kPacking>
void EncodeAll(const EncodeGroups& args) {
  constexpr auto kVectorBytes = static_cast<std::int64_t>(sizeof(V8));
  const bool stream = args.stream && kPacking == Packing::kInt8 &&
                      reinterpret_cast<std::uintptr_t>(args.codes) % kVectorBytes == 0 &&
                      args.stride % kVectorBytes == 0;
  Factors factors;
  bool fast = false;
  for (std::int64_t g = 0; g < args.in.groups; g += kBatchGroups) {
    const std::int64_t rest = args.in.groups - g;
    const std::int64_t end = g + (rest < kBatchGroups ? rest : kBatchGroups);
    if (args.zero_points == nullptr && (!args.one_scale || g == 0)) {
      fast =
          factors.Find(args.divisors + g, args.one_scale ? 1 : end - g, args.inverse,
                       args.rounding == Rounding::kHalfUp ? kDistanceHalfUp : kDistance);
    }
    if (!fast) {
      EncodeSome<kPacking, false, false, false>(args, factors, g, end);
    } else if (args.limit) {
      stream ? EncodeSome<kPacking, true, true, true>(args, factors, g, end)
             : EncodeSome<kPacking, true, true, false>(args, factors, g, end);
    } else {
      stream ? EncodeSome<kPacking, true, false, true>(args, factors, g, end)
             : EncodeSome<kPacking, true, false, false>(args, factors, g, end);
    }
  }
  if (stream) hwy::FlushStream();
}

void EncodeGroupsImpl(const EncodeGroups& args) {
  switch (args.packing) {
    case Packing::kInt8:
      return EncodeAll<Packing::kInt8>(args);
    case Packing::kInt4:
      return EncodeAll<Packing::kInt4>(args);
    case Packing::kInt4Halves:
      return EncodeAll<Packing::kInt4Halves>(args);
  }
}

template <class Coder>
std::int64_t CountSaturatedOf(const EncodeGroups& args) {
  const VF above = hn::Set(kDF, static_cast<float>(args.high) + 0.5F);
  const VF below = hn::Set(kDF, static_cast<float>(args.low) - 0.5F);
  std::int64_t count = 0;
  for (std::int64_t g = 0; g < args.in.groups; ++g) {
    const std::int64_t n = g + 1 < args.in.groups ? args.in.size : args.in.last;
    const Rule rule = Coder::RuleOf(args, g);
    const float* values = args.in.values + g * args.in.size;
    for (std::int64_t i = 0; i < n; i += kLanes) {
      alignas(32) float padded[kLanes] = {};
      const std::int64_t some = n - i < kLanes ? n - i : kLanes;
      std::memcpy(padded, values + i, static_cast<std::size_t>(some) * sizeof(float));
      const VF t = Coder::Steps(hn::Load(kDF, padded), rule);
      const auto outside = hn::Or(hn::Gt(t, above), hn::Lt(t, below));
      count += static_cast<std::int64_t>(hn::CountTrue(
          kDF, hn::And(outside, hn::FirstN(kDF, static_cast<std::size_t>(some)))));
    }
  }
  return count;
}

std::int64_t CountSaturatedImpl(const EncodeGroups& args) {
  constexpr Rounding kHalfAway = Rounding::kHalfAway;  // the count does not depend on it
  if (args.zero_points != nullptr) {
    return CountSaturatedOf<Coder<kHalfAway, false, true, true>>(args);
  }
  return args.inverse ? CountSaturatedOf<Coder<kHalfAway, true, true, false>>(args)
                      : CountSaturatedOf<Coder<kHalfAway, false, true, false>>(args);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(EncodeGroupsImpl);
HWY_EXPORT(CountSaturatedImpl);

void encode_groups(const EncodeGroups& args) noexcept {
  PITH_DISPATCH(EncodeGroupsImpl)(args);
}

std::int64_t count_saturated(const EncodeGroups& args) noexcept {
  return PITH_DISPATCH(CountSaturatedImpl)(args);
}

}  // namespace pith::kernels
#endif
