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

// 2^23 + 128: added to a code in [-128, 127] it leaves code + 128 in the lowest byte of
// the sum, whose last place is 1. That the sum rounds to even makes it half_even's
// rounding, too.
constexpr float kShift = 8388736.0F;
constexpr std::uint32_t kShiftTop = 0x4b000000;  // the rest of the sum's bits

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

  // Code + 128 in the lowest byte of each lane, kShiftTop above it.
  static HWY_INLINE VI Code(const float* values, const Rule& rule) {
    VF t = Steps(hn::LoadU(kDF, values), rule);
    if constexpr (kLimit) t = hn::Min(hn::Max(t, rule.low), rule.high);
    if constexpr (kRounding != Rounding::kHalfEven) {
      t = RoundToInteger<kRounding>(t, rule.highest);
    }
    return hn::BitCast(kDI, hn::Add(t, hn::Set(kDF, kShift)));
  }

  // The codes of kStep values in their order.
  static HWY_INLINE V8 Codes(const float* values, const Rule& rule) {
    const VI a = Code(values, rule);
    const VI b = Code(values + kLanes, rule);
    const VI c = Code(values + 2 * kLanes, rule);
    const VI d = Code(values + 3 * kLanes, rule);
    // Lane i: bytes of a, b, c, d. Shifts drop the upper bits of all but a; the last
    // constant clears these and takes the 128 off again.
    const VI mixed =
        hn::Xor(hn::Xor(hn::Xor(a, hn::ShiftLeft<8>(b)),
                        hn::Xor(hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(d))),
                hn::Set(kDI, static_cast<std::int32_t>(kShiftTop ^ 0x80808080u)));
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

HWY_INLINE void Store(V8 codes, Packing packing, bool stream, std::uint8_t* out) {
  if (packing == Packing::kInt4) {
    StoreInt4(codes, out);
  } else if (stream) {
    hn::Stream(codes, kD8, reinterpret_cast<std::int8_t*>(out));
  } else {
    hn::StoreU(codes, kD8, reinterpret_cast<std::int8_t*>(out));
  }
}

// Fewer than kStep values: as if zeros followed, in memory of our own.
template <class Coder>
HWY_INLINE void EncodeTail(const float* values, std::int64_t n, const Rule& rule,
                           Packing packing, std::uint8_t* out) {
  alignas(32) float padded[kStep] = {};
  alignas(32) std::uint8_t codes[kStep];
  std::memcpy(padded, values, static_cast<std::size_t>(n) * sizeof(float));
  Store(Coder::Codes(padded, rule), packing, false, codes);
  std::int64_t bytes = n;
  if (packing == Packing::kInt4) {
    bytes = (n + 1) / 2;
    if (n % 2 != 0) codes[bytes - 1] &= 0x0f;
  }
  std::memcpy(out, codes, static_cast<std::size_t>(bytes));
}

template <class Coder>
HWY_INLINE void EncodeHalves(const EncodeGroups& args, std::int64_t group) {
  const Rule rule = Coder::RuleOf(args, group);
  const float* values = args.in.values + group * 32;
  alignas(32) std::int8_t codes[32];
  for (std::int64_t i = 0; i < 32; i += kStep) {
    hn::Store(Coder::Codes(values + i, rule), kD8, codes + i);
  }
  StoreHalves(codes, args.codes + group * args.stride);
}

template <class Coder>
void EncodeGroupsOf(const EncodeGroups& args) {
  const auto* ahead = reinterpret_cast<const std::uint8_t*>(args.in.values);
  ahead += args.prefetch;
  const bool prefetch = args.prefetch > 0;
  const bool int4 = args.packing == Packing::kInt4;
  const bool stream = args.stream && !int4 &&
                      reinterpret_cast<std::uintptr_t>(args.codes) % sizeof(V8) == 0 &&
                      args.stride % static_cast<std::int64_t>(sizeof(V8)) == 0;
  for (std::int64_t g = 0; g < args.in.groups; ++g) {
    const std::int64_t n = g + 1 < args.in.groups ? args.in.size : args.in.last;
    if (args.packing == Packing::kInt4Halves) {
      if (prefetch) {
        hwy::Prefetch(ahead + g * 128);
        hwy::Prefetch(ahead + g * 128 + 64);
      }
      EncodeHalves<Coder>(args, g);
      continue;
    }
    const Rule rule = Coder::RuleOf(args, g);
    const float* values = args.in.values + g * args.in.size;
    const std::uint8_t* next = ahead + g * args.in.size * 4;
    std::uint8_t* codes = args.codes + g * args.stride;
    std::int64_t i = 0;
    for (; i + kStep <= n; i += kStep) {
      if (prefetch) {
        for (std::int64_t byte = 0; byte < kStep * 4; byte += 64) {
          hwy::Prefetch(next + i * 4 + byte);
        }
      }
      Store(Coder::Codes(values + i, rule), args.packing, stream,
            codes + (int4 ? i / 2 : i));
    }
    if (i < n) {
      EncodeTail<Coder>(values + i, n - i, rule, args.packing,
                        codes + (int4 ? i / 2 : i));
    }
  }
  if (stream) hwy::FlushStream();
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

template <bool kInverse, bool kLimit, bool kZeroPoint>
HWY_INLINE void EncodeByRounding(const EncodeGroups& args) {
  switch (args.rounding) {
    case Rounding::kHalfAway:
      return EncodeGroupsOf<Coder<Rounding::kHalfAway, kInverse, kLimit, kZeroPoint>>(
          args);
    case Rounding::kHalfEven:
      return EncodeGroupsOf<Coder<Rounding::kHalfEven, kInverse, kLimit, kZeroPoint>>(
          args);
    case Rounding::kHalfUp:
      return EncodeGroupsOf<Coder<Rounding::kHalfUp, kInverse, kLimit, kZeroPoint>>(args);
  }
}

void EncodeGroupsImpl(const EncodeGroups& args) {
  if (args.zero_points != nullptr) {
    EncodeByRounding<false, true, true>(args);
  } else if (args.inverse) {
    args.limit ? EncodeByRounding<true, true, false>(args)
               : EncodeByRounding<true, false, false>(args);
  } else {
    args.limit ? EncodeByRounding<false, true, false>(args)
               : EncodeByRounding<false, false, false>(args);
  }
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
