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
    VF q = hn::ConvertTo(kDF, hn::PromoteTo(kDI, codes));
    if constexpr (kZeroPoint) q = hn::Sub(q, zero_point);
    if constexpr (kStream) {
      hn::Stream(hn::Mul(scale, q), kDF, out);
    } else {
      hn::StoreU(hn::Mul(scale, q), kDF, out);
    }
  }

  HWY_INLINE void Vector(V16 codes, float* out) const {
    constexpr hn::Half<D16> half;
    const auto low = hn::LowerHalf(half, codes);
    const auto high = hn::UpperHalf(half, codes);
    if constexpr (kLanes == 8) {
      Some(low, out);
      Some(high, out + 8);
    } else {
      constexpr hn::Half<decltype(half)> quarter;
      Some(hn::LowerHalf(quarter, low), out);
      Some(hn::UpperHalf(quarter, low), out + 4);
      Some(hn::LowerHalf(quarter, high), out + 8);
      Some(hn::UpperHalf(quarter, high), out + 12);
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

template <Packing kPacking, bool kStream, bool kZeroPoint>
HWY_INLINE void DecodeGroup(const std::uint8_t* codes, std::int64_t n,
                            const Decoder<kStream, kZeroPoint>& decoder, float* out) {
  if constexpr (kPacking == Packing::kInt8) {
    decoder.Bytes(reinterpret_cast<const std::int8_t*>(codes), n, out);
    return;
  }
  std::int64_t i = 0;
  for (; i + kUnpacked <= n; i += kUnpacked) {
    const Unpacked block = Unpack<kPacking>(codes + i / 2);
    decoder.Vector(block.first, out + i);
    decoder.Vector(block.second, out + i + 16);
  }
  if (i == n) return;
  // The rest of a group; a block of Q4_0 is there in whole, whatever its values.
  alignas(16) std::uint8_t padded[kUnpacked / 2] = {};
  const std::int64_t bytes =
      kPacking == Packing::kInt4Halves ? kUnpacked / 2 : (n - i + 1) / 2;
  std::memcpy(padded, codes + i / 2, static_cast<std::size_t>(bytes));
  const Unpacked block = Unpack<kPacking>(padded);
  alignas(16) std::int8_t rest[kUnpacked];
  hn::Store(block.first, D16(), rest);
  hn::Store(block.second, D16(), rest + 16);
  decoder.Bytes(rest, n - i, out + i);
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
  const auto decode = [&](std::int64_t n) HWY_ATTR {
    const Decoder<kStream, kZeroPoint> decoder(*scale, kZeroPoint ? *zero_point : 0.0F);
    hwy::Prefetch(codes + kPrefetch);
    DecodeGroup<kPacking>(codes, n, decoder, out);
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
