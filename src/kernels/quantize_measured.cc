// Scales, codes and sums of errors of Q8_0 in one go. Values are read once to find scales
// and once to make codes; what they are and their codes, as integers, are kept for the
// sums, which need not take bytes apart again. Codes, bytes and sums of a block are three
// loops: in one there are more steps from a value to its sums than a processor looks ahead.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/quantize_measured.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/block_coder-inl.h"
#include "src/kernels/error-inl.h"
#include "src/kernels/error.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"
#include "src/kernels/quantize_batch-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

static_assert(kBlock == kSlice);
constexpr std::int64_t kFew = quantize_batch(kBlock);  // groups at the least
constexpr std::int64_t kMade = kErrorBlock / kBlock;   // groups of a block

// ---- values of memory

// What memory holds of values of 16 bits.
struct BF16Value {
  std::uint16_t bits;
};
struct F16Value {
  std::uint16_t bits;
};
using D16 = hn::Repartition<std::uint16_t, DF>;
using V16 = hn::Vec<D16>;
using DHalves = hn::Rebind<std::uint16_t, DF>;  // as many as there are floats

HWY_INLINE V16 LoadBits(const void* values) {
  return hn::LoadU(D16(), static_cast<const std::uint16_t*>(values));
}

// Some of them as f32.
template <class T>
HWY_INLINE VF Promoted(hn::Vec<DHalves> bits) {
  if constexpr (hwy::IsSame<T, BF16Value>()) {
    return hn::BitCast(kDF, hn::ShiftLeft<16>(hn::PromoteTo(kDU, bits)));
  } else {
#if HWY_TARGET == HWY_SSE4  // which has no instruction for it
    const VU wide = hn::PromoteTo(kDU, bits);
    const VU magnitude = hn::And(wide, hn::Set(kDU, 0x7fffu));
    const VF value =
        hn::Mul(hn::BitCast(kDF, hn::ShiftLeft<13>(magnitude)), hn::Set(kDF, 0x1p112F));
    const VF infinity = hn::BitCast(kDF, hn::Set(kDU, kInfinityBits));
    const auto is_finite = hn::Lt(hn::BitCast(kDI, magnitude), hn::Set(kDI, 0x7c00));
    const VU sign = hn::ShiftLeft<16>(hn::Xor(wide, magnitude));
    return hn::Or(hn::IfThenElse(hn::RebindMask(kDF, is_finite), value, infinity),
                  hn::BitCast(kDF, sign));
#else
    return hn::PromoteTo(kDF, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
#endif
  }
}

// Sixteen values as they come to the sums: f32 and f16 in their order, ...
constexpr std::int64_t kUnit = 16 / kLanes;

template <class T>
HWY_INLINE void LoadUnit(const T* values, VF (&unit)[kUnit]) {
  for (std::int64_t k = 0; k < kUnit; ++k) {
    if constexpr (hwy::IsSame<T, float>()) {
      unit[k] = hn::LoadU(kDF, values + k * kLanes);
    } else {
      const auto* bits = reinterpret_cast<const std::uint16_t*>(values);
      unit[k] = Promoted<T>(hn::LoadU(DHalves(), bits + k * kLanes));
    }
  }
}
// ... bf16 as 0 to 3, 8 to 11, 4 to 7, 12 to 15: to put zeros between them takes one step,
// to put them in order three.
HWY_INLINE void LoadUnit(const BF16Value* values, VF (&unit)[kUnit]) {
  const V16 zero = hn::Zero(D16());
  for (std::int64_t k = 0; k < kUnit / 2; ++k) {
    const V16 bits = LoadBits(values + 2 * k * kLanes);
    unit[k] = hn::BitCast(kDF, hn::InterleaveLower(D16(), zero, bits));
    unit[kUnit / 2 + k] = hn::BitCast(kDF, hn::InterleaveUpper(D16(), zero, bits));
  }
}

// Extremes of groups of f32. Zeros show in the sums.
struct FloatScan {
  static constexpr bool kFindsZeros = false;
  MagnitudeLanes::Mask mask;

  HWY_INLINE FloatScan() {}
  HWY_INLINE MagnitudeLanes Group(const float* values) {
    MagnitudeLanes lanes;
    lanes.Begin(values, mask);
    return lanes;
  }
  [[nodiscard]] HWY_INLINE bool SawZero() const { return false; }
};

// Of 16 bits, which order as the numbers do, in half as many steps.
template <class T>
class HalfScan {
 public:
  static constexpr bool kFindsZeros = true;

  HWY_INLINE HalfScan() : mask_(hn::Set(D16(), std::uint16_t{0x7fff})), least_(mask_) {}

  HWY_INLINE MagnitudeLanes Group(const T* values) {
    constexpr auto kHalves = static_cast<std::int64_t>(hn::MaxLanes(D16()));
    V16 largest = hn::And(LoadBits(values), mask_);
    V16 smallest = largest;
    for (std::int64_t i = kHalves; i < kBlock; i += kHalves) {
      const V16 some = hn::And(LoadBits(values + i), mask_);
      largest = hn::Max(largest, some);
      smallest = hn::Min(smallest, some);
    }
    least_ = hn::Min(least_, smallest);
    constexpr hn::Half<D16> half;
    MagnitudeLanes lanes;
    lanes.largest = hn::BitCast(kDU, Promoted<T>(hn::Max(hn::LowerHalf(half, largest),
                                                         hn::UpperHalf(half, largest))));
    return lanes;
  }
  [[nodiscard]] HWY_INLINE bool SawZero() const {
    return !hn::AllFalse(D16(), hn::Eq(least_, hn::Zero(D16())));
  }

 private:
  V16 mask_;
  V16 least_;
};

HWY_INLINE std::int64_t CountZeroValues(const float* values, std::int64_t n) {
  return CountZeros(values, n);
}
template <class T>
HWY_INLINE std::int64_t CountZeroValues(const T* values, std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += (values[i].bits & 0x7fff) == 0 ? 1 : 0;
  return count;
}

// ---- scales

// Stores the scales of some groups, and leaves them and their factors in args.scales.
// False if one of the groups is not ordinary.
template <std::int64_t kSome, class Scan, class T>
HWY_INLINE bool FindSome(const QuantizeGroups& args, const T* values, std::int64_t first,
                         Scan& scan, VF& largest) {
  Batch<kSome, kSome> batch;
  batch.first = first;
  batch.apart = 0;
  for (std::int64_t k = 0; k < kSome; ++k) {
    batch.Scanned(k, scan.Group(values + (first + k) * kBlock));
  }
  if (!FindBatch<MagnitudeLanes>(args, batch)) return false;
  StoreScales(args.scales, batch);
  for (std::int64_t k = 0; k < kSome; k += kLanes) {
    largest = hn::Max(largest, hn::Load(kDF, batch.values + k));
  }
  return true;
}

// Those of all groups. The largest of them; -1 if a group is not ordinary.
template <class Scan, class T>
HWY_INLINE float FindAll(const QuantizeGroups& args, const T* values, Scan& scan) {
  constexpr std::int64_t kMany = 4 * kFew;
  const std::int64_t groups = args.codes.in.groups;
  VF largest = hn::Zero(kDF);
  std::int64_t g = 0;
  for (; g + kMany <= groups; g += kMany) {
    if (!FindSome<kMany>(args, values, g, scan, largest)) return -1;
  }
  for (; g < groups; g += kFew) {
    if (!FindSome<kFew>(args, values, g, scan, largest)) return -1;
  }
  return hn::GetLane(hn::MaxOfLanes(kDF, largest));
}

// ---- what is made of them

// The values of a block of error sums, their codes, and sums of the squares of codes.
struct MadeBlock {
  alignas(64) std::int32_t codes[kErrorBlock];
  alignas(64) float converted[kErrorBlock];
  alignas(64) std::uint32_t squares[kMade][kLanes];
};

template <class T>
HWY_INLINE void MakeCodes(const ProductCoder& coder, const float* factors,
                          std::int64_t groups, const T* values, MadeBlock& made) {
  std::int32_t* codes = made.codes;
  float* before = made.converted;
  for (std::int64_t g = 0, end = Unknown(groups); g < end; ++g) {
    const VF factor = hn::Set(kDF, factors[g]);
    for (std::int64_t i = 0; i < kBlock; i += 16) {
      VF unit[kUnit];
      LoadUnit(values + i, unit);
      for (std::int64_t k = 0; k < kUnit; ++k) {
        const std::int64_t at = i + k * kLanes;
        if constexpr (!hwy::IsSame<T, float>()) hn::Store(unit[k], kDF, before + at);
        hn::Store(coder.Code(unit[k], factor), kDI, codes + at);
      }
    }
    values += kBlock;
    codes += kBlock;
    before += kBlock;
  }
}

// The bytes of codes, in the order of their values, as the file has them.
template <class T>
HWY_INLINE void MakeBytes(std::int64_t groups, std::uint8_t* out, std::int64_t stride,
                          MadeBlock& made, CodeZeros& zeros) {
  constexpr hn::Repartition<std::int16_t, DF> d16;
  constexpr bool kInOrder = !hwy::IsSame<T, BF16Value>();
  const std::int32_t* codes = made.codes;
  for (std::int64_t g = 0, end = Unknown(groups); g < end; ++g) {
    VI squares = hn::Zero(kDI);
    VI others = squares;  // of processors that add half of them apart
    for (std::int64_t i = 0; i < kBlock; i += kStep, codes += kStep) {
      const auto pair = [&](std::int64_t a, std::int64_t b) HWY_ATTR {
        return hn::ReorderDemote2To(d16, hn::Load(kDI, codes + a * kLanes),
                                    hn::Load(kDI, codes + b * kLanes));
      };
      constexpr bool kSwap = !kInOrder && kLanes == 4;
      const auto low = kSwap ? pair(0, 2) : pair(0, 1);
      const auto high = kSwap ? pair(1, 3) : pair(2, 3);
      squares = hn::ReorderWidenMulAccumulate(kDI, low, low, squares, others);
      squares = hn::ReorderWidenMulAccumulate(kDI, high, high, squares, others);
      const V8 bytes = InOrder<kInOrder>(PackBytes(low, high));
      zeros.Add(i, bytes);
      hn::StoreU(bytes, kD8, reinterpret_cast<std::int8_t*>(out + i));
    }
    hn::Store(hn::BitCast(kDU, hn::Add(squares, others)), kDU, made.squares[g]);
    out += stride;
  }
}

// Group g goes to lane g mod 8 of the squares after: squares of codes are added as
// integers, whichever lanes they come from. kExact: f32 holds products of scales and codes,
// so that a fused difference is the same number.
template <bool kExact, bool kLeast>
HWY_INLINE void AddMade(const MadeBlock& made, const float* before, const float* scales,
                        std::int64_t groups, ErrorTotals& totals) {
  FloatSums sums[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    FloatSums block;
    ErrorExtremes extreme = totals.extremes[v];
    const std::int32_t* codes = made.codes;
    const float* values = before;
    for (std::int64_t g = 0, end = Unknown(groups); g < end; ++g) {
      const VF scale = hn::Set(kDF, scales[g]);
      const auto error = [&](std::int64_t i, VF value) HWY_ATTR {
        const VF code = hn::ConvertTo(kDF, hn::Load(kDI, codes + i));
        return kExact ? hn::NegMulAdd(scale, code, value)
                      : hn::Sub(value, hn::Mul(scale, code));
      };
      for (std::int64_t i = v * kLanes; i < kBlock; i += 16) {
        const VF x0 = hn::LoadU(kDF, values + i);
        const VF x1 = hn::LoadU(kDF, values + i + 8);
        AddErrors<false, kLeast>(x0, error(i, x0), x1, error(i + 8, x1), block, extreme);
      }
      codes += kBlock;
      values += kBlock;
    }
    for (std::int64_t g = v * kLanes; g < groups; g += 8) {
      const VF scale = hn::LoadU(kDF, scales + g);
      const VU squares = Largest<LaneSum, false>(made.squares + g);
      block.squared_after = hn::Add(
          block.squared_after,
          hn::Mul(hn::Mul(scale, scale), hn::ConvertTo(kDF, hn::BitCast(kDI, squares))));
    }
    totals.extremes[v] = extreme;
    sums[v] = block;
  }
  totals.AddSums(sums);
}

template <class Scan, class T>
float QuantizeBlocks(const QuantizeGroups& args, const T* values, ErrorSums& sums) {
  const std::int64_t groups = args.codes.in.groups;
  const std::int64_t stride = args.codes.stride;
  const ProductCoder coder(args);
  Scan scan;
  CodeZeros zeros;
  ErrorTotals totals;
  MadeBlock made;
  const float scale = FindAll(args, values, scan);
  if (scale < 0) return scale;
  const bool exact = args.scales.type != DType::kF32;
  for (std::int64_t first = 0; first < groups; first += kMade) {
    const std::int64_t some = HWY_MIN(kMade, groups - first);
    const T* from = values + first * kBlock;
    // What values are multiplied with.
    const float* factors = args.scales.divisors + first;
    const float* scales = args.scales.scales + first;
    MakeCodes(coder, factors, some, from, made);
    MakeBytes<T>(some, args.codes.codes + first * stride, stride, made, zeros);
    const float* before = made.converted;
    if constexpr (hwy::IsSame<T, float>()) before = from;
    if (HWY_LIKELY(exact)) {
      AddMade<true, !Scan::kFindsZeros>(made, before, scales, some, totals);
    } else {
      AddMade<false, !Scan::kFindsZeros>(made, before, scales, some, totals);
    }
  }
  if (scan.SawZero()) totals.SetZeros();
  sums =
      totals.Finish([&]() HWY_ATTR { return CountZeroValues(values, groups * kBlock); });
  sums.zeros_after = zeros.Total();
  sums.max_error = -1;
  return scale;
}

}  // namespace

float QuantizeMeasuredImpl(const QuantizeGroups& args, DType from, const void* values,
                           ErrorSums& sums) {
  const Groups& in = args.codes.in;
  if (!ProductCoder::Knows(args.codes) || in.size != kBlock || in.last != kBlock ||
      in.groups <= 0 || in.groups > CodeZeros::kMostSlices || in.groups % kFew != 0) {
    return -1;
  }
  switch (from) {
    case DType::kF32:
      return QuantizeBlocks<FloatScan>(args, static_cast<const float*>(values), sums);
    case DType::kBF16:
      return QuantizeBlocks<HalfScan<BF16Value>>(
          args, static_cast<const BF16Value*>(values), sums);
    case DType::kF16:
      return QuantizeBlocks<HalfScan<F16Value>>(
          args, static_cast<const F16Value*>(values), sums);
    default:
      return -1;
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(QuantizeMeasuredImpl);

float quantize_measured(const QuantizeGroups& args, DType from, const void* values,
                        ErrorSums& sums) noexcept {
  return PITH_DISPATCH(QuantizeMeasuredImpl)(args, from, values, sums);
}

}  // namespace pith::kernels
#endif
