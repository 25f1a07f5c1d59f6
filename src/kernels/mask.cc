#include "src/kernels/mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/mask.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/select.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// Values of a step: whole bytes of the mask, whatever the length of a vector.
constexpr std::int64_t kStep = 32;
// Counters are 32 bits wide; a chunk is far from where they could overflow.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;
// Bytes ahead that are asked for.
constexpr std::int64_t kAhead = 1024;
constexpr std::int64_t kStreams = 4;

// Calls body(i) for the steps i, i + kStep, ... of n values, in four streams: memory gives them a
// quarter more than one. Returns where the rest, less than a step, begins.
template <typename Body>
HWY_INLINE std::int64_t for_steps(const float* values, std::int64_t n, const Body& body) {
  const std::int64_t stride = n / kStreams / kStep * kStep;
  for (std::int64_t i = 0; i < stride; i += kStep) {
    for (std::int64_t stream = 0; stream < kStreams; ++stream) {
      const std::int64_t at = stream * stride + i;
      const auto* ahead = reinterpret_cast<const char*>(values + at) + kAhead;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
      body(at);
    }
  }
  std::int64_t i = kStreams * stride;
  for (; i + kStep <= n; i += kStep) body(i);
  return i;
}

HWY_INLINE VI magnitude(DI di, VI bits) {
  return hn::And(bits, hn::Set(di, static_cast<std::int32_t>(kMagnitudeMask)));
}

HWY_INLINE std::int64_t total(DI di, VI counts) {
  HWY_ALIGN std::int32_t lanes[hn::MaxLanes(di)];
  hn::Store(counts, di, lanes);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < hn::Lanes(di); ++i) sum += lanes[i];
  return sum;
}

// The bits of kStep values, given the comparison of each vector.
template <typename KeepAt>
HWY_INLINE void store_step(DI di, std::uint8_t* mask, const KeepAt& keep_at) {
  constexpr std::size_t kLanes = hn::MaxLanes(DI());
  if constexpr (kLanes >= 8) {
    for (std::size_t j = 0; j < kStep; j += kLanes) {
      hn::StoreMaskBits(di, keep_at(j), mask + j / 8);
    }
  } else {
    for (std::size_t j = 0; j < kStep; j += 8) {
      std::uint32_t byte = 0;
      for (std::size_t part = 0; part < 8; part += kLanes) {
        std::uint8_t bits[8];
        hn::StoreMaskBits(di, keep_at(j + part), bits);
        byte |= static_cast<std::uint32_t>(bits[0]) << part;
      }
      mask[j / 8] = static_cast<std::uint8_t>(byte);
    }
  }
}

HWY_INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <bool kWithMask>
HWY_INLINE std::int64_t prune_chunk(const float* values, std::int64_t n,
                                    std::uint32_t limit, float* out,
                                    std::uint8_t* HWY_RESTRICT mask) {
  const DF df;
  const DI di;
  const VI vlimit = hn::Set(di, static_cast<std::int32_t>(limit));
  VI kept = hn::Zero(di);
  const auto step = [&](std::int64_t i) HWY_ATTR {
    const auto keep_at = [&](std::size_t j) HWY_ATTR {
      const auto v = hn::LoadU(df, values + i + j);
      const auto keep = hn::Gt(magnitude(di, hn::BitCast(di, v)), vlimit);
      kept = hn::Sub(kept, hn::VecFromMask(di, keep));
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(df, keep), v), df, out + i + j);
      return keep;
    };
    if constexpr (kWithMask) {
      store_step(di, mask + i / 8, keep_at);
    } else {
      for (std::size_t j = 0; j < kStep; j += hn::Lanes(di)) keep_at(j);
    }
  };
  std::int64_t i = for_steps(values, n, step);
  std::int64_t count = total(di, kept);
  for (; i < n; ++i) {
    const bool keep = (bits_of(values[i]) & kMagnitudeMask) > limit;
    if constexpr (kWithMask) {
      const std::uint8_t before = i % 8 == 0 ? std::uint8_t{0} : mask[i / 8];
      mask[i / 8] = static_cast<std::uint8_t>(before | (keep ? 1 : 0) << (i % 8));
    }
    out[i] = keep ? values[i] : 0.0f;
    count += keep ? 1 : 0;
  }
  return count;
}

std::int64_t PruneUpTo(const float* values, std::int64_t n, std::uint32_t limit,
                       float* out, std::uint8_t* mask) {
  std::int64_t kept = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t size = n - begin < kChunk ? n - begin : kChunk;
    kept += mask != nullptr
                ? prune_chunk<true>(values + begin, size, limit, out + begin,
                                    mask + begin / 8)
                : prune_chunk<false>(values + begin, size, limit, out + begin, nullptr);
  }
  return kept;
}

std::int64_t ApplyMask(float* HWY_RESTRICT values, std::int64_t n,
                       const std::uint8_t* HWY_RESTRICT mask) {
  const DF df;
  const DI di;
  std::int64_t nonzero = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t size = n - begin < kChunk ? n - begin : kChunk;
    float* chunk = values + begin;
    const std::uint8_t* chunk_mask = mask + begin / 8;
    constexpr std::int64_t kLanes = hn::MaxLanes(di);
    // By bits, because a comparison of floats has NaN equal to 0 on some sets.
    const auto add_nonzero = [&](VI sum, hn::Vec<DF> v) HWY_ATTR {
      const VI m = magnitude(di, hn::BitCast(di, v));
      return hn::Sub(sum, hn::VecFromMask(di, hn::Gt(m, hn::Zero(di))));
    };
    // Lane i of a group of 8 or fewer tests its own bit of the byte.
    const VI lane_bit = hn::Shl(hn::Set(di, 1), hn::And(hn::Iota(di, 0), hn::Set(di, 7)));
    VI counts = hn::Zero(di);
    const auto step = [&](std::int64_t at) HWY_ATTR {
      for (std::int64_t i = at; i < at + kStep; i += kLanes) {
        hn::Mask<DF> keep;
        if constexpr (kLanes <= 8) {
          const VI byte = hn::Set(di, chunk_mask[i / 8] >> (i % 8));
          keep = hn::RebindMask(df, hn::TestBit(byte, lane_bit));
        } else {
          std::uint8_t bytes[8] = {};
          __builtin_memcpy(bytes, chunk_mask + i / 8, kLanes / 8);
          keep = hn::LoadMaskBits(df, bytes);
        }
        const auto out = hn::IfThenElseZero(keep, hn::LoadU(df, chunk + i));
        hn::StoreU(out, df, chunk + i);
        counts = add_nonzero(counts, out);
      }
    };
    std::int64_t i = for_steps(chunk, size, step);
    nonzero += total(di, counts);
    for (; i < size; ++i) {
      if ((chunk_mask[i / 8] >> (i % 8) & 1) == 0) chunk[i] = 0.0f;
      nonzero += chunk[i] != 0.0f ? 1 : 0;
    }
  }
  return nonzero;
}

// Counts magnitudes that stand in a relation to `bits`.
template <bool kEqual>
HWY_INLINE std::int64_t count_relation(const float* values, std::int64_t n,
                                       std::uint32_t bits) {
  const DF df;
  const DI di;
  const VI wanted = hn::Set(di, static_cast<std::int32_t>(bits));
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t end = n - begin < kChunk ? n : begin + kChunk;
    VI counts = hn::Zero(di);
    const auto step = [&](std::int64_t at) HWY_ATTR {
      for (std::int64_t j = at; j < at + kStep; j += lanes) {
        const VI m = magnitude(di, hn::BitCast(di, hn::LoadU(df, values + begin + j)));
        const auto hit = kEqual ? hn::Eq(m, wanted) : hn::Gt(m, wanted);
        counts = hn::Sub(counts, hn::VecFromMask(di, hit));
      }
    };
    std::int64_t i = begin + for_steps(values + begin, end - begin, step);
    count += total(di, counts);
    for (; i < end; ++i) {
      const std::uint32_t m = bits_of(values[i]) & kMagnitudeMask;
      count += (kEqual ? m == bits : m > bits) ? 1 : 0;
    }
  }
  return count;
}

std::int64_t CountNonzero(const float* values, std::int64_t n) {
  return count_relation<false>(values, n, 0);
}

std::int64_t CountMagnitude(const float* values, std::int64_t n, std::uint32_t bits) {
  return count_relation<true>(values, n, bits);
}

std::int64_t LimitMagnitude(float* values, std::int64_t n, float limit) {
  const DF df;
  const DI di;
  const auto vlimit = hn::Set(df, limit);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t limited = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t end = n - begin < kChunk ? n : begin + kChunk;
    VI counts = hn::Zero(di);
    const auto step = [&](std::int64_t at) HWY_ATTR {
      for (std::int64_t j = begin + at; j < begin + at + kStep; j += lanes) {
        const auto v = hn::LoadU(df, values + j);
        const auto large = hn::Gt(hn::Abs(v), vlimit);
        counts = hn::Sub(counts, hn::VecFromMask(di, hn::RebindMask(di, large)));
        hn::StoreU(hn::IfThenElse(large, hn::CopySign(vlimit, v), v), df, values + j);
      }
    };
    std::int64_t i = begin + for_steps(values + begin, end - begin, step);
    limited += total(di, counts);
    for (; i < end; ++i) {
      const float magnitude_i = __builtin_fabsf(values[i]);
      if (!(magnitude_i > limit)) continue;
      values[i] = __builtin_copysignf(limit, values[i]);
      ++limited;
    }
  }
  return limited;
}

}  // namespace
}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(PruneUpTo);
PITH_EXPORT(ApplyMask);
PITH_EXPORT(CountNonzero);
PITH_EXPORT(CountMagnitude);
PITH_EXPORT(LimitMagnitude);

std::int64_t prune_up_to(const float* values, std::int64_t n, std::uint32_t limit,
                         float* out, std::uint8_t* mask) noexcept {
  return PITH_DISPATCH(PruneUpTo)(values, n, limit, out, mask);
}

std::int64_t apply_mask(float* values, std::int64_t n,
                        const std::uint8_t* mask) noexcept {
  return PITH_DISPATCH(ApplyMask)(values, n, mask);
}

std::int64_t count_nonzero(const float* values, std::int64_t n) noexcept {
  return PITH_DISPATCH(CountNonzero)(values, n);
}

std::int64_t count_magnitude(const float* values, std::int64_t n,
                             std::uint32_t bits) noexcept {
  return PITH_DISPATCH(CountMagnitude)(values, n, bits);
}

std::int64_t limit_magnitude(float* values, std::int64_t n, float limit) noexcept {
  return PITH_DISPATCH(LimitMagnitude)(values, n, limit);
}

}  // namespace pith::kernels
#endif
