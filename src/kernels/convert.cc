#include "src/kernels/convert.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/convert.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One step converts four vectors of f32, so that a step writes whole vectors of 8-bit
// types.
using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using D16 = hn::Repartition<std::uint16_t, DF>;
using D8 = hn::Repartition<std::uint8_t, DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using VI = hn::Vec<DI>;
constexpr DF kDF;
constexpr DU kDU;
constexpr DI kDI;
constexpr std::int32_t kInfinity = kInfinityBits;
constexpr std::size_t kLineBytes = 64;  // of a cache line

#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || \
    HWY_TARGET == HWY_AVX3_DL
constexpr bool kHasF16Instructions = true;
#else
constexpr bool kHasF16Instructions = false;  // Highway's substitute truncates
#endif

HWY_INLINE VI Magnitude(VF v) {
  return hn::And(hn::BitCast(kDI, v), hn::Set(kDI, 0x7fffffff));
}

// ---- the lanes of one vector

// A small binary format: sign, exponent, mantissa of kMantissa bits.
struct F16 {
  static constexpr int kWidth = 16, kMantissa = 10, kBias = 15;
  static constexpr std::uint32_t kOverflow = overflow_bits(DType::kF16);
};
struct F8E4M3 {
  static constexpr int kWidth = 8, kMantissa = 3, kBias = 7;
  static constexpr std::uint32_t kOverflow = overflow_bits(DType::kF8E4M3);
};
struct F8E5M2 {
  static constexpr int kWidth = 8, kMantissa = 2, kBias = 15;
  static constexpr std::uint32_t kOverflow = overflow_bits(DType::kF8E5M2);
};

// The sign bit of each value, where a code of that width has it.
template <class Format>
HWY_INLINE VU Sign(VF v) {
  return hn::ShiftLeft<Format::kWidth - 1>(hn::ShiftRight<31>(hn::BitCast(kDU, v)));
}

// Code of each value, of those that do not overflow.
template <class Format>
HWY_INLINE VU EncodeFitting(VF v) {
  constexpr int kDrop = 23 - Format::kMantissa;
  const VU bits = hn::BitCast(kDU, v);
  const VU magnitude = hn::And(bits, hn::Set(kDU, 0x7fffffffu));
  // Normal results: half of the last place, less one if that is even, carries into it.
  const VU odd = hn::And(hn::ShiftRight<kDrop>(magnitude), hn::Set(kDU, 1u));
  const VU carried =
      hn::Add(hn::Add(magnitude, hn::Set(kDU, (1u << (kDrop - 1)) - 1)), odd);
  const VU normal =
      hn::Sub(hn::ShiftRight<kDrop>(carried),
              hn::Set(kDU, std::uint32_t{127 - Format::kBias} << Format::kMantissa));
  // Subnormal ones: adding a power of two whose last place is the step of the format
  // rounds, and leaves the multiple of the step in the mantissa.
  constexpr std::uint32_t kPower =
      std::uint32_t{127 + 24 - Format::kBias - Format::kMantissa} << 23;
  const VF shifted =
      hn::Add(hn::BitCast(kDF, magnitude), hn::BitCast(kDF, hn::Set(kDU, kPower)));
  const VU subnormal = hn::Sub(hn::BitCast(kDU, shifted), hn::Set(kDU, kPower));
  const auto is_subnormal = hn::Lt(hn::BitCast(kDI, magnitude),
                                   hn::Set(kDI, std::int32_t{128 - Format::kBias} << 23));
  return hn::Or(Sign<Format>(v),
                hn::IfThenElse(hn::RebindMask(kDU, is_subnormal), subnormal, normal));
}

HWY_INLINE auto IsNan(VF v) {
  return hn::RebindMask(kDU, hn::Gt(Magnitude(v), hn::Set(kDI, kInfinity)));
}

// Code of each value; `beyond` where it overflows, `nan` where it is one.
template <class Format>
HWY_INLINE VU Encode(VF v, std::uint32_t beyond, VU nan) {
  const VI magnitude = Magnitude(v);
  const auto overflows =
      hn::Gt(magnitude, hn::Set(kDI, std::int32_t{Format::kOverflow} - 1));
  const VU special = hn::IfThenElse(IsNan(v), nan, hn::Set(kDU, beyond));
  return hn::IfThenElse(hn::RebindMask(kDU, overflows), hn::Or(Sign<Format>(v), special),
                        EncodeFitting<Format>(v));
}

HWY_INLINE VU EncodeF16(VF v) {
  const VU payload =
      hn::And(hn::ShiftRight<13>(hn::BitCast(kDU, v)), hn::Set(kDU, 0x3ffu));
  return Encode<F16>(v, 0x7c00, hn::Or(payload, hn::Set(kDU, 0x7e00u)));
}

// The upper half of what this returns is the code of a value that is no NaN.
HWY_INLINE VU RoundToUpperHalf(VF v) {
  const VU bits = hn::BitCast(kDU, v);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kDU, 1u));
  return hn::Add(hn::Add(bits, hn::Set(kDU, 0x7fffu)), odd);
}

// Likewise, for any value.
HWY_INLINE VU RoundOrQuiet(VF v) {
  const VU quiet = hn::Or(hn::BitCast(kDU, v), hn::Set(kDU, 0x400000u));
  return hn::IfThenElse(IsNan(v), quiet, RoundToUpperHalf(v));
}

// Values of codes, without regard to infinity and NaN.
template <class Format>
HWY_INLINE VF Decode(VU code) {
  const VU sign = hn::ShiftLeft<31>(
      hn::ShiftRight<Format::kWidth - 1>(code));  // codes have kWidth bits
  const VU magnitude = hn::And(code, hn::Set(kDU, (1u << (Format::kWidth - 1)) - 1));
  const VU normal = hn::Add(hn::ShiftLeft<23 - Format::kMantissa>(magnitude),
                            hn::Set(kDU, std::uint32_t{127 - Format::kBias} << 23));
  constexpr std::uint32_t kStep = std::uint32_t{128 - Format::kBias - Format::kMantissa}
                                  << 23;
  const VF subnormal = hn::Mul(hn::ConvertTo(kDF, hn::BitCast(kDI, magnitude)),
                               hn::BitCast(kDF, hn::Set(kDU, kStep)));
  const auto is_subnormal = hn::Lt(hn::BitCast(kDI, magnitude),
                                   hn::Set(kDI, std::int32_t{1} << Format::kMantissa));
  const VU bits = hn::IfThenElse(hn::RebindMask(kDU, is_subnormal),
                                 hn::BitCast(kDU, subnormal), normal);
  return hn::BitCast(kDF, hn::Or(sign, bits));
}

HWY_INLINE VF DecodeF16(VU code) {
  const VU payload = hn::And(code, hn::Set(kDU, 0x3ffu));
  const VU special =
      hn::Or(hn::ShiftLeft<31>(hn::ShiftRight<15>(code)),
             hn::Or(hn::Set(kDU, 0x7f800000u), hn::ShiftLeft<13>(payload)));
  const auto is_infinite = hn::Eq(payload, hn::Zero(kDU));
  const VU quiet =
      hn::IfThenElse(is_infinite, special, hn::Or(special, hn::Set(kDU, 0x400000u)));
  const auto is_special =
      hn::Eq(hn::And(code, hn::Set(kDU, 0x7c00u)), hn::Set(kDU, 0x7c00u));
  return hn::BitCast(
      kDF, hn::IfThenElse(is_special, quiet, hn::BitCast(kDU, Decode<F16>(code))));
}

HWY_INLINE VF DecodeF8E4M3(VU code) {
  const VU low = hn::And(code, hn::Set(kDU, 0x7fu));
  const VU nan =
      hn::Or(hn::ShiftLeft<31>(hn::ShiftRight<7>(code)), hn::Set(kDU, 0x7fc00000u));
  return hn::BitCast(kDF, hn::IfThenElse(hn::Eq(low, hn::Set(kDU, 0x7fu)), nan,
                                         hn::BitCast(kDU, Decode<F8E4M3>(code))));
}

// ---- vectors from and to memory

// N consecutive elements of a type, widened to 32 bits.
template <typename T>
HWY_INLINE auto LoadWide(const std::uint8_t* in) {
  const hn::Rebind<T, DF> d;
  return hn::PromoteTo(kDI, hn::LoadU(d, reinterpret_cast<const T*>(in)));
}

template <bool kStream, class V, class D>
HWY_INLINE void Put(V v, D d, std::uint8_t* out) {
  using T = hn::TFromD<D>;
  if constexpr (kStream) {
    hn::Stream(v, d, reinterpret_cast<T*>(out));
  } else {
    hn::StoreU(v, d, reinterpret_cast<T*>(out));
  }
}

// Lanes of at most 16 bits from two vectors; a from b.
HWY_INLINE hn::Vec<D16> Narrow16(VU a, VU b) {
  const hn::Rebind<std::uint16_t, DF> half;
  return hn::Combine(D16(), hn::DemoteTo(half, hn::BitCast(kDI, b)),
                     hn::DemoteTo(half, hn::BitCast(kDI, a)));
}

// The upper 16 bits of the lanes of two vectors.
HWY_INLINE hn::Vec<D16> UpperHalves(VU a, VU b) {
  const VI upper_a = hn::ShiftRight<16>(hn::BitCast(kDI, a));
  const VI upper_b = hn::ShiftRight<16>(hn::BitCast(kDI, b));
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_NEON
  const hn::RebindToSigned<D16> d;
  const hn::Vec<D16> both = hn::BitCast(D16(), hn::ReorderDemote2To(d, upper_a, upper_b));
#if HWY_TARGET == HWY_AVX2  // which packs each half of the vectors by itself
  alignas(32) constexpr std::int32_t kOrder[8] = {0, 1, 4, 5, 2, 3, 6, 7};
  return hn::BitCast(D16(), hn::TableLookupLanes(hn::BitCast(kDU, both),
                                                 hn::SetTableIndices(kDU, kOrder)));
#else
  return both;
#endif
#else
  const VU mask = hn::Set(kDU, 0xffffu);
  return Narrow16(hn::And(hn::BitCast(kDU, upper_a), mask),
                  hn::And(hn::BitCast(kDU, upper_b), mask));
#endif
}

HWY_INLINE hn::Vec<D8> Narrow8(VU a, VU b, VU c, VU d) {
  const hn::Rebind<std::uint8_t, DF> quarter;
  const hn::Half<D8> half;
  const auto ab = hn::Combine(half, hn::DemoteTo(quarter, hn::BitCast(kDI, b)),
                              hn::DemoteTo(quarter, hn::BitCast(kDI, a)));
  const auto cd = hn::Combine(half, hn::DemoteTo(quarter, hn::BitCast(kDI, d)),
                              hn::DemoteTo(quarter, hn::BitCast(kDI, c)));
  return hn::Combine(D8(), cd, ab);
}

// ---- steps: four vectors of f32 on one side

// To f32: Lanes::get(in) gives the values of N consecutive elements.
template <class Lanes>
struct StepTo {
  static constexpr std::size_t kIn = Lanes::kBytes;
  static constexpr std::size_t kOut = 4;

  template <bool kStream>
  HWY_INLINE VI run(const std::uint8_t* in, std::uint8_t* out, VI largest) const {
    const std::size_t n = hn::Lanes(kDF);
    for (std::size_t i = 0; i < 4; ++i) {
      const VF v = Lanes::get(in + i * n * kIn);
      largest = hn::Max(largest, Magnitude(v));
      Put<kStream>(v, kDF, out + i * n * kOut);
    }
    return largest;
  }
};

struct FromBool {
  static constexpr std::size_t kBytes = 1;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    const auto zero = hn::Eq(LoadWide<std::uint8_t>(in), hn::Zero(kDI));
    return hn::IfThenZeroElse(hn::RebindMask(kDF, zero), hn::Set(kDF, 1.0f));
  }
};

template <typename T>
struct FromInteger {
  static constexpr std::size_t kBytes = sizeof(T);
  static HWY_INLINE VF get(const std::uint8_t* in) {
    return hn::ConvertTo(kDF, LoadWide<T>(in));
  }
};

struct FromF8E4M3 {
  static constexpr std::size_t kBytes = 1;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    return DecodeF8E4M3(hn::BitCast(kDU, LoadWide<std::uint8_t>(in)));
  }
};

struct FromF8E5M2 {  // the upper byte of an f16
  static constexpr std::size_t kBytes = 1;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    return DecodeF16(hn::ShiftLeft<8>(hn::BitCast(kDU, LoadWide<std::uint8_t>(in))));
  }
};

struct FromF16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    if constexpr (kHasF16Instructions) {
      const hn::Rebind<hwy::float16_t, DF> half;
      return hn::PromoteTo(kDF,
                           hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(in)));
    } else {
      return DecodeF16(hn::BitCast(kDU, LoadWide<std::uint16_t>(in)));
    }
  }
};

struct FromBF16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    return hn::BitCast(kDF, hn::ShiftLeft<16>(LoadWide<std::uint16_t>(in)));
  }
};

struct FromItself {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE VF get(const std::uint8_t* in) {
    return hn::LoadU(kDF, reinterpret_cast<const float*>(in));
  }
};

HWY_INLINE VF LoadF32(const std::uint8_t* in, std::size_t vector) {
  return hn::LoadU(kDF, reinterpret_cast<const float*>(in) + vector * hn::Lanes(kDF));
}

struct ToF16 {
  static constexpr std::size_t kIn = 4, kOut = 2;

  static HWY_INLINE hn::Vec<D16> pair(VF a, VF b) {
    if constexpr (kHasF16Instructions) {
      const hn::Rebind<hwy::float16_t, DF> half;
      const hn::Rebind<std::uint16_t, DF> bits;
      return hn::Combine(D16(), hn::BitCast(bits, hn::DemoteTo(half, b)),
                         hn::BitCast(bits, hn::DemoteTo(half, a)));
    } else {
      return Narrow16(EncodeF16(a), EncodeF16(b));
    }
  }

  template <bool kStream>
  HWY_INLINE VI run(const std::uint8_t* in, std::uint8_t* out, VI largest) const {
    for (std::size_t i = 0; i < 4; i += 2) {
      const VF a = LoadF32(in, i);
      const VF b = LoadF32(in, i + 1);
      largest = hn::Max(largest, hn::Max(Magnitude(a), Magnitude(b)));
      Put<kStream>(pair(a, b), D16(), out + i * hn::Lanes(kDF) * kOut);
    }
    return largest;
  }
};

struct ToBF16 {
  static constexpr std::size_t kIn = 4, kOut = 2;

  template <bool kStream>
  HWY_INLINE VI run(const std::uint8_t* in, std::uint8_t* out, VI largest) const {
    const VF a = LoadF32(in, 0);
    const VF b = LoadF32(in, 1);
    const VF c = LoadF32(in, 2);
    const VF d = LoadF32(in, 3);
    const VI magnitude =
        hn::Max(hn::Max(Magnitude(a), Magnitude(b)), hn::Max(Magnitude(c), Magnitude(d)));
    auto* upper = out + 2 * hn::Lanes(kDF) * kOut;
    // NaN is rare, and a quarter of the work.
    if (HWY_LIKELY(hn::AllFalse(kDI, hn::Gt(magnitude, hn::Set(kDI, kInfinity))))) {
      Put<kStream>(UpperHalves(RoundToUpperHalf(a), RoundToUpperHalf(b)), D16(), out);
      Put<kStream>(UpperHalves(RoundToUpperHalf(c), RoundToUpperHalf(d)), D16(), upper);
    } else {
      Put<kStream>(UpperHalves(RoundOrQuiet(a), RoundOrQuiet(b)), D16(), out);
      Put<kStream>(UpperHalves(RoundOrQuiet(c), RoundOrQuiet(d)), D16(), upper);
    }
    return hn::Max(largest, magnitude);
  }
};

template <class Format>
struct ToF8 {
  static constexpr std::size_t kIn = 4, kOut = 1;
  std::uint32_t beyond;

  template <bool kStream>
  HWY_INLINE VI run(const std::uint8_t* in, std::uint8_t* out, VI largest) const {
    const VF a = LoadF32(in, 0);
    const VF b = LoadF32(in, 1);
    const VF c = LoadF32(in, 2);
    const VF d = LoadF32(in, 3);
    const VI magnitude =
        hn::Max(hn::Max(Magnitude(a), Magnitude(b)), hn::Max(Magnitude(c), Magnitude(d)));
    const VI limit = hn::Set(kDI, std::int32_t{Format::kOverflow} - 1);
    if (HWY_LIKELY(hn::AllFalse(kDI, hn::Gt(magnitude, limit)))) {
      Put<kStream>(Narrow8(EncodeFitting<Format>(a), EncodeFitting<Format>(b),
                           EncodeFitting<Format>(c), EncodeFitting<Format>(d)),
                   D8(), out);
    } else {
      const VU nan = hn::Set(kDU, 0x7fu);
      Put<kStream>(
          Narrow8(Encode<Format>(a, beyond, nan), Encode<Format>(b, beyond, nan),
                  Encode<Format>(c, beyond, nan), Encode<Format>(d, beyond, nan)),
          D8(), out);
    }
    return hn::Max(largest, magnitude);
  }
};

// ---- loops

// Fewer elements than a step, through a padded copy: zeros change no maximum.
template <class Step>
HWY_NOINLINE VI Rest(const Step& step, const std::uint8_t* in, std::uint8_t* out,
                     std::size_t count, VI largest) {
  HWY_ALIGN std::uint8_t padded_in[4 * hn::MaxLanes(kDF) * Step::kIn] = {};
  HWY_ALIGN std::uint8_t padded_out[4 * hn::MaxLanes(kDF) * Step::kOut];
  memcpy(padded_in, in, count * Step::kIn);
  largest = step.template run<false>(padded_in, padded_out, largest);
  memcpy(out, padded_out, count * Step::kOut);
  return largest;
}

// A core reads faster from several places at once: 4 streams, a little over 16 KiB apart
// (no power of two, which would make them compete for the same places in the caches),
// each visited for a whole line of output, and fetched ahead because the work between
// two loads fills the processor's window: f32 to bf16 18 -> 21 GB/s with one thread.
constexpr std::size_t kStreams = 4;
constexpr std::size_t kApartBytes = 16640;
constexpr std::size_t kAheadBytes = 512;

template <bool kStream, class Step>
VI Steps(const Step& step, const std::uint8_t* in, std::uint8_t* out, std::size_t steps,
         VI largest) {
  const std::size_t in_step = 4 * hn::Lanes(kDF) * Step::kIn;
  const std::size_t out_step = 4 * hn::Lanes(kDF) * Step::kOut;
  const std::size_t visit = out_step < kLineBytes ? kLineBytes / out_step : 1;
  const std::size_t apart = kApartBytes / (16 * hn::Lanes(kDF)) / visit * visit;
  std::size_t done = 0;
  for (; done + kStreams * apart <= steps; done += kStreams * apart) {
    for (std::size_t at = done; at < done + apart; at += visit) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        for (std::size_t i = at + s * apart; i < at + s * apart + visit; ++i) {
          for (std::size_t line = 0; line < in_step; line += kLineBytes) {
            hwy::Prefetch(in + i * in_step + line + kAheadBytes);
          }
          largest =
              step.template run<kStream>(in + i * in_step, out + i * out_step, largest);
        }
      }
    }
  }
  for (; done < steps; ++done) {
    largest =
        step.template run<kStream>(in + done * in_step, out + done * out_step, largest);
  }
  return largest;
}

template <class Step>
std::uint32_t Run(const Step& step, const void* from, void* to, std::int64_t total,
                  bool stream) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  auto* out = static_cast<std::uint8_t*>(to);
  auto count = static_cast<std::size_t>(total);
  const std::size_t n = 4 * hn::Lanes(kDF);
  VI largest = hn::Zero(kDI);
  // Streaming stores need aligned vectors.
  const std::size_t past = reinterpret_cast<std::uintptr_t>(out) % kLineBytes;
  const std::size_t head = (kLineBytes - past) % kLineBytes / Step::kOut;
  stream = stream && past % Step::kOut == 0 && count >= head + n;
  for (std::size_t left = stream ? head : 0; left != 0;) {
    const std::size_t part = left < n ? left : n;
    largest = Rest(step, in, out, part, largest);
    in += part * Step::kIn;
    out += part * Step::kOut;
    count -= part;
    left -= part;
  }
  const std::size_t steps = count / n;
  if (stream) {
    largest = Steps<true>(step, in, out, steps, largest);
    hwy::FlushStream();
  } else {
    largest = Steps<false>(step, in, out, steps, largest);
  }
  if (const std::size_t rest = count - steps * n; rest != 0) {
    largest = Rest(step, in + steps * n * Step::kIn, out + steps * n * Step::kOut, rest,
                   largest);
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(kDI, largest)));
}

}  // namespace

std::uint32_t ToF32Impl(const ToF32& args) {
  const auto run = [&](const auto& step) HWY_ATTR {
    return Run(step, args.in, args.out, args.count, args.stream);
  };
  switch (args.from) {
    case DType::kBool:
      return run(StepTo<FromBool>());
    case DType::kU8:
      return run(StepTo<FromInteger<std::uint8_t>>());
    case DType::kI8:
      return run(StepTo<FromInteger<std::int8_t>>());
    case DType::kF8E5M2:
      return run(StepTo<FromF8E5M2>());
    case DType::kF8E4M3:
      return run(StepTo<FromF8E4M3>());
    case DType::kI16:
      return run(StepTo<FromInteger<std::int16_t>>());
    case DType::kU16:
      return run(StepTo<FromInteger<std::uint16_t>>());
    case DType::kF16:
      return run(StepTo<FromF16>());
    case DType::kBF16:
      return run(StepTo<FromBF16>());
    case DType::kF32:
      return run(StepTo<FromItself>());
    // Wide numbers are rare in checkpoints, and compilers vectorize the definition.
    default:
      return reference_to_f32(args);
  }
}

std::uint32_t FromF32Impl(const FromF32& args) {
  const bool saturate = args.overflow == Overflow::kSaturate;
  const auto run = [&](const auto& step) HWY_ATTR {
    return Run(step, args.in, args.out, args.count, args.stream);
  };
  switch (args.to) {
    case DType::kF8E5M2:
      return run(ToF8<F8E5M2>{saturate ? 0x7bu : 0x7cu});
    case DType::kF8E4M3:
      return run(ToF8<F8E4M3>{saturate ? 0x7eu : 0x7fu});
    case DType::kF16:
      return run(ToF16());
    case DType::kBF16:
      return run(ToBF16());
    case DType::kF32:
      return run(StepTo<FromItself>());
    default:
      return 0;
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(ToF32Impl);
PITH_EXPORT(FromF32Impl);

bool converts_to_f32(DType from) {
  switch (from) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return true;
    default:
      return converts_from_f32(from);
  }
}

bool converts_from_f32(DType to) {
  switch (to) {
    case DType::kF8E5M2:
    case DType::kF8E4M3:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return true;
    default:
      return false;
  }
}

std::uint32_t to_f32(const ToF32& args) noexcept {
  return PITH_DISPATCH(ToF32Impl)(args);
}

std::uint32_t from_f32(const FromF32& args) noexcept {
  return PITH_DISPATCH(FromF32Impl)(args);
}

}  // namespace pith::kernels
#endif
