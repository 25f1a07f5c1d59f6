// Values of codes.
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/dequantize.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/quantize.h"
#include "src/kernels/round-inl.h"
#include "src/kernels/target.h"
#include "src/kernels/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bytes ahead that are asked for: a batch of blocks, whose scales are gathered first.
constexpr std::int64_t kPrefetch = 4608;

// Values of codes with one scale.
template <bool kStream, bool kZeroPoint>
struct Decoder {
  VF scale;
  VF zero_point;

  HWY_INLINE Decoder(float by, float less)
      : scale(hn::Set(kDF, by)), zero_point(hn::Set(kDF, less)) {}

  // As many codes as there are lanes.
  template <class V>
  HWY_INLINE void Some(V codes, float* out) const {
    Values(hn::ConvertTo(kDF, hn::PromoteTo(kDI, codes)), out);
  }

  // Of codes as f32.
  HWY_INLINE void Values(VF q, float* out) const {
    if constexpr (kZeroPoint) q = hn::Sub(q, zero_point);
    if constexpr (kStream) {
      hn::Stream(hn::Mul(scale, q), kDF, out);
    } else {
      hn::StoreU(hn::Mul(scale, q), kDF, out);
    }
  }

  HWY_INLINE void Bytes(const std::int8_t* codes, std::int64_t n, float* out) const {
    constexpr hn::Rebind<std::int8_t, DF> d8;
    std::int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (std::int64_t v = i; v < i + 4 * kLanes; v += kLanes) {
        Some(hn::LoadU(d8, codes + v), out + v);
      }
    }
    for (; i + kLanes <= n; i += kLanes) Some(hn::LoadU(d8, codes + i), out + i);
    const float by = hn::GetLane(scale);
    const float less = hn::GetLane(zero_point);
    for (; i < n; ++i) out[i] = by * (static_cast<float>(codes[i]) - less);
  }
};

// Codes of 4 bits in the uppermost bits of lanes, which makes them the code times 2^28:
// bytes are moved there, and nothing has to be unpacked or extended.
template <Packing kPacking>
class UpperCodes {
 public:
  static constexpr int kParts = static_cast<int>(kUnpacked / kLanes);
  using D8 = hn::Repartition<std::int8_t, DF>;

  HWY_INLINE UpperCodes() {
    for (int part = 0; part < kParts; ++part) {
      alignas(32) std::int8_t from[4 * kLanes];
      for (int i = 0; i < 4 * kLanes; ++i) {
        const int code = part * static_cast<int>(kLanes) + i / 4;
        const int byte = kPacking == Packing::kInt4Halves ? code % 16 : code / 2;
        from[i] = static_cast<std::int8_t>(i % 4 == 3 ? byte : -128);
      }
      order_[part] = hn::Load(D8(), from);
    }
    alignas(32) std::uint32_t shifts[kLanes];
    for (int i = 0; i < kLanes; ++i) shifts[i] = i % 2 == 0 ? 4 : 0;
    shifts_ = hn::Load(kDU, shifts);
  }

  // The bytes of a block, with codes that have a sign.
  [[nodiscard]] HWY_INLINE hn::Vec<D8> Load(const std::uint8_t* codes) const {
    const auto bytes = hn::LoadDup128(D8(), reinterpret_cast<const std::int8_t*>(codes));
    if constexpr (kPacking == Packing::kInt4) return bytes;
    return hn::Xor(bytes, hn::Set(D8(), static_cast<std::int8_t>(0x88)));
  }

  // Part `part` of a block, times 2^28.
  [[nodiscard]] HWY_INLINE VF Of(hn::Vec<D8> bytes, int part) const {
    const VU all = hn::BitCast(kDU, hn::TableLookupBytesOr0(bytes, order_[part]));
    const VU upper_half = hn::Set(kDU, 0xf0000000u);
    VU codes;
    if constexpr (kPacking == Packing::kInt4) {
      codes = hn::And(hn::Shl(all, shifts_), upper_half);
    } else {
      codes = part < kParts / 2 ? hn::ShiftLeft<4>(all) : hn::And(all, upper_half);
    }
    return hn::ConvertTo(kDF, hn::BitCast(kDI, codes));
  }

 private:
  hn::Vec<D8> order_[kParts];
  VU shifts_;  // of codes in the lower and upper halves of bytes, in turns
};

// Such codes are multiplied with scale / 2^28, which is exact: for other scales, the
// codes themselves are.
HWY_INLINE bool HasUpperScale(float scale) {
  return __builtin_fabsf(scale) >= 0x1p-90F || scale == 0;
}

template <Packing kPacking, bool kStream, bool kZeroPoint>
HWY_INLINE void DecodeGroup(const std::uint8_t* codes, std::int64_t n, float scale,
                            float zero_point, const UpperCodes<kPacking>& uppers,
                            float* out) {
  if constexpr (kPacking == Packing::kInt8) {
    const Decoder<kStream, kZeroPoint> decoder(scale, zero_point);
    decoder.Bytes(reinterpret_cast<const std::int8_t*>(codes), n, out);
    return;
  }
  std::int64_t i = 0;
  if (HWY_LIKELY(HasUpperScale(scale))) {
    const Decoder<kStream, kZeroPoint> upper(scale * 0x1p-28F, zero_point * 0x1p28F);
    for (; i + kUnpacked <= n; i += kUnpacked) {
      const auto bytes = uppers.Load(codes + i / 2);
      for (int part = 0; part < UpperCodes<kPacking>::kParts; ++part) {
        upper.Values(uppers.Of(bytes, part), out + i + part * kLanes);
      }
    }
  }
  // The rest of a group, or all of it; a block of Q4_0 is there in whole, whatever its
  // values.
  const Decoder<kStream, kZeroPoint> decoder(scale, zero_point);
  for (; i < n; i += kUnpacked) {
    const std::int64_t some = HWY_MIN(kUnpacked, n - i);
    const std::int64_t bytes =
        kPacking == Packing::kInt4Halves ? kUnpacked / 2 : (some + 1) / 2;
    alignas(16) std::uint8_t padded[kUnpacked / 2] = {};
    std::memcpy(padded, codes + i / 2, static_cast<std::size_t>(bytes));
    const Unpacked block = Unpack<kPacking>(padded);
    alignas(16) std::int8_t unpacked[kUnpacked];
    hn::Store(block.first, D16(), unpacked);
    hn::Store(block.second, D16(), unpacked + 16);
    decoder.Bytes(unpacked, some, out + i);
  }
}

// kSize: of a group, or 0 if it is known only here.
template <Packing kPacking, bool kStream, bool kZeroPoint, std::int64_t kSize>
void DecodeAll(const DecodeGroups& args) {
  const std::int64_t groups = args.groups;
  const std::int64_t size = kSize != 0 ? kSize : args.size;
  const std::int64_t stride = args.stride;
  const std::int64_t step = args.one_scale ? 0 : 1;
  const float* scale = args.scales;
  const float* zero_point = args.zero_points;
  const std::uint8_t* codes = args.codes;
  float* out = args.out;
  const UpperCodes<kPacking> uppers;
  const auto decode = [&](std::int64_t n) HWY_ATTR __attribute__((always_inline)) {
    hwy::Prefetch(codes + kPrefetch);
    DecodeGroup<kPacking, kStream, kZeroPoint>(
        codes, n, *scale, kZeroPoint ? *zero_point : 0.0F, uppers, out);
    codes += stride;
    out += size;
    scale += step;
    if constexpr (kZeroPoint) zero_point += step;
  };
  for (std::int64_t g = 0; g + 1 < groups; ++g) decode(size);
  if (groups > 0) decode(args.last);
}

template <Packing kPacking, bool kStream, bool kZeroPoint>
HWY_INLINE void DecodeSizes(const DecodeGroups& args) {
  // With a constant size the loops over a group unroll.
  switch (args.size) {
    case 32:
      return DecodeAll<kPacking, kStream, kZeroPoint, 32>(args);
    case 64:
      return DecodeAll<kPacking, kStream, kZeroPoint, 64>(args);
    default:
      return DecodeAll<kPacking, kStream, kZeroPoint, 0>(args);
  }
}

template <Packing kPacking>
HWY_INLINE void DecodePacking(const DecodeGroups& args) {
  const bool stream = args.stream &&
                      reinterpret_cast<std::uintptr_t>(args.out) % sizeof(VF) == 0 &&
                      (args.groups == 1 || args.size % kLanes == 0);
  if (args.zero_points != nullptr) {
    stream ? DecodeSizes<kPacking, true, true>(args)
           : DecodeSizes<kPacking, false, true>(args);
  } else {
    stream ? DecodeSizes<kPacking, true, false>(args)
           : DecodeSizes<kPacking, false, false>(args);
  }
}

void DecodeGroupsImpl(const DecodeGroups& args) {
  switch (args.packing) {
    case Packing::kInt8:
      return DecodePacking<Packing::kInt8>(args);
    case Packing::kInt4:
      return DecodePacking<Packing::kInt4>(args);
    case Packing::kInt4Halves:
      return DecodePacking<Packing::kInt4Halves>(args);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(DecodeGroupsImpl);

void decode_groups(const DecodeGroups& args) noexcept {
  PITH_DISPATCH(DecodeGroupsImpl)(args);
}

void finish_streams() noexcept { hwy::FlushStream(); }

}  // namespace pith::kernels
#endif
