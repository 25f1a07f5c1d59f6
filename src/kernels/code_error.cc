// Sums of errors of codes, whose values are never in memory.
#include <cfloat>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/code_error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/error-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

using Slice = CodeSlice<std::int8_t>;

// The slices of groups, which are whole numbers of them: of one each if kShort.
template <bool kShort>
class CodeSlices {
 public:
  HWY_INLINE CodeSlices(const DecodeGroups& args, const float* before)
      : before_(before),
        codes_(reinterpret_cast<const std::int8_t*>(args.codes)),
        scales_(args.scales),
        slices_(args.size / kSlice),
        left_(slices_),
        gap_(args.stride - args.size),
        step_(args.one_scale ? 0 : 1) {}

  HWY_INLINE Slice Next() {
    const Slice slice = {before_, codes_, hn::Set(kDF, *scales_)};
    before_ += kSlice;
    codes_ += kSlice;
    if (kShort || --left_ == 0) {
      left_ = slices_;
      codes_ += gap_;
      scales_ += step_;
    }
    for (std::int64_t i = 0; i < kSlice; i += CodeZeros::kBytes) {
      zeros_.Add(i, hn::LoadU(CodeZeros::D8(), slice.codes + i));
    }
    return slice;
  }

  // So far.
  [[nodiscard]] HWY_INLINE std::int64_t Zeros() const { return zeros_.Total(); }

 private:
  const float* before_;
  const std::int8_t* codes_;
  const float* scales_;
  std::int64_t slices_;  // of a group
  std::int64_t left_;    // of this group
  std::int64_t gap_;     // bytes between groups
  std::int64_t step_;
  CodeZeros zeros_;
};

template <bool kShort, bool kLargest>
ErrorSums SumsOf(const DecodeGroups& args, const float* before) {
  const std::int64_t n = args.groups * args.size;
  CodeSlices<kShort> slices(args, before);
  ErrorTotals totals;
  for (std::int64_t i = 0; i < n; i += kErrorBlock) {
    totals.template AddBlock<kLargest>(slices, HWY_MIN(kErrorBlock, n - i));
  }
  ErrorSums sums = totals.Finish([&]() HWY_ATTR { return CountZeros(before, n); });
  sums.zeros_after = slices.Zeros();
  if (!kLargest) sums.max_error = -1;
  return sums;
}

}  // namespace

ErrorSums CodeErrorSumsImpl(const DecodeGroups& args, const float* before, bool largest) {
  if (args.size == kSlice) {
    return largest ? SumsOf<true, true>(args, before) : SumsOf<true, false>(args, before);
  }
  return largest ? SumsOf<false, true>(args, before) : SumsOf<false, false>(args, before);
}

// The largest magnitude; 0 if a scale is 0, subnormal or NaN: if none is, no product is 0,
// unless the code is.
float LargestScaleImpl(const float* scales, std::int64_t n) {
  const VF smallest = hn::Set(kDF, FLT_MIN);
  VF largest = hn::Zero(kDF);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF some = hn::Abs(hn::LoadU(kDF, scales + i));
    if (!hn::AllTrue(kDF, hn::Ge(some, smallest))) return 0;
    largest = hn::Max(largest, some);
  }
  float found = hn::GetLane(hn::MaxOfLanes(kDF, largest));
  for (; i < n; ++i) {
    const float scale = __builtin_fabsf(scales[i]);
    if (!(scale >= FLT_MIN)) return 0;
    if (scale > found) found = scale;
  }
  return found;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(CodeErrorSumsImpl);
PITH_EXPORT(LargestScaleImpl);

float code_error_scale(const DecodeGroups& args) noexcept {
  constexpr std::int64_t kMostCodes = 4096;  // 128 slices, whose zeros a byte can count
  if (args.packing != Packing::kInt8 || args.zero_points != nullptr ||
      args.size % 32 != 0 || args.last != args.size ||
      args.groups * args.size > kMostCodes) {
    return 0;
  }
  return PITH_DISPATCH(LargestScaleImpl)(args.scales, args.one_scale ? 1 : args.groups);
}

ErrorSums code_error_sums(const DecodeGroups& args, const float* before,
                          bool largest) noexcept {
  return PITH_DISPATCH(CodeErrorSumsImpl)(args, before, largest);
}

}  // namespace pith::kernels
#endif
