#include "src/kernels/select_pass.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/select_pass.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/select.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::ScalableTag<std::int32_t>;
using VI = hn::Vec<DI>;

HWY_INLINE std::int64_t total(DI di, VI counts) {
  HWY_ALIGN std::int32_t lanes[hn::MaxLanes(di)];
  hn::Store(counts, di, lanes);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < hn::Lanes(di); ++i) sum += lanes[i];
  return sum;
}

// One bit per lane, the first lowest.
template <typename M>
HWY_INLINE std::uint32_t lane_bits(DI di, M mask) {
  static_assert(hn::MaxLanes(DI()) <= 16);
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(di, mask, bytes);
  return static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8);
}

// Bytes ahead that are asked for.
constexpr std::int64_t kAhead = 1024;

// Counts, and notes the steps of two vectors that have values inside: about one in ten, so a
// branch would be mispredicted that often. A second loop, with the values still in the
// first-level cache, takes them out one by one.
template <bool kCountEnds, int kStreams>
BracketCounts bracket_block(const BracketInput& input, const Bracket& bracket,
                            std::int32_t* HWY_RESTRICT out) {
  const DI di;
  constexpr std::int64_t kLanes = hn::MaxLanes(di);
  constexpr std::int64_t kStep = 2 * kLanes;
  const auto* const base = reinterpret_cast<const std::int32_t*>(input.values);
  const VI sign = hn::Set(di, static_cast<std::int32_t>(kMagnitudeMask));
  const VI lo = hn::Set(di, bracket.lo);
  const VI hi = hn::Set(di, bracket.hi);
  VI above0 = hn::Zero(di);
  VI above1 = hn::Zero(di);
  VI equal_lo = hn::Zero(di);
  VI equal_hi = hn::Zero(di);
  VI largest0 = hn::Zero(di);
  VI largest1 = hn::Zero(di);
  constexpr std::int64_t kMaxHits = kStreams * kBracketBlock / kStep + 1;
  std::uint32_t hit_bits[kMaxHits];
  const std::int32_t* hit_at[kMaxHits];
  std::size_t hits = 0;
  std::int64_t i = 0;
  for (; i + kStep <= input.n; i += kStep) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::int32_t* const at = base + stream * input.stride + i;
      if constexpr (kStreams > 1) {
        __builtin_prefetch(reinterpret_cast<const char*>(at) + kAhead);
      }
      const VI v0 = hn::And(hn::LoadU(di, at), sign);
      const VI v1 = hn::And(hn::LoadU(di, at + kLanes), sign);
      const auto a0 = hn::Gt(v0, lo);
      const auto a1 = hn::Gt(v1, lo);
      above0 = hn::Sub(above0, hn::VecFromMask(di, a0));
      above1 = hn::Sub(above1, hn::VecFromMask(di, a1));
      largest0 = hn::Max(largest0, v0);
      largest1 = hn::Max(largest1, v1);
      if constexpr (kCountEnds) {
        equal_lo = hn::Sub(equal_lo, hn::VecFromMask(di, hn::Eq(v0, lo)));
        equal_hi = hn::Sub(equal_hi, hn::VecFromMask(di, hn::Eq(v0, hi)));
        equal_lo = hn::Sub(equal_lo, hn::VecFromMask(di, hn::Eq(v1, lo)));
        equal_hi = hn::Sub(equal_hi, hn::VecFromMask(di, hn::Eq(v1, hi)));
      }
      const std::uint32_t bits = lane_bits(di, hn::And(a0, hn::Gt(hi, v0))) |
                                 lane_bits(di, hn::And(a1, hn::Gt(hi, v1))) << kLanes;
      hit_bits[hits] = bits;
      hit_at[hits] = at;
      hits += bits != 0 ? 1 : 0;
    }
  }
  BracketCounts counts;
  std::int64_t above = total(di, above0) + total(di, above1);
  counts.equal_lo = total(di, equal_lo);
  counts.equal_hi = total(di, equal_hi);
  HWY_ALIGN std::int32_t top[kLanes];
  hn::Store(hn::Max(largest0, largest1), di, top);
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    counts.largest = counts.largest > top[lane] ? counts.largest : top[lane];
  }
  const auto magnitude_at = [](const std::int32_t* at) {
    std::int32_t v;
    __builtin_memcpy(&v, at, sizeof(v));
    return v & static_cast<std::int32_t>(kMagnitudeMask);
  };
  std::int32_t* end = out;
  for (std::size_t hit = 0; hit < hits; ++hit) {
    for (std::uint32_t bits = hit_bits[hit]; bits != 0; bits &= bits - 1) {
      *end++ = magnitude_at(hit_at[hit] + __builtin_ctz(bits));
    }
  }
  for (int stream = 0; stream < kStreams; ++stream) {
    for (std::int64_t rest = i; rest < input.n; ++rest) {
      const std::int32_t v = magnitude_at(base + stream * input.stride + rest);
      above += v > bracket.lo ? 1 : 0;
      if constexpr (kCountEnds) {
        counts.equal_lo += v == bracket.lo ? 1 : 0;
        counts.equal_hi += v == bracket.hi ? 1 : 0;
      }
      counts.largest = counts.largest > v ? counts.largest : v;
      if (v > bracket.lo && v < bracket.hi) *end++ = v;
    }
  }
  counts.up_to_lo = kStreams * input.n - above;
  counts.inside = end - out;
  return counts;
}

template <int kStreams>
BracketCounts bracket_streams(const BracketInput& input, const Bracket& bracket,
                              std::int32_t* out) {
  return bracket.count_ends ? bracket_block<true, kStreams>(input, bracket, out)
                            : bracket_block<false, kStreams>(input, bracket, out);
}

BracketCounts BracketPass(const BracketInput& input, const Bracket& bracket, float* out) {
  auto* const collected = reinterpret_cast<std::int32_t*>(out);
  return input.streams == 1 ? bracket_streams<1>(input, bracket, collected)
                            : bracket_streams<kBracketStreams>(input, bracket, collected);
}

}  // namespace
}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(BracketPass);

BracketCounts bracket_pass(const BracketInput& input, const Bracket& bracket,
                           float* out) noexcept {
  return PITH_DISPATCH(BracketPass)(input, bracket, out);
}

}  // namespace pith::kernels
#endif
