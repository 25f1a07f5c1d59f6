// The largest magnitudes of groups, on the bits of the values: without the sign they
// order like magnitudes, and NaN and infinity show as the largest of all. Included once
// per target.
#if defined(PITH_KERNELS_ABSMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_ABSMAX_INL_H_
#undef PITH_KERNELS_ABSMAX_INL_H_
#else
#define PITH_KERNELS_ABSMAX_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLongGroup = 16384;  // values that are read in streams

HWY_INLINE VU Bits(const float* values) {
  return hn::LoadU(kDU, reinterpret_cast<const std::uint32_t*>(values));
}

// Magnitudes without the sign, ...
struct Absmax {
  static HWY_INLINE VU Of(VU bits) { return hn::And(bits, hn::Set(kDU, kMagnitudeMask)); }
  static HWY_INLINE VU Max(VU a, VU b) { return hn::Max(a, b); }
  static HWY_INLINE VU Finish(VU bits) { return bits; }
};

// ... as signed integers, of which values with the sign bit are below 0, ...
struct LargestPositive {
  static HWY_INLINE VU Of(VU bits) { return bits; }
  static HWY_INLINE VU Max(VU a, VU b) {
    return hn::BitCast(kDU, hn::Max(hn::BitCast(kDI, a), hn::BitCast(kDI, b)));
  }
  static HWY_INLINE VU Finish(VU bits) { return Max(bits, hn::Zero(kDU)); }
};

// ... as unsigned ones, of which those with the sign bit are the largest.
struct LargestNegative {
  static HWY_INLINE VU Of(VU bits) { return bits; }
  static HWY_INLINE VU Max(VU a, VU b) { return hn::Max(a, b); }
  static HWY_INLINE VU Finish(VU bits) {
    return hn::And(hn::And(bits, hn::Set(kDU, kMagnitudeMask)),
                   hn::BitCast(kDU, hn::BroadcastSignBit(hn::BitCast(kDI, bits))));
  }
};

// The largest of each lane over `size` values, a multiple of the lanes and not 0.
template <class Op>
HWY_INLINE VU LaneMax(const float* values, std::int64_t size) {
  VU a = Op::Of(Bits(values));
  if (size < 4 * kLanes) {
    for (std::int64_t i = kLanes; i < size; i += kLanes) {
      a = Op::Max(a, Op::Of(Bits(values + i)));
    }
    return a;
  }
  VU b = Op::Of(Bits(values + kLanes));
  VU c = Op::Of(Bits(values + 2 * kLanes));
  VU d = Op::Of(Bits(values + 3 * kLanes));
  std::int64_t i = 4 * kLanes;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    a = Op::Max(a, Op::Of(Bits(values + i)));
    b = Op::Max(b, Op::Of(Bits(values + i + kLanes)));
    c = Op::Max(c, Op::Of(Bits(values + i + 2 * kLanes)));
    d = Op::Max(d, Op::Of(Bits(values + i + 3 * kLanes)));
  }
  for (; i < size; i += kLanes) a = Op::Max(a, Op::Of(Bits(values + i)));
  return Op::Max(Op::Max(a, b), Op::Max(c, d));
}

// The same of very many values: memory gives four streams at once more than one. They are
// not a power of two apart, which would make them meet in the cache.
template <class Op>
HWY_INLINE VU LongMax(const float* values, std::int64_t size) {
  constexpr std::int64_t kLine = 16;
  constexpr std::int64_t kAhead = 8 * kLine;
  const std::int64_t stream = size / 4 / kLine * kLine - 3 * kLine;
  VU largest[4] = {Op::Of(Bits(values)), Op::Of(Bits(values + stream)),
                   Op::Of(Bits(values + 2 * stream)), Op::Of(Bits(values + 3 * stream))};
  for (std::int64_t i = 0; i < stream; i += kLine) {
    for (int s = 0; s < 4; ++s) {
      const float* line = values + s * stream + i;
      hwy::Prefetch(line + kAhead);
      for (std::int64_t v = 0; v < kLine; v += kLanes) {
        largest[s] = Op::Max(largest[s], Op::Of(Bits(line + v)));
      }
    }
  }
  const VU rest = LaneMax<Op>(values + 4 * stream, size - 4 * stream);
  return Op::Max(
      rest, Op::Max(Op::Max(largest[0], largest[1]), Op::Max(largest[2], largest[3])));
}

// The largest of all lanes, in all lanes.
template <class Op>
HWY_INLINE VU AcrossLanes(VU v) {
  if constexpr (kLanes == 8) v = Op::Max(v, hn::SwapAdjacentBlocks(v));
  v = Op::Max(v, hn::Shuffle1032(v));
  return Op::Max(v, hn::Shuffle2301(v));
}

template <class Op>
HWY_INLINE std::uint32_t GroupMax(const float* values, std::int64_t size) {
  if (size == 0) return 0;
  VU largest;
  if (size >= kLanes) {
    // The last vector may overlap the one before: a maximum does not mind.
    const std::int64_t whole = size / kLanes * kLanes;
    largest =
        whole < kLongGroup ? LaneMax<Op>(values, whole) : LongMax<Op>(values, whole);
    if (size % kLanes != 0) {
      largest = Op::Max(largest, Op::Of(Bits(values + size - kLanes)));
    }
  } else {
    alignas(32) float padded[kLanes];  // with the first value again
    for (std::int64_t i = 0; i < kLanes; ++i) padded[i] = values[i < size ? i : 0];
    largest = Op::Of(Bits(padded));
  }
  return hn::GetLane(Op::Finish(AcrossLanes<Op>(largest)));
}

// Lanes 4 b ... 4 b + 3 of the result: the largest of block b (128 bits) of v0 ... v3.
template <class Op>
HWY_INLINE VU Transpose4(VU v0, VU v1, VU v2, VU v3) {
  constexpr hn::Repartition<std::uint64_t, DU> d64;
  const VU v01 =
      Op::Max(hn::InterleaveLower(kDU, v0, v1), hn::InterleaveUpper(kDU, v0, v1));
  const VU v23 =
      Op::Max(hn::InterleaveLower(kDU, v2, v3), hn::InterleaveUpper(kDU, v2, v3));
  const auto a = hn::BitCast(d64, v01);
  const auto b = hn::BitCast(d64, v23);
  return Op::Max(hn::BitCast(kDU, hn::InterleaveLower(d64, a, b)),
                 hn::BitCast(kDU, hn::InterleaveUpper(d64, a, b)));
}

// As many groups as there are lanes, reduced together: a horizontal maximum of each would
// cost more than the values of a small group.
template <class Op>
HWY_INLINE VU GroupMaxes(const float* values, std::int64_t size) {
  const auto lanes = [&](std::int64_t group)
                         HWY_ATTR { return LaneMax<Op>(values + group * size, size); };
  const VU low = Transpose4<Op>(lanes(0), lanes(1), lanes(2), lanes(3));
  if constexpr (kLanes == 8) {
    const VU high = Transpose4<Op>(lanes(4), lanes(5), lanes(6), lanes(7));
    return Op::Finish(Op::Max(hn::ConcatLowerLower(kDU, high, low),
                              hn::ConcatUpperUpper(kDU, high, low)));
  } else {
    return Op::Finish(low);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_ABSMAX_INL_H_
