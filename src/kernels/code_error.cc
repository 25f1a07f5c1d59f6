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

template <Packing kPacking>
ErrorSums SumsOf(const DecodeGroups& args, const float* before) {
  constexpr hn::Rebind<std::int8_t, DF> d8;
  const std::int64_t n = args.groups * args.size;
  Slices<kPacking> slices(args);
  ErrorTotals totals;
  alignas(16) std::int8_t room[kErrorBlock];
  const std::int8_t* codes[kSlices];
  float scales[kSlices];
  const auto value = [&](const std::int8_t* code, VF scale) HWY_ATTR {
    return hn::Mul(scale, hn::ConvertTo(kDF, hn::PromoteTo(kDI, hn::LoadU(d8, code))));
  };
  std::int64_t i = 0;
  for (; i + kErrorBlock <= n; i += kErrorBlock) {
    for (std::int64_t k = 0; k < kSlices; ++k) {
      codes[k] = slices.Next(room + k * kSlice, scales[k]);
    }
    totals.AddBlock([&](int v, int r, ErrorCounts& count) HWY_ATTR {
      FloatSums some;
      for (std::int64_t k = 2 * r, end = k + Unknown(2); k < end; ++k) {
        const float* x = before + i + k * kSlice + v * kLanes;
        const std::int8_t* code = codes[k] + v * kLanes;
        const VF scale = hn::Set(kDF, scales[k]);
        for (std::int64_t e = 0; e < kSlice; e += 8) {
          AddVector(hn::LoadU(kDF, x + e), value(code + e, scale), some, count);
        }
      }
      return some;
    });
  }
  if (i < n) {
    float after[kErrorBlock];
    for (std::int64_t at = 0; at < n - i; at += kSlice) {
      float by = 0;
      const std::int8_t* code = slices.Next(room, by);
      for (std::int64_t e = 0; e < kSlice; e += kLanes) {
        hn::StoreU(value(code + e, hn::Set(kDF, by)), kDF, after + at + e);
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
