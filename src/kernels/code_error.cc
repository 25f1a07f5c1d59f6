// Sums of errors of codes, whose values are never in memory.
#include <bit>
#include <cfloat>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/code_error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/error-inl.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"
#include "src/kernels/target.h"
#include "src/kernels/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

// Groups are whole numbers of slices.
constexpr std::int64_t kSlice = kUnpacked;
constexpr std::int64_t kSlices = kErrorBlock / kSlice;

// The codes of a block, slice by slice: of groups of one slice, ...
class ShortGroups {
 public:
  HWY_INLINE explicit ShortGroups(const DecodeGroups& args)
      : codes_(reinterpret_cast<const std::int8_t*>(args.codes)),
        scales_(args.scales),
        stride_(args.stride) {}

  // Of slice k of the block.
  [[nodiscard]] HWY_INLINE const std::int8_t* Codes(std::int64_t k) const {
    return codes_ + k * stride_;
  }
  [[nodiscard]] HWY_INLINE float Scale(std::int64_t k) const { return scales_[k]; }
  HWY_INLINE void Next() {
    codes_ += kSlices * stride_;
    scales_ += kSlices;
  }

 private:
  const std::int8_t* codes_;
  const float* scales_;
  std::int64_t stride_;
};

// ... of one group, ...
class OneGroup {
 public:
  HWY_INLINE explicit OneGroup(const DecodeGroups& args)
      : codes_(reinterpret_cast<const std::int8_t*>(args.codes)), scale_(*args.scales) {}

  [[nodiscard]] HWY_INLINE const std::int8_t* Codes(std::int64_t k) const {
    return codes_ + k * kSlice;
  }
  [[nodiscard]] HWY_INLINE float Scale(std::int64_t) const { return scale_; }
  HWY_INLINE void Next() { codes_ += kErrorBlock; }

 private:
  const std::int8_t* codes_;
  float scale_;
};

// ... and of any, after they have been unpacked if they have to be.
template <Packing kPacking>
class AnyGroups {
 public:
  HWY_INLINE explicit AnyGroups(const DecodeGroups& args)
      : codes_(args.codes),
        scale_(args.scales),
        size_(args.size),
        left_(args.groups * args.size / kSlice),
        stride_(args.stride),
        step_(args.one_scale ? 0 : 1) {
    Next();
  }

  [[nodiscard]] HWY_INLINE const std::int8_t* Codes(std::int64_t k) const {
    return slices_[k];
  }
  [[nodiscard]] HWY_INLINE float Scale(std::int64_t k) const { return scales_[k]; }
  HWY_INLINE void Next() {
    for (std::int64_t k = 0; k < kSlices && left_ > 0; ++k, --left_) {
      scales_[k] = *scale_;
      const std::uint8_t* codes = codes_ + (kPacking == Packing::kInt8 ? at_ : at_ / 2);
      if constexpr (kPacking == Packing::kInt8) {
        slices_[k] = reinterpret_cast<const std::int8_t*>(codes);
      } else {
        const Unpacked unpacked = Unpack<kPacking>(codes);
        std::int8_t* room = room_ + k * kSlice;
        hn::Store(unpacked.first, D16(), room);
        hn::Store(unpacked.second, D16(), room + 16);
        slices_[k] = room;
      }
      at_ += kSlice;
      if (at_ < size_) continue;
      at_ = 0;
      codes_ += stride_;
      scale_ += step_;
    }
  }

 private:
  const std::uint8_t* codes_;
  const float* scale_;
  std::int64_t size_;
  std::int64_t left_;  // slices
  std::int64_t stride_;
  std::int64_t step_;
  std::int64_t at_ = 0;  // in the group
  const std::int8_t* slices_[kSlices] = {};
  float scales_[kSlices] = {};
  alignas(16) std::int8_t room_[kErrorBlock];
};

HWY_INLINE VF Value(const std::int8_t* code, VF scale) {
  constexpr hn::Rebind<std::int8_t, DF> d8;
  return hn::Mul(scale, hn::ConvertTo(kDF, hn::PromoteTo(kDI, hn::LoadU(d8, code))));
}

// Zeros among codes, as bytes: that is faster than among values.
class ZeroCodes {
 public:
  HWY_INLINE ZeroCodes() : zeros_(hn::Zero(D8())) {}

  HWY_INLINE void Add(const std::int8_t* slice) {
    constexpr auto kBytes = static_cast<std::int64_t>(hn::MaxLanes(D8()));
    for (std::int64_t i = 0; i < kSlice; i += kBytes) {
      const auto some = hn::LoadU(D8(), slice + i);
      zeros_ = hn::Add(zeros_, hn::VecFromMask(D8(), hn::Eq(some, hn::Zero(D8()))));
    }
  }
  [[nodiscard]] HWY_INLINE std::int64_t Count() const {
    constexpr hn::Repartition<std::uint64_t, DF> du64;
    constexpr hn::Repartition<std::uint8_t, DF> du8;
    const auto sums = hn::SumsOf8(hn::BitCast(du8, hn::Neg(zeros_)));
    return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(du64, sums)));
  }

 private:
  using D8 = hn::Repartition<std::int8_t, DF>;
  hn::Vec<D8> zeros_;  // -1 for each: of kMostCodes at most
};

template <class Codes>
ErrorSums SumsOf(const DecodeGroups& args, const float* before) {
  const std::int64_t n = args.groups * args.size;
  Codes codes(args);
  ErrorTotals totals;
  ZeroCodes zeros;
  std::int64_t i = 0;
  for (; i + kErrorBlock <= n; i += kErrorBlock, codes.Next()) {
    totals.AddBlock([&](int v, int r, ErrorCounts& count) HWY_ATTR {
      FloatSums some;
      for (std::int64_t k = 2 * r; k < 2 * r + 2; ++k) {
        const float* x = before + i + k * kSlice + v * kLanes;
        const std::int8_t* code = codes.Codes(k) + v * kLanes;
        const VF scale = hn::Set(kDF, codes.Scale(k));
        for (std::int64_t e = 0, end = Unknown(kSlice); e < end; e += 16) {
          AddVector<false>(hn::LoadU(kDF, x + e), Value(code + e, scale), some, count);
          AddVector<false>(hn::LoadU(kDF, x + e + 8), Value(code + e + 8, scale), some,
                           count);
        }
      }
      return some;
    });
    for (std::int64_t k = 0; k < kSlices; ++k) zeros.Add(codes.Codes(k));
  }
  totals.more_zeros_after = zeros.Count();
  if (i < n) {
    float after[kErrorBlock];
    for (std::int64_t k = 0; k < (n - i) / kSlice; ++k) {
      const VF scale = hn::Set(kDF, codes.Scale(k));
      for (std::int64_t e = 0; e < kSlice; e += kLanes) {
        hn::StoreU(Value(codes.Codes(k) + e, scale), kDF, after + k * kSlice + e);
      }
    }
    totals.AddTail(before + i, after, n - i);
  }
  return totals.Finish();
}

}  // namespace

ErrorSums CodeErrorSumsImpl(const DecodeGroups& args, const float* before) {
  switch (args.packing) {
    case Packing::kInt8:
      if (args.groups == 1) return SumsOf<OneGroup>(args, before);
      return args.size == kSlice && !args.one_scale
                 ? SumsOf<ShortGroups>(args, before)
                 : SumsOf<AnyGroups<Packing::kInt8>>(args, before);
    case Packing::kInt4:
      return SumsOf<AnyGroups<Packing::kInt4>>(args, before);
    case Packing::kInt4Halves:
      return SumsOf<AnyGroups<Packing::kInt4Halves>>(args, before);
  }
  return {};
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(CodeErrorSumsImpl);

bool has_code_error_sums(const DecodeGroups& args) noexcept {
  constexpr std::int64_t kMostCodes = 4096;  // whose zeros a byte of each lane can count
  if (args.zero_points != nullptr || args.size % 32 != 0 || args.last != args.size ||
      args.groups * args.size > kMostCodes) {
    return false;
  }
  // No product is so small that it is 0, unless the code is.
  constexpr auto kSmallest = std::bit_cast<std::uint32_t>(FLT_MIN);
  std::int64_t small = 0;  // without an end before the last: gcc makes vectors of that
  for (std::int64_t g = 0; g < (args.one_scale ? 1 : args.groups); ++g) {
    const auto bits = std::bit_cast<std::uint32_t>(args.scales[g]) & kMagnitudeMask;
    small += bits < kSmallest ? 1 : 0;
  }
  return small == 0;
}

ErrorSums code_error_sums(const DecodeGroups& args, const float* before) noexcept {
  return PITH_DISPATCH(CodeErrorSumsImpl)(args, before);
}

}  // namespace pith::kernels
#endif
