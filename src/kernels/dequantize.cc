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

// Bytes ahead that are asked for: the codes of the next groups but some.
constexpr std::int64_t kPrefetch = 1024;

constexpr std::int64_t kSlice = 256;  // codes of 4 bits that are unpacked at a time

// n codes of 4 bits, n <= kSlice, to bytes. Reads and writes whole vectors inside
// [0, kSlice), but of `packed` only what n codes have.
HWY_INLINE void Unpack(const std::uint8_t* packed, std::int64_t n, std::int8_t* codes) {
  constexpr hn::Full128<std::uint8_t> d;
  constexpr hn::Full128<std::uint16_t> d16;
  const auto mask = hn::Set(d, std::uint8_t{0x0f});
  const auto eight = hn::Set(d, std::uint8_t{8});
  auto* out = reinterpret_cast<std::uint8_t*>(codes);
  for (std::int64_t i = 0; i < n; i += 32) {
    const std::uint8_t* from = packed + i / 2;
    alignas(16) std::uint8_t padded[16] = {};
    if (n - i < 32) {
      std::memcpy(padded, from, static_cast<std::size_t>((n - i + 1) / 2));
      from = padded;
    }
    const auto pairs = hn::LoadU(d, from);
    const auto low = hn::And(pairs, mask);
    const auto high =
        hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), mask);
    // (c ^ 8) - 8 extends the sign.
    const auto first = hn::Xor(hn::InterleaveLower(d, low, high), eight);
    const auto second = hn::Xor(hn::InterleaveUpper(d, low, high), eight);
    hn::Store(hn::Sub(first, eight), d, out + i);
    hn::Store(hn::Sub(second, eight), d, out + i + 16);
  }
}

// A block of Q4_0.
HWY_INLINE void UnpackHalves(const std::uint8_t* packed, std::int8_t* codes) {
  constexpr hn::Full128<std::uint8_t> d;
  constexpr hn::Full128<std::uint16_t> d16;
  const auto mask = hn::Set(d, std::uint8_t{0x0f});
  const auto eight = hn::Set(d, std::uint8_t{8});
  auto* out = reinterpret_cast<std::uint8_t*>(codes);
  const auto pairs = hn::LoadU(d, packed);
  const auto high =
      hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), mask);
  hn::Store(hn::Sub(hn::And(pairs, mask), eight), d, out);
  hn::Store(hn::Sub(high, eight), d, out + 16);
}

struct Scale {
  float scale;
  float zero_point;
};

template <bool kStream, bool kZeroPoint>
HWY_INLINE void DecodeBytes(const std::int8_t* codes, std::int64_t n, Scale by,
                            float* out) {
  constexpr hn::Rebind<std::int8_t, DF> d8;
  constexpr hn::RebindToSigned<DF> di;
  const VF scale = hn::Set(kDF, by.scale);
  const VF zero_point = hn::Set(kDF, by.zero_point);
  const auto decode = [&](std::int64_t i) HWY_ATTR {
    VF q = hn::ConvertTo(kDF, hn::PromoteTo(di, hn::LoadU(d8, codes + i)));
    if constexpr (kZeroPoint) q = hn::Sub(q, zero_point);
    if constexpr (kStream) {
      hn::Stream(hn::Mul(scale, q), kDF, out + i);
    } else {
      hn::StoreU(hn::Mul(scale, q), kDF, out + i);
    }
  };
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    decode(i);
    decode(i + kLanes);
    decode(i + 2 * kLanes);
    decode(i + 3 * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) decode(i);
  for (; i < n; ++i) out[i] = by.scale * (static_cast<float>(codes[i]) - by.zero_point);
}

template <Packing kPacking, bool kStream, bool kZeroPoint>
HWY_INLINE void DecodeGroup(const std::uint8_t* codes, std::int64_t n, Scale by,
                            float* out) {
  alignas(32) std::int8_t unpacked[kSlice];
  switch (kPacking) {
    case Packing::kInt8:
      DecodeBytes<kStream, kZeroPoint>(reinterpret_cast<const std::int8_t*>(codes), n, by,
                                       out);
      break;
    case Packing::kInt4:
      for (std::int64_t i = 0; i < n; i += kSlice) {
        const std::int64_t some = n - i < kSlice ? n - i : kSlice;
        Unpack(codes + i / 2, some, unpacked);
        DecodeBytes<kStream, kZeroPoint>(unpacked, some, by, out + i);
      }
      break;
    case Packing::kInt4Halves:
      UnpackHalves(codes, unpacked);  // 32 of them, which are a group
      DecodeBytes<kStream, kZeroPoint>(unpacked, n < 32 ? n : 32, by, out);
      break;
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
  const auto decode = [&](std::int64_t n) HWY_ATTR {
    const Scale by = {*scale, kZeroPoint ? *zero_point : 0.0F};
    hwy::Prefetch(codes + kPrefetch);
    DecodeGroup<kPacking, kStream, kZeroPoint>(codes, n, by, out);
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
