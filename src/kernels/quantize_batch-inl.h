// The groups of a batch until they are encoded: their extremes, their scales, and what
// values are multiplied with. Included once per target.
#if defined(PITH_KERNELS_QUANTIZE_BATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_QUANTIZE_BATCH_INL_H_
#undef PITH_KERNELS_QUANTIZE_BATCH_INL_H_
#else
#define PITH_KERNELS_QUANTIZE_BATCH_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "src/kernels/absmax-inl.h"
#include "src/kernels/block_coder-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/scales-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// The largest of each lane of a group that is being scanned.
struct MagnitudeLanes {
  VU largest;

  // What scans of all groups share.
  struct Mask {
    VU magnitude = Fixed(hn::Set(kDU, kMagnitudeMask));
    HWY_INLINE Mask() {}
    [[nodiscard]] HWY_INLINE VU Of(const float* values) const {
      return hn::And(Bits(values), magnitude);
    }
  };

  HWY_INLINE MagnitudeLanes() : largest(hn::Zero(kDU)) {}

  HWY_INLINE void Set(std::uint32_t bits) { largest = hn::Set(kDU, bits); }

  // The first block of a group, and any other.
  HWY_INLINE void Begin(const float* values, const Mask& mask) {
    largest = Four(values, mask);
    for (std::int64_t i = 4 * kLanes; i < kBlock; i += 4 * kLanes) {
      largest = hn::Max(largest, Four(values + i, mask));
    }
  }
  HWY_INLINE void Add(const float* values, const Mask& mask) {
    const VU before = largest;
    Begin(values, mask);
    largest = hn::Max(largest, before);
  }

 private:
  static HWY_INLINE VU Four(const float* values, const Mask& mask) {
    const VU a = hn::Max(mask.Of(values), mask.Of(values + kLanes));
    const VU b = hn::Max(mask.Of(values + 2 * kLanes), mask.Of(values + 3 * kLanes));
    return hn::Max(a, b);
  }
};

// The same, with and without the sign bit apart.
struct SignedLanes {
  VU positive;
  VU negative;

  struct Mask {};

  HWY_INLINE SignedLanes() : positive(hn::Zero(kDU)), negative(hn::Zero(kDU)) {}

  HWY_INLINE void Begin(const float* values, Mask mask) {
    positive = negative = Bits(values);
    AddFrom(kLanes, values, mask);
  }
  HWY_INLINE void Add(const float* values, Mask mask) { AddFrom(0, values, mask); }

 private:
  HWY_INLINE void AddFrom(std::int64_t first, const float* values, Mask) {
    for (std::int64_t i = first; i < kBlock; i += kLanes) {
      const VU bits = Bits(values + i);
      positive = LargestPositive::Max(positive, bits);
      negative = LargestNegative::Max(negative, bits);
    }
  }
};

// Groups that have been scanned, whose scales are known, that are encoded: the next
// kEach of each stream. A long group is a batch of its own.
template <std::int64_t kGroups, std::int64_t kEach>
struct Batch {
  static constexpr std::int64_t kRoom = kGroups < kLanes ? kLanes : kGroups;

  std::int64_t first;  // group, of the first stream
  std::int64_t apart;  // groups from one stream to the next
  alignas(32) std::uint32_t lanes[2][kRoom][kLanes];  // the second for signs
  alignas(32) float divisors[kRoom];
  alignas(32) float factors[kRoom];
  alignas(32) float values[kRoom];  // of the scales as they are stored
  alignas(32) std::uint8_t bits[kRoom * sizeof(float)];  // one after the other

  [[nodiscard]] HWY_INLINE std::int64_t Group(std::int64_t k) const {
    return first + k / kEach * apart + k % kEach;
  }

  HWY_INLINE void Scanned(std::int64_t k, const MagnitudeLanes& group) {
    hn::Store(group.largest, kDU, lanes[0][k]);
  }
  HWY_INLINE void Scanned(std::int64_t k, const SignedLanes& group) {
    hn::Store(group.positive, kDU, lanes[0][k]);
    hn::Store(group.negative, kDU, lanes[1][k]);
  }
};

// ---- extremes

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

template <std::int64_t kGroups, std::int64_t kEach>
HWY_INLINE VF Extremes(MagnitudeLanes, const Batch<kGroups, kEach>& batch, std::int64_t k,
                       const Groups&) {
  return hn::BitCast(kDF, Largest<Absmax, kGroups == 1>(batch.lanes[0] + k));
}

// Where both signs reach the largest magnitude, the first value decides.
template <std::int64_t kGroups, std::int64_t kEach>
HWY_NOINLINE void FirstOfLargest(const Batch<kGroups, kEach>& batch, std::int64_t k,
                                 const Groups& in, std::uint32_t tied, float* extremes) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    if ((tied >> lane & 1) == 0) continue;
    const float* values = in.values + batch.Group(k + lane) * in.size;
    while (__builtin_fabsf(*values) != extremes[lane]) ++values;
    extremes[lane] = *values;
  }
}

template <std::int64_t kGroups, std::int64_t kEach>
HWY_INLINE VF Extremes(SignedLanes, const Batch<kGroups, kEach>& batch, std::int64_t k,
                       const Groups& in) {
  constexpr bool kLong = kGroups == 1;
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
  FirstOfLargest(batch, k, in, bits[0], extremes);
  return hn::Load(kDF, extremes);
}

// ---- scales

// Scales of a batch, which it keeps. False if one of them is not ordinary.
template <class Lanes, class Type, std::int64_t kGroups, std::int64_t kEach>
bool FindScalesOfBatch(const QuantizeGroups& args, Batch<kGroups, kEach>& batch) {
  const FindScales& rule = args.scales;
  const VF zero = hn::Zero(kDF);
  const VF one = hn::Set(kDF, 1.0F);
  const VF denominator = hn::Set(kDF, rule.denominator);
  const VF smallest =
      hn::Set(kDF, Type::kSmallestNormal > kSmallestFactor ? Type::kSmallestNormal
                                                           : kSmallestFactor);
  const VF largest = hn::Set(kDF, kLargestFactor);
  const VF overflow = hn::Set(kDF, Type::kOverflow);
  auto* bits = reinterpret_cast<typename Type::Stored*>(batch.bits);
  MF usual = hn::Eq(zero, zero);
  for (std::int64_t k = 0; k < kGroups; k += kLanes) {
    const VF extreme = Extremes(Lanes(), batch, k, args.codes.in);
    const VF exact = hn::Div(extreme, denominator);
    const MF is_zero = hn::Eq(extreme, zero);
    VF scale = exact;
    if (rule.zero_scale != 0) {
      scale = hn::IfThenElse(is_zero, hn::Set(kDF, rule.zero_scale), exact);
    }
    const VF value = Type::Store(scale, bits + k);
    const VF magnitude = hn::Abs(value);
    const MF inside = hn::And(hn::Ge(magnitude, smallest), hn::Le(magnitude, largest));
    const MF fits = hn::Lt(hn::Abs(exact), overflow);  // not NaN, either
    usual = hn::And(usual, hn::Or(is_zero, hn::And(inside, fits)));
    const VF divisor = rule.coding == Coding::kStored ? value : exact;
    const VF factor = hn::IfThenZeroElse(is_zero, hn::Div(one, divisor));
    hn::Store(factor, kDF, batch.factors + k);
    if (args.codes.inverse) {
      hn::Store(factor, kDF, batch.divisors + k);
    } else {
      const VF infinity = hn::Set(kDF, std::numeric_limits<float>::infinity());
      hn::Store(hn::IfThenElse(is_zero, infinity, divisor), kDF, batch.divisors + k);
    }
    hn::Store(value, kDF, batch.values + k);
  }
  return hn::AllTrue(kDF, usual);
}

template <class Lanes, std::int64_t kGroups, std::int64_t kEach>
HWY_NOINLINE bool FindBatch(const QuantizeGroups& args, Batch<kGroups, kEach>& batch) {
  switch (args.scales.type) {
    case DType::kF16:
      return FindScalesOfBatch<Lanes, F16>(args, batch);
    case DType::kBF16:
      return FindScalesOfBatch<Lanes, BF16>(args, batch);
    default:
      return FindScalesOfBatch<Lanes, F32>(args, batch);
  }
}

template <std::int64_t kBytes, std::int64_t kGroups, std::int64_t kEach>
HWY_INLINE void StoreBits(const FindScales& rule, const Batch<kGroups, kEach>& batch) {
  const std::int64_t stride = rule.stored_stride;
  const std::uint8_t* bits = batch.bits;
  std::uint8_t* stored = rule.stored + batch.first * stride;
  for (std::int64_t k = 0; k < kGroups; k += kEach, bits += kEach * kBytes) {
    if (stride == kBytes) {
      std::memcpy(stored, bits, kEach * kBytes);
    } else {
      for (std::int64_t e = 0; e < kEach; ++e) {
        std::memcpy(stored + e * stride, bits + e * kBytes, kBytes);
      }
    }
    stored += batch.apart * stride;
  }
}

// Stores what has been found.
template <std::int64_t kGroups, std::int64_t kEach>
HWY_INLINE void StoreScales(const FindScales& rule, const Batch<kGroups, kEach>& batch) {
  if (rule.type == DType::kF32) {
    StoreBits<4>(rule, batch);
  } else {
    StoreBits<2>(rule, batch);
  }
  if (rule.scales == nullptr) return;
  for (std::int64_t k = 0; k < kGroups; k += kEach) {
    constexpr std::size_t kBytes = kEach * sizeof(float);
    std::memcpy(rule.scales + batch.Group(k), batch.values + k, kBytes);
    std::memcpy(rule.divisors + batch.Group(k), batch.divisors + k, kBytes);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_QUANTIZE_BATCH_INL_H_
