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
    return hn::PromoteTo(kDF, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
  }
}

HWY_INLINE VF LoadValues(const float* values) { return hn::LoadU(kDF, values); }
template <class T>
HWY_INLINE VF LoadValues(const T* values) {
  return Promoted<T>(
      hn::LoadU(DHalves(), reinterpret_cast<const std::uint16_t*>(values)));
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

// The values of a block of error sums and their codes.
struct MadeBlock {
  alignas(64) std::int32_t codes[kErrorBlock];
  alignas(64) float converted[kErrorBlock];
};

template <class T>
HWY_INLINE void MakeCodes(const ProductCoder& coder, const float* factors,
                          std::int64_t groups, const T* values, MadeBlock& made) {
  std::int32_t* codes = made.codes;
  float* before = made.converted;
  for (std::int64_t g = 0, end = Unknown(groups); g < end; ++g) {
    const VF factor = hn::Set(kDF, factors[g]);
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      const VF value = LoadValues(values + i);
      if constexpr (!hwy::IsSame<T, float>()) hn::Store(value, kDF, before + i);
      hn::Store(coder.Code(value, factor), kDI, codes + i);
    }
    values += kBlock;
    codes += kBlock;
    before += kBlock;
  }
}

// The bytes of codes, as the file has them.
HWY_INLINE void MakeBytes(const std::int32_t* codes, std::int64_t groups,
                          std::uint8_t* out, std::int64_t stride, CodeZeros& zeros) {
  for (std::int64_t g = 0, end = Unknown(groups); g < end; ++g) {
    for (std::int64_t i = 0; i < kBlock; i += kStep, codes += kStep) {
      const auto some = [&](std::int64_t k)
                            HWY_ATTR { return hn::Load(kDI, codes + k * kLanes); };
      const V8 bytes = ProductCoder::Packed(some(0), some(1), some(2), some(3));
      zeros.Add(i, bytes);
      hn::StoreU(bytes, kD8, reinterpret_cast<std::int8_t*>(out + i));
    }
    out += stride;
  }
}

struct MadeSlices {
  const float* before;
  const std::int32_t* codes;
  const float* scales;

  HWY_INLINE CodeSlice<std::int32_t> Next() {
    const CodeSlice<std::int32_t> slice = {before, codes, hn::Set(kDF, *scales)};
    before += kSlice;
    codes += kSlice;
    ++scales;
    return slice;
  }
};

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
  for (std::int64_t first = 0; first < groups; first += kMade) {
    const std::int64_t some = HWY_MIN(kMade, groups - first);
    const T* from = values + first * kBlock;
    // What values are multiplied with.
    const float* factors = args.scales.divisors + first;
    const float* scales = args.scales.scales + first;
    MakeCodes(coder, factors, some, from, made);
    MakeBytes(made.codes, some, args.codes.codes + first * stride, stride, zeros);
    MadeSlices slices = {made.converted, made.codes, scales};
    if constexpr (hwy::IsSame<T, float>()) slices.before = from;
    totals.template AddBlock<false, !Scan::kFindsZeros>(slices, some * kBlock);
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
#if HWY_TARGET != HWY_SSE4  // which has no instruction for f16
    case DType::kF16:
      return QuantizeBlocks<HalfScan<F16Value>>(
          args, static_cast<const F16Value*>(values), sums);
#endif
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
