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

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bytes ahead that are asked for: a batch of blocks, whose scales are gathered first.
constexpr std::int64_t kPrefetch = 4608;

constexpr std::int64_t kBlock = 32;  // codes of 4 bits that are unpacked at a time

using D16 = hn::Full128<std::int8_t>;
using V16 = hn::Vec<D16>;

// Two vectors of codes, from halves of bytes.
struct Unpacked {
  V16 first;
  V16 second;
};

template <Packing kPacking>
HWY_INLINE Unpacked Unpack(const std::uint8_t* packed) {
  constexpr D16 d;
  constexpr hn::Full128<std::uint16_t> d16;
  const V16 mask = hn::Set(d, std::int8_t{0x0f});
  const V16 pairs = hn::LoadU(d, reinterpret_cast<const std::int8_t*>(packed));
  const V16 low = hn::And(pairs, mask);
  const V16 high =
      hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), mask);
  if constexpr (kPacking == Packing::kInt4Halves) {
    const V16 eight = hn::Set(d, std::int8_t{8});
    return {hn::Sub(low, eight), hn::Sub(high, eight)};
  } else {
    alignas(16) static constexpr std::int8_t kSigned[16] = {
        0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    const V16 table = hn::Load(d, kSigned);
    const V16 even = hn::TableLookupBytes(table, low);
    const V16 odd = hn::TableLookupBytes(table, high);
    return {hn::InterleaveLower(d, even, odd), hn::InterleaveUpper(d, even, odd)};
  }
}

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
  for (; i + kBlock <= n; i += kBlock) {
    const Unpacked block = Unpack<kPacking>(codes + i / 2);
    decoder.Vector(block.first, out + i);
    decoder.Vector(block.second, out + i + 16);
  }
  if (i == n) return;
  // The rest of a group; a block of Q4_0 is there in whole, whatever its values.
  alignas(16) std::uint8_t padded[kBlock / 2] = {};
  const std::int64_t bytes =
      kPacking == Packing::kInt4Halves ? kBlock / 2 : (n - i + 1) / 2;
  std::memcpy(padded, codes + i / 2, static_cast<std::size_t>(bytes));
  const Unpacked block = Unpack<kPacking>(padded);
  alignas(16) std::int8_t rest[kBlock];
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
