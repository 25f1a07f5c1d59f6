// Scales and codes of groups in one go. While the groups of a batch are encoded, the
// values of a later batch are scanned for their extremes: so memory is asked for the next
// values all the time, and codes are made of what the first-level cache holds.
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/quantize_groups.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/absmax-inl.h"
#include "src/kernels/codes-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/scales-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// Groups whose scales are found at once.
constexpr std::int64_t kMaxBatch = quantize_batch(32);
// Values that are scanned or encoded at a time.
constexpr std::int64_t kBlock = 32;

// Fetches a block while the one at `i` is scanned: of the next 32 KiB, the lines of eight
// pages in turns. Memory gives several streams at once more than one.
HWY_INLINE void Fetch(const float* first, std::int64_t at) {
  constexpr std::uint64_t kPage = 1024;
  constexpr std::uint64_t kPages = 8;
  const auto i = static_cast<std::uint64_t>(at);  // shifts, not divisions
  const std::uint64_t page = i / kBlock % kPages;
  const std::uint64_t block = i / (kPages * kBlock) % (kPage / kBlock);
  const float* lines = first + (i / (kPages * kPage) + 1) * (kPages * kPage) +
                       page * kPage + block * kBlock;
  hwy::Prefetch(lines);
  hwy::Prefetch(lines + 16);
}

// ---- extremes

// The largest of each lane of a group that is being scanned.
struct MagnitudeLanes {
  VU largest;

  HWY_INLINE MagnitudeLanes() : largest(hn::Zero(kDU)) {}

  HWY_INLINE void Add(const float* values) {
    for (std::int64_t i = 0; i < kBlock; i += 4 * kLanes, values += 4 * kLanes) {
      const VU a = hn::Max(Absmax::Of(Bits(values)), Absmax::Of(Bits(values + kLanes)));
      const VU b = hn::Max(Absmax::Of(Bits(values + 2 * kLanes)),
                           Absmax::Of(Bits(values + 3 * kLanes)));
      largest = hn::Max(largest, hn::Max(a, b));
    }
  }
};

// The same, with and without the sign bit apart.
struct SignedLanes {
  VU positive;
  VU negative;

  HWY_INLINE SignedLanes() : positive(hn::Zero(kDU)), negative(hn::Zero(kDU)) {}

  HWY_INLINE void Add(const float* values) {
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      const VU bits = Bits(values + i);
      positive = LargestPositive::Max(positive, bits);
      negative = LargestNegative::Max(negative, bits);
    }
  }
};

// Batches follow each other: groups that have been scanned, whose scales are known, that
// are encoded. A long group is a batch of its own.
struct Batch {
  alignas(32) std::uint32_t lanes[2][kMaxBatch][kLanes];  // the second for signs
  alignas(32) float divisors[kMaxBatch];
  alignas(32) float below[kMaxBatch];
  alignas(32) float above[kMaxBatch];

  HWY_INLINE void Scanned(std::int64_t k, const MagnitudeLanes& group) {
    hn::Store(group.largest, kDU, lanes[0][k]);
  }
  HWY_INLINE void Scanned(std::int64_t k, const SignedLanes& group) {
    hn::Store(group.positive, kDU, lanes[0][k]);
    hn::Store(group.negative, kDU, lanes[1][k]);
  }
};

// The largest of as many groups as there are lanes; of a long one in all lanes.
template <class Op, bool kLong>
HWY_INLINE VU Largest(const std::uint32_t (*lanes)[kLanes]) {
  const auto load = [&](int k) HWY_ATTR { return hn::Load(kDU, lanes[k]); };
  if constexpr (kLong) return Op::Finish(AcrossLanes<Op>(load(0)));
  const VU low = Transpose4<Op>(load(0), load(1), load(2), load(3));
  if constexpr (kLanes == 8) {
    const VU high = Transpose4<Op>(load(4), load(5), load(6), load(7));
    return Op::Finish(Op::Max(hn::ConcatLowerLower(kDU, high, low),
                              hn::ConcatUpperUpper(kDU, high, low)));
  } else {
    return Op::Finish(low);
  }
}

// Where both signs reach the largest magnitude, the first value decides.
HWY_NOINLINE void FirstOfLargest(const float* values, std::int64_t size, float* extremes,
                                 std::uint32_t tied) {
  for (std::int64_t k = 0; k < kLanes; ++k, values += size) {
    if ((tied >> k & 1) == 0) continue;
    std::int64_t i = 0;
    while (__builtin_fabsf(values[i]) != extremes[k]) ++i;
    extremes[k] = values[i];
  }
}

template <bool kLong>
HWY_INLINE VF Extremes(MagnitudeLanes, const Batch& batch, std::int64_t k, const float*,
                       std::int64_t) {
  return hn::BitCast(kDF, Largest<Absmax, kLong>(batch.lanes[0] + k));
}

template <bool kLong>
HWY_INLINE VF Extremes(SignedLanes, const Batch& batch, std::int64_t k,
                       const float* values, std::int64_t size) {
  const VI positive =
      hn::BitCast(kDI, Largest<LargestPositive, kLong>(batch.lanes[0] + k));
  const VI negative =
      hn::BitCast(kDI, Largest<LargestNegative, kLong>(batch.lanes[1] + k));
  const VF sign = hn::BitCast(kDF, hn::Set(kDU, 0x80000000u));
  const VF extreme = hn::IfThenElse(hn::RebindMask(kDF, hn::Gt(negative, positive)),
                                    hn::Or(hn::BitCast(kDF, negative), sign),
                                    hn::BitCast(kDF, positive));
  const auto tied =
      hn::AndNot(hn::Eq(positive, hn::Zero(kDI)), hn::Eq(positive, negative));
  if (HWY_LIKELY(hn::AllFalse(kDI, tied))) return extreme;
  alignas(32) float extremes[kLanes];
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(kDI, tied, bits);
  hn::Store(extreme, kDF, extremes);
  FirstOfLargest(values, size, extremes, bits[0]);
  return hn::Load(kDF, extremes);
}

// ---- scales

// Stores the lower bits of kGroups scales, `stride` bytes apart.
template <typename Bits, std::int64_t kGroups>
HWY_INLINE void StoreScales(const std::uint32_t* bits, std::uint8_t* out,
                            std::int64_t stride) {
  if (sizeof(Bits) == 2 && stride == 2 && kGroups % kLanes == 0) {
    constexpr hn::Rebind<std::uint16_t, DF> d16;
    for (std::int64_t k = 0; k < kGroups; k += kLanes) {
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(kDI, hn::Load(kDU, bits + k))), d16,
                 reinterpret_cast<std::uint16_t*>(out) + k);
    }
    return;
  }
  for (std::int64_t k = 0; k < kGroups; ++k, out += stride) {
    std::memcpy(out, bits + k, sizeof(Bits));
  }
}

// Scales of kGroups groups from g on. False if one of them is not ordinary. Each loop is
// short, so that the processor works on many groups at once.
template <class Lanes, std::int64_t kGroups, class Type, typename Bits>
bool FindScalesOfBatch(const QuantizeGroups& args, std::int64_t g, Batch& batch) {
  const FindScales& rule = args.scales;
  const std::int64_t size = args.codes.in.size;
  const bool by_stored = rule.coding == Coding::kStored;
  const VF zero = hn::Zero(kDF);
  const VF infinity = hn::Set(kDF, std::numeric_limits<float>::infinity());
  alignas(32) float extremes[kMaxBatch];
  alignas(32) float exact[kMaxBatch];
  alignas(32) float values[kMaxBatch];
  alignas(32) std::uint32_t bits[kMaxBatch];
  const VF denominator = hn::Set(kDF, rule.denominator);
  for (std::int64_t k = 0; k < kGroups; k += kLanes) {
    const float* first = args.codes.in.values + (g + k) * size;
    const VF extreme = Extremes<kGroups == 1>(Lanes(), batch, k, first, size);
    hn::Store(extreme, kDF, extremes + k);
    hn::Store(hn::Div(extreme, denominator), kDF, exact + k);
  }
  MF usual = hn::Eq(zero, zero);
  const VF smallest =
      hn::Set(kDF, Type::kSmallestNormal > kSmallestFactor ? Type::kSmallestNormal
                                                           : kSmallestFactor);
  for (std::int64_t k = 0; k < kGroups; k += kLanes) {
    const VF extreme = hn::Load(kDF, extremes + k);
    const VU rounded = Type::Bits(hn::Load(kDF, exact + k));
    const VF value = Type::Value(rounded);
    const VF magnitude = hn::Abs(value);
    const MF inside = hn::And(hn::Ge(magnitude, smallest),
                              hn::Le(magnitude, hn::Set(kDF, kLargestFactor)));
    const MF fits = hn::Lt(hn::Abs(hn::Load(kDF, exact + k)),
                           hn::Set(kDF, Type::kOverflow));  // not NaN, either
    usual = hn::And(usual, hn::Or(hn::Eq(extreme, zero), hn::And(inside, fits)));
    hn::Store(rounded, kDU, bits + k);
    hn::Store(value, kDF, values + k);
  }
  if (!hn::AllTrue(kDF, usual)) return false;
  const float distance = FactorDistance(args.codes.rounding);
  for (std::int64_t k = 0; k < kGroups; k += kLanes) {
    const MF is_zero = hn::Eq(hn::Load(kDF, extremes + k), zero);
    const VF divisor = hn::Load(kDF, (by_stored ? values : exact) + k);
    const VF factor = hn::IfThenZeroElse(is_zero, hn::Div(hn::Set(kDF, 1.0F), divisor));
    const Factors factors = FactorsAround(factor, distance);
    hn::Store(factors.below, kDF, batch.below + k);
    hn::Store(factors.above, kDF, batch.above + k);
    hn::Store(args.codes.inverse ? factor : hn::IfThenElse(is_zero, infinity, divisor),
              kDF, batch.divisors + k);
    if (rule.zero_scale == 0) continue;
    const VF zero_scale = hn::Set(kDF, rule.zero_scale);
    hn::Store(hn::IfThenElse(is_zero, zero_scale, hn::Load(kDF, values + k)), kDF,
              values + k);
    hn::Store(hn::IfThenElse(hn::RebindMask(kDU, is_zero), Type::Bits(zero_scale),
                             hn::Load(kDU, bits + k)),
              kDU, bits + k);
  }
  StoreScales<Bits, kGroups>(bits, rule.stored + g * rule.stored_stride,
                             rule.stored_stride);
  if (rule.scales != nullptr) {
    std::memcpy(rule.scales + g, values, kGroups * sizeof(float));
    std::memcpy(rule.divisors + g, batch.divisors, kGroups * sizeof(float));
  }
  return true;
}

template <class Lanes, std::int64_t kGroups>
HWY_NOINLINE bool FindBatch(const QuantizeGroups& args, std::int64_t g, Batch& batch) {
  switch (args.scales.type) {
    case DType::kF16:
      return FindScalesOfBatch<Lanes, kGroups, F16, std::uint16_t>(args, g, batch);
    case DType::kBF16:
      return FindScalesOfBatch<Lanes, kGroups, BF16, std::uint16_t>(args, g, batch);
    default:
      return FindScalesOfBatch<Lanes, kGroups, F32, std::uint32_t>(args, g, batch);
  }
}

// ---- codes

// The codes of a block of Q4_0, in one vector or in two.
template <class V>
HWY_INLINE void StoreBlockOfHalves(const V (&codes)[1], std::uint8_t* out) {
  const auto bytes = hn::BitCast(hn::Repartition<std::uint8_t, D8>(), codes[0]);
  StoreHalves(hn::LowerHalf(bytes), hn::UpperHalf(DHalf(), bytes), out);
}

template <class V>
HWY_INLINE void StoreBlockOfHalves(const V (&codes)[2], std::uint8_t* out) {
  StoreHalves(hn::BitCast(DHalf(), codes[0]), hn::BitCast(DHalf(), codes[1]), out);
}

template <Packing kPacking, bool kLimit>
struct BlockCoder {
  const EncodeGroups& args;
  VF low;
  VF high;
  V8 low_byte;  // in registers: a store of codes could change what is behind a reference
  V8 high_byte;

  HWY_INLINE explicit BlockCoder(const EncodeGroups& codes)
      : args(codes),
        low(hn::Set(kDF, kShift + static_cast<float>(codes.low))),
        high(hn::Set(kDF, kShift + static_cast<float>(codes.high))),
        low_byte(hn::Set(kD8, static_cast<std::int8_t>(codes.low))),
        high_byte(hn::Set(kD8, static_cast<std::int8_t>(codes.high))) {}

  HWY_INLINE V8 Step(const float* values, const Factors& factors,
                     const float* divisor) const {
    // Codes of ordinary groups are at most a step outside: with 4 bits, bytes hold them.
    constexpr bool kLimitBytes = kLimit && kPacking != Packing::kInt8;
    constexpr bool kLimitValues = kLimit && !kLimitBytes;
    V8 codes;
    if (HWY_LIKELY(FastCodes<kLimitValues>(values, factors, low, high, codes))) {
      if constexpr (kLimitBytes) {
        codes = hn::Min(hn::Max(codes, low_byte), high_byte);
      }
      return codes;
    }
    const CodeRule rule = {*divisor,   0,        false,     args.inverse,
                           args.limit, args.low, args.high, args.rounding};
    return ExactCodes(rule, values);
  }

  // The codes of kBlock values.
  template <bool kStream>
  HWY_INLINE void Encode(const float* values, const Factors& factors,
                         const float* divisor, std::uint8_t* out) const {
    V8 codes[kBlock / kStep];
    for (std::int64_t i = 0; i < kBlock / kStep; ++i) {
      codes[i] = Step(values + i * kStep, factors, divisor);
    }
    if constexpr (kPacking == Packing::kInt4Halves) {
      StoreBlockOfHalves(codes, out);
      return;
    }
    for (std::int64_t i = 0; i < kBlock / kStep; ++i) {
      if constexpr (kPacking == Packing::kInt4) {
        StoreInt4(codes[i], out + i * kStep / 2);
      } else if constexpr (kStream) {
        hn::Stream(codes[i], kD8, reinterpret_cast<std::int8_t*>(out + i * kStep));
      } else {
        hn::StoreU(codes[i], kD8, reinterpret_cast<std::int8_t*>(out + i * kStep));
      }
    }
  }
};

// ---- groups

// kSize: of a group, or 0 if it is known only here. kGroups: of a batch.
template <class Lanes, Packing kPacking, bool kLimit, bool kStream, std::int64_t kSize,
          std::int64_t kGroups>
std::int64_t QuantizeAll(const QuantizeGroups& args) {
  // A scan that is two batches ahead leaves time to find the scales in between; a long
  // group has so much of it anyway, and two of them fit the cache.
  constexpr std::int64_t kAhead = kGroups == 1 ? 1 : 2;
  const EncodeGroups& codes = args.codes;
  const std::int64_t size = kSize != 0 ? kSize : codes.in.size;
  const std::int64_t batches =
      (codes.in.groups - (codes.in.last == codes.in.size ? 0 : 1)) / kGroups;
  if (batches <= 0) return 0;
  const std::int64_t stride = codes.stride;
  const float* const first = codes.in.values;
  const float* values = first;
  std::uint8_t* out = codes.codes;
  const BlockCoder<kPacking, kLimit> coder(codes);
  Batch ring[2];
  const auto scan = [&](const float* from, std::int64_t k, Batch& batch) HWY_ATTR {
    Lanes lanes;
    for (std::int64_t i = 0; i < size; i += kBlock) lanes.Add(from + i);
    batch.Scanned(k, lanes);
  };
  for (std::int64_t b = 0; b < kAhead && b < batches; ++b) {
    for (std::int64_t k = 0; k < kGroups; ++k) {
      scan(values + (b * kGroups + k) * size, k, ring[b]);
    }
  }
  std::int64_t found = 0;  // batches whose scales are known
  std::int64_t b = 0;
  if (kAhead == 2 && FindBatch<Lanes, kGroups>(args, 0, ring[0])) found = 1;
  for (; b < batches; ++b) {
    const std::int64_t next = b + kAhead - 1;
    if (found == next && next < batches &&
        FindBatch<Lanes, kGroups>(args, next * kGroups, ring[next & 1])) {
      found = next + 1;
    }
    if (b == found) break;
    const Batch& batch = ring[b & 1];
    const bool scans = b + kAhead < batches;
    Batch& scanned = ring[(b + kAhead) & 1];
    for (std::int64_t k = 0; k < kGroups; ++k) {
      const Factors factors = {hn::Set(kDF, batch.below[k]),
                               hn::Set(kDF, batch.above[k])};
      const auto encode = [&](std::int64_t i) HWY_ATTR {
        coder.template Encode<kStream>(values + i, factors, batch.divisors + k,
                                       out + (kPacking == Packing::kInt4 ? i / 2 : i));
      };
      if (scans) {
        Lanes lanes;
        for (std::int64_t i = 0; i < size; i += kBlock) {
          const float* later = values + i + kAhead * kGroups * size;
          Fetch(first, later - first);
          lanes.Add(later);
          encode(i);
        }
        scanned.Scanned(k, lanes);
      } else {
        for (std::int64_t i = 0; i < size; i += kBlock) encode(i);
      }
      values += size;
      out += stride;
    }
  }
  if (kStream) hwy::FlushStream();
  return b * kGroups;
}

template <class Lanes, Packing kPacking, bool kLimit, bool kStream>
HWY_INLINE std::int64_t BySize(const QuantizeGroups& args) {
  // With a constant size the loops over a group unroll.
  const std::int64_t size = args.codes.in.size;
  if (size == 32) {
    return QuantizeAll<Lanes, kPacking, kLimit, kStream, 32, quantize_batch(32)>(args);
  }
  if (size == 64) {
    return QuantizeAll<Lanes, kPacking, kLimit, kStream, 64, quantize_batch(64)>(args);
  }
  return quantize_batch(size) == 1
             ? QuantizeAll<Lanes, kPacking, kLimit, kStream, 0, 1>(args)
             : QuantizeAll<Lanes, kPacking, kLimit, kStream, 0, quantize_batch(96)>(args);
}

template <Packing kPacking, bool kLimit>
HWY_INLINE std::int64_t ByStores(const QuantizeGroups& args) {
  constexpr auto kVectorBytes = static_cast<std::int64_t>(sizeof(V8));
  const EncodeGroups& codes = args.codes;
  const bool stream = codes.stream && kPacking == Packing::kInt8 &&
                      reinterpret_cast<std::uintptr_t>(codes.codes) % kVectorBytes == 0 &&
                      codes.stride % kVectorBytes == 0;
  return stream ? BySize<MagnitudeLanes, kPacking, kLimit, true>(args)
                : BySize<MagnitudeLanes, kPacking, kLimit, false>(args);
}

std::int64_t QuantizeGroupsImpl(const QuantizeGroups& args) {
  const bool limit = args.codes.limit;
  switch (args.codes.packing) {
    case Packing::kInt8:
      return limit ? ByStores<Packing::kInt8, true>(args)
                   : ByStores<Packing::kInt8, false>(args);
    case Packing::kInt4:
      return limit ? ByStores<Packing::kInt4, true>(args)
                   : ByStores<Packing::kInt4, false>(args);
    case Packing::kInt4Halves:
      return QuantizeAll<SignedLanes, Packing::kInt4Halves, true, false, 32,
                         quantize_batch(32)>(args);
  }
  return 0;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(QuantizeGroupsImpl);

std::int64_t quantize_groups(const QuantizeGroups& args) noexcept {
  return PITH_DISPATCH(QuantizeGroupsImpl)(args);
}

}  // namespace pith::kernels
#endif
