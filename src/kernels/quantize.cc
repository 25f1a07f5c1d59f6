// Codes of values.
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/quantize.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/absmax-inl.h"
#include "src/kernels/codes-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

constexpr std::int64_t kBatchGroups = 64;  // whose factors are found at once

HWY_INLINE CodeRule RuleOf(const EncodeGroups& args, std::int64_t group) {
  const std::int64_t g = args.one_scale ? 0 : group;
  const bool has_zero_point = args.zero_points != nullptr;
  return {args.divisors[g], has_zero_point ? args.zero_points[g] : 0.0F,
          has_zero_point,   args.inverse,
          args.limit,       args.low,
          args.high,        args.rounding};
}

// The factors of a batch of groups.
struct BatchFactors {
  alignas(32) float of[kBatchGroups];

  // False if there are none.
  HWY_INLINE bool Find(const float* divisors, std::int64_t groups, bool inverse) {
    auto normal = hn::Eq(hn::Zero(kDF), hn::Zero(kDF));
    for (std::int64_t g = 0; g < groups; g += kLanes) {
      alignas(32) float padded[kLanes] = {};
      const std::int64_t rest = groups - g;
      if (rest < kLanes) {
        std::memcpy(padded, divisors + g, static_cast<std::size_t>(rest) * sizeof(float));
        for (std::int64_t i = rest; i < kLanes; ++i) padded[i] = 1;
      }
      VF factor = hn::LoadU(kDF, rest < kLanes ? padded : divisors + g);
      if (!inverse) factor = hn::Div(hn::Set(kDF, 1.0F), factor);
      const VF magnitude = hn::Abs(factor);
      const auto inside = hn::And(hn::Ge(magnitude, hn::Set(kDF, kSmallestFactor)),
                                  hn::Le(magnitude, hn::Set(kDF, kLargestFactor)));
      normal = hn::And(normal, hn::Or(inside, hn::Eq(factor, hn::Zero(kDF))));
      hn::Store(factor, kDF, of + g);
    }
    return hn::AllTrue(kDF, normal);
  }
};

// Mixed codes.
template <Packing kPacking, bool kStream>
HWY_INLINE void Store(V8 codes, std::uint8_t* out) {
  if constexpr (kPacking == Packing::kInt4) {
    StoreInt4(codes, out);
  } else if constexpr (kStream) {
    hn::Stream(Order(codes), kD8, reinterpret_cast<std::int8_t*>(out));
  } else {
    hn::StoreU(Order(codes), kD8, reinterpret_cast<std::int8_t*>(out));
  }
}

// Fewer than kStep values: as if zeros followed, in memory of our own.
template <Packing kPacking>
HWY_NOINLINE void EncodeTail(const EncodeGroups& args, std::int64_t group,
                             const float* values, std::int64_t n, std::uint8_t* out) {
  alignas(32) float padded[kStep] = {};
  alignas(32) std::uint8_t codes[kStep];
  std::memcpy(padded, values, static_cast<std::size_t>(n) * sizeof(float));
  Store<kPacking, false>(ExactCodes(RuleOf(args, group), padded), codes);
  std::int64_t bytes = n;
  if (kPacking == Packing::kInt4) {
    bytes = (n + 1) / 2;
    if (n % 2 != 0) codes[bytes - 1] &= 0x0f;
  }
  std::memcpy(out, codes, static_cast<std::size_t>(bytes));
}

// ---- groups

// Bytes of codes that n values have.
template <Packing kPacking>
HWY_INLINE std::int64_t CodeBytes(std::int64_t n) {
  return kPacking == Packing::kInt4 ? n / 2 : n;
}

template <Packing kPacking, bool kFast, bool kLimit, bool kStream>
void EncodeSome(const EncodeGroups& args, const BatchFactors& all, std::int64_t begin,
                std::int64_t end) {
  // In registers: a store of bytes could change all that is behind a reference.
  const std::int64_t size = args.in.size;
  const std::int64_t stride = args.stride;
  const bool one_scale = args.one_scale;
  const float* values = args.in.values + begin * size;
  std::uint8_t* out = args.codes + begin * stride;
  constexpr bool kNibbles = kPacking != Packing::kInt8;
  const FastLimits<kNibbles> limits(args.low, args.high);
  for (std::int64_t g = begin; g < end; ++g, values += size, out += stride) {
    const std::int64_t n = g + 1 < args.in.groups ? size : args.in.last;
    const VF factor = hn::Set(kDF, all.of[one_scale ? 0 : g - begin]);
    V8 halves[32 / kStep];
    std::int64_t i = 0;
    for (; i + kStep <= n; i += kStep) {
      V8 codes;
      if (!kFast || !FastCodes<kLimit, kNibbles>(values + i, factor, limits, codes)) {
        codes = ExactCodes(RuleOf(args, g), values + i);
      }
      if constexpr (kPacking == Packing::kInt4Halves) {
        halves[i / kStep] = codes;
      } else {
        Store<kPacking, kStream>(codes, out + CodeBytes<kPacking>(i));
      }
    }
    if constexpr (kPacking == Packing::kInt4Halves) {
      StoreHalves(halves, out);
    } else if (i < n) {
      EncodeTail<kPacking>(args, g, values + i, n - i, out + CodeBytes<kPacking>(i));
    }
  }
}

template <Packing kPacking>
void EncodeAll(const EncodeGroups& args) {
  const bool stream = MayStream<kPacking>(args);
  BatchFactors factors;
  bool fast = false;
  for (std::int64_t g = 0; g < args.in.groups; g += kBatchGroups) {
    const std::int64_t rest = args.in.groups - g;
    const std::int64_t end = g + (rest < kBatchGroups ? rest : kBatchGroups);
    if (args.zero_points == nullptr && (!args.one_scale || g == 0)) {
      fast = factors.Find(args.divisors + g, args.one_scale ? 1 : end - g, args.inverse);
    }
    if (!fast) {
      EncodeSome<kPacking, false, false, false>(args, factors, g, end);
    } else if (args.limit) {
      stream ? EncodeSome<kPacking, true, true, true>(args, factors, g, end)
             : EncodeSome<kPacking, true, true, false>(args, factors, g, end);
    } else {
      stream ? EncodeSome<kPacking, true, false, true>(args, factors, g, end)
             : EncodeSome<kPacking, true, false, false>(args, factors, g, end);
    }
  }
  if (stream) hwy::FlushStream();
}

// ---- one scale

constexpr std::int64_t kLine = 64;     // values that are taken from a stream at a time
constexpr std::int64_t kAhead = 1024;  // bytes that are fetched

// The codes of the first values, as many as make streams. Returns their number.
template <Packing kPacking, bool kLimit, bool kStream>
std::int64_t EncodeStreams(const EncodeGroups& args, VF factor, VU& largest) {
  // An odd number of lines: streams that are a power of two apart meet in the caches.
  const std::int64_t lines = args.in.last / (kStreams * kLine);
  const std::int64_t apart = (lines - (lines % 2 == 0 ? 1 : 0)) * kLine;
  constexpr bool kNibbles = kPacking != Packing::kInt8;
  const FastLimits<kNibbles> limits(args.low, args.high);
  VU most = hn::Zero(kDU);
  for (std::int64_t at = 0; at < apart; at += kLine) {
    for (std::int64_t s = 0; s < kStreams; ++s) {
      const std::int64_t first = s * apart + at;
      const float* values = args.in.values + first;
      std::uint8_t* out = args.codes + CodeBytes<kPacking>(first);
      for (std::int64_t i = 0; i < kLine; i += kStep) {
        for (std::int64_t byte = 0; byte < kStep * 4; byte += 64) {
          hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(values + i) + kAhead +
                        byte);
        }
        most = hn::Max(most, LaneMax<Absmax>(values + i, kStep));
        V8 codes;
        if (HWY_UNLIKELY(
                !(FastCodes<kLimit, kNibbles>(values + i, factor, limits, codes)))) {
          codes = ExactCodes(RuleOf(args, 0), values + i);
        }
        Store<kPacking, kStream>(codes, out + CodeBytes<kPacking>(i));
      }
    }
  }
  largest = most;
  return apart > 0 ? kStreams * apart : 0;
}

template <Packing kPacking>
std::uint32_t EncodeOne(const EncodeGroups& args) {
  BatchFactors factors;
  VU largest = hn::Zero(kDU);
  std::int64_t done = 0;
  if (factors.Find(args.divisors, 1, args.inverse)) {
    const VF factor = hn::Set(kDF, factors.of[0]);
    const bool stream = MayStream<kPacking>(args);
    if (args.limit) {
      done = stream ? EncodeStreams<kPacking, true, true>(args, factor, largest)
                    : EncodeStreams<kPacking, true, false>(args, factor, largest);
    } else {
      done = stream ? EncodeStreams<kPacking, false, true>(args, factor, largest)
                    : EncodeStreams<kPacking, false, false>(args, factor, largest);
    }
  }
  EncodeGroups rest = args;
  const std::int64_t n = args.in.last - done;
  rest.in = {args.in.values + done, 1, n, n};
  rest.codes += CodeBytes<kPacking>(done);
  EncodeAll<kPacking>(rest);
  return HWY_MAX(hn::GetLane(AcrossLanes<Absmax>(largest)),
                 GroupMax<Absmax>(rest.in.values, n));
}

std::uint32_t EncodeOneScaleImpl(const EncodeGroups& args) {
  return args.packing == Packing::kInt4 ? EncodeOne<Packing::kInt4>(args)
                                        : EncodeOne<Packing::kInt8>(args);
}

// ---- the choice

void EncodeGroupsImpl(const EncodeGroups& args) {
  switch (args.packing) {
    case Packing::kInt8:
      return EncodeAll<Packing::kInt8>(args);
    case Packing::kInt4:
      return EncodeAll<Packing::kInt4>(args);
    case Packing::kInt4Halves:
      return EncodeAll<Packing::kInt4Halves>(args);
  }
}

template <bool kInverse, bool kZeroPoint>
std::int64_t CountSaturatedOf(const EncodeGroups& args) {
  VI ones = hn::Zero(kDI);  // -1 for each: there are less than 2^31 values
  for (std::int64_t g = 0; g < args.in.groups; ++g) {
    const std::int64_t n = g + 1 < args.in.groups ? args.in.size : args.in.last;
    const CodeRule rule = RuleOf(args, g);
    const float* values = args.in.values + g * args.in.size;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      ones = hn::Add(ones, Saturated<kInverse, kZeroPoint>(rule, values + i));
    }
    if (i < n) {
      float padded[kLanes] = {};  // a zero is never outside
      std::memcpy(padded, values + i, static_cast<std::size_t>(n - i) * sizeof(float));
      ones = hn::Add(ones, Saturated<kInverse, kZeroPoint>(rule, padded));
    }
  }
  return -hn::GetLane(hn::SumOfLanes(kDI, ones));
}

std::int64_t CountSaturatedImpl(const EncodeGroups& args) {
  if (args.zero_points != nullptr) return CountSaturatedOf<false, true>(args);
  return args.inverse ? CountSaturatedOf<true, false>(args)
                      : CountSaturatedOf<false, false>(args);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(EncodeGroupsImpl);
PITH_EXPORT(EncodeOneScaleImpl);
PITH_EXPORT(CountSaturatedImpl);

void encode_groups(const EncodeGroups& args) noexcept {
  PITH_DISPATCH(EncodeGroupsImpl)(args);
}

std::uint32_t encode_one_scale(const EncodeGroups& args) noexcept {
  return PITH_DISPATCH(EncodeOneScaleImpl)(args);
}

std::int64_t count_saturated(const EncodeGroups& args) noexcept {
  return PITH_DISPATCH(CountSaturatedImpl)(args);
}

}  // namespace pith::kernels
#endif
