// Sums of errors of codes, whose values are never in memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/code_error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/error-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/target.h"
#include "src/kernels/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// Groups are whole numbers of slices.
constexpr std::int64_t kSlice = kUnpacked;
constexpr std::int64_t kSlices = kErrorBlock / kSlice;

// Goes over the codes of groups, slice by slice.
template <Packing kPacking>
class Slices {
 public:
  HWY_INLINE explicit Slices(const DecodeGroups& args)
      : codes_(args.codes),
        scale_(args.scales),
        size_(args.size),
        stride_(args.stride),
        step_(args.one_scale ? 0 : 1) {}

  // The codes of the next slice, unpacked to `room` if they have to be.
  HWY_INLINE const std::int8_t* Next(std::int8_t* room, float& scale) {
    scale = *scale_;
    const std::uint8_t* codes = codes_ + (kPacking == Packing::kInt8 ? at_ : at_ / 2);
    at_ += kSlice;
    if (at_ == size_) {
      at_ = 0;
      codes_ += stride_;
      scale_ += step_;
    }
    if constexpr (kPacking == Packing::kInt8) {
      return reinterpret_cast<const std::int8_t*>(codes);
    } else {
      const Unpacked unpacked = Unpack<kPacking>(codes);
      hn::Store(unpacked.first, D16(), room);
      hn::Store(unpacked.second, D16(), room + 16);
      return room;
    }
  }

 private:
  const std::uint8_t* codes_;
  const float* scale_;
  std::int64_t size_;
  std::int64_t stride_;
  std::int64_t step_;
  std::int64_t at_ = 0;  // in the group
};

HWY_INLINE VF Value(const std::int8_t* code, VF scale) {
  constexpr hn::Rebind<std::int8_t, DF> d8;
  return hn::Mul(scale, hn::ConvertTo(kDF, hn::PromoteTo(kDI, hn::LoadU(d8, code))));
}

// Values that are 0 though their codes are not: products that are too small.
HWY_NOINLINE std::int64_t LostCodes(const std::int8_t* codes, float scale) {
  std::int64_t lost = 0;
  for (std::int64_t i = 0; i < kSlice; ++i) {
    if (codes[i] != 0 && scale * static_cast<float>(codes[i]) == 0) ++lost;
  }
  return lost;
}

// A block of slices.
struct CodeBlock {
  const std::int8_t* codes[kSlices];
  float scales[kSlices];
  alignas(16) std::int8_t room[kErrorBlock];

  template <Packing kPacking>
  HWY_INLINE void Fill(Slices<kPacking>& slices) {
    for (std::int64_t k = 0; k < kSlices; ++k) {
      codes[k] = slices.Next(room + k * kSlice, scales[k]);
    }
  }

  // Values that are 0. Codes are bytes, which are faster to count.
  [[nodiscard]] HWY_INLINE std::int64_t Zeros() const {
    constexpr hn::Repartition<std::int8_t, DF> d8;
    constexpr hn::Repartition<std::uint8_t, DF> du8;
    constexpr hn::Repartition<std::uint64_t, DF> du64;
    constexpr auto kBytes = static_cast<std::int64_t>(hn::MaxLanes(du8));
    auto zeros = hn::Zero(d8);  // -1 for each
    std::int64_t lost = 0;
    for (std::int64_t k = 0; k < kSlices; ++k) {
      for (std::int64_t i = 0; i < kSlice; i += kBytes) {
        const auto some = hn::LoadU(d8, codes[k] + i);
        zeros = hn::Add(zeros, hn::VecFromMask(d8, hn::Eq(some, hn::Zero(d8))));
      }
      if (HWY_UNLIKELY(!(__builtin_fabsf(scales[k]) >= 0x1p-126F))) {
        lost += LostCodes(codes[k], scales[k]);
      }
    }
    const auto sums = hn::SumsOf8(hn::BitCast(du8, hn::Neg(zeros)));
    return lost + static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(du64, sums)));
  }

  HWY_INLINE void AddTo(ErrorTotals& totals, const float* before) const {
    totals.AddBlock([&](int v, int r, ErrorCounts& count) HWY_ATTR {
      FloatSums some;
      for (std::int64_t k = 2 * r; k < 2 * r + 2; ++k) {
        const float* x = before + k * kSlice + v * kLanes;
        const std::int8_t* code = codes[k] + v * kLanes;
        const VF scale = hn::Set(kDF, scales[k]);
        for (std::int64_t e = 0, n = Unknown(kSlice); e < n; e += 16) {
          AddVector<false>(hn::LoadU(kDF, x + e), Value(code + e, scale), some, count);
          AddVector<false>(hn::LoadU(kDF, x + e + 8), Value(code + e + 8, scale), some,
                           count);
        }
      }
      return some;
    });
    totals.more_zeros_after += Zeros();
  }
};

template <Packing kPacking>
ErrorSums SumsOf(const DecodeGroups& args, const float* before) {
  const std::int64_t n = args.groups * args.size;
  Slices<kPacking> slices(args);
  ErrorTotals totals;
  CodeBlock block;
  std::int64_t i = 0;
  for (; i + kErrorBlock <= n; i += kErrorBlock) {
    block.Fill(slices);
    block.AddTo(totals, before + i);
  }
  if (i < n) {
    float after[kErrorBlock];
    for (std::int64_t at = 0; at < n - i; at += kSlice) {
      float scale = 0;
      const std::int8_t* code = slices.Next(block.room, scale);
      for (std::int64_t e = 0; e < kSlice; e += kLanes) {
        hn::StoreU(Value(code + e, hn::Set(kDF, scale)), kDF, after + at + e);
      }
    }
    totals.AddTail(before + i, after, n - i);
  }
  return totals.Finish();
}

ErrorSums CodeErrorSumsImpl(const DecodeGroups& args, const float* before) {
  switch (args.packing) {
    case Packing::kInt8:
      return SumsOf<Packing::kInt8>(args, before);
    case Packing::kInt4:
      return SumsOf<Packing::kInt4>(args, before);
    case Packing::kInt4Halves:
      return SumsOf<Packing::kInt4Halves>(args, before);
  }
  return {};
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(CodeErrorSumsImpl);

bool has_code_error_sums(const DecodeGroups& args) noexcept {
  return args.zero_points == nullptr && args.size % 32 == 0 && args.last == args.size;
}

ErrorSums code_error_sums(const DecodeGroups& args, const float* before) noexcept {
  return PITH_DISPATCH(CodeErrorSumsImpl)(args, before);
}

}  // namespace pith::kernels
#endif
