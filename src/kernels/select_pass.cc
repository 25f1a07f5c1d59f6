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

// Four vectors at a time: a bracket holds about one value in a hundred, so most steps
// collect nothing and take one branch for all four.
template <bool kCountEnds>
BracketCounts bracket_chunk(const std::int32_t* HWY_RESTRICT values, std::int64_t n,
                            const Bracket& bracket, std::int32_t* HWY_RESTRICT out) {
  const DI di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  const VI sign = hn::Set(di, static_cast<std::int32_t>(kMagnitudeMask));
  const VI lo = hn::Set(di, bracket.lo);
  const VI hi = hn::Set(di, bracket.hi);
  VI above0 = hn::Zero(di);
  VI above1 = hn::Zero(di);
  VI equal_lo = hn::Zero(di);
  VI equal_hi = hn::Zero(di);
  VI largest0 = hn::Zero(di);
  VI largest1 = hn::Zero(di);
  std::int32_t* end = out;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const VI v0 = hn::And(hn::LoadU(di, values + i), sign);
    const VI v1 = hn::And(hn::LoadU(di, values + i + lanes), sign);
    const VI v2 = hn::And(hn::LoadU(di, values + i + 2 * lanes), sign);
    const VI v3 = hn::And(hn::LoadU(di, values + i + 3 * lanes), sign);
    const auto a0 = hn::Gt(v0, lo);
    const auto a1 = hn::Gt(v1, lo);
    const auto a2 = hn::Gt(v2, lo);
    const auto a3 = hn::Gt(v3, lo);
    above0 = hn::Sub(above0, hn::VecFromMask(di, a0));
    above1 = hn::Sub(above1, hn::VecFromMask(di, a1));
    above0 = hn::Sub(above0, hn::VecFromMask(di, a2));
    above1 = hn::Sub(above1, hn::VecFromMask(di, a3));
    largest0 = hn::Max(largest0, hn::Max(v0, v1));
    largest1 = hn::Max(largest1, hn::Max(v2, v3));
    if constexpr (kCountEnds) {
      const auto ends = [&](VI v) HWY_ATTR {
        equal_lo = hn::Sub(equal_lo, hn::VecFromMask(di, hn::Eq(v, lo)));
        equal_hi = hn::Sub(equal_hi, hn::VecFromMask(di, hn::Eq(v, hi)));
      };
      ends(v0);
      ends(v1);
      ends(v2);
      ends(v3);
    }
    const auto in0 = hn::And(a0, hn::Gt(hi, v0));
    const auto in1 = hn::And(a1, hn::Gt(hi, v1));
    const auto in2 = hn::And(a2, hn::Gt(hi, v2));
    const auto in3 = hn::And(a3, hn::Gt(hi, v3));
    const auto any = hn::Or(hn::Or(in0, in1), hn::Or(in2, in3));
    if (HWY_UNLIKELY(!hn::AllFalse(di, any))) {
      end += hn::CompressStore(v0, in0, di, end);
      end += hn::CompressStore(v1, in1, di, end);
      end += hn::CompressStore(v2, in2, di, end);
      end += hn::CompressStore(v3, in3, di, end);
    }
  }
  BracketCounts counts;
  std::int64_t above = total(di, above0) + total(di, above1);
  counts.equal_lo = total(di, equal_lo);
  counts.equal_hi = total(di, equal_hi);
  HWY_ALIGN std::int32_t top[hn::MaxLanes(di)];
  hn::Store(hn::Max(largest0, largest1), di, top);
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    counts.largest = counts.largest > top[lane] ? counts.largest : top[lane];
  }
  for (; i < n; ++i) {
    std::int32_t v;
    __builtin_memcpy(&v, values + i, sizeof(v));
    v &= static_cast<std::int32_t>(kMagnitudeMask);
    above += v > bracket.lo ? 1 : 0;
    if constexpr (kCountEnds) {
      counts.equal_lo += v == bracket.lo ? 1 : 0;
      counts.equal_hi += v == bracket.hi ? 1 : 0;
    }
    counts.largest = counts.largest > v ? counts.largest : v;
    __builtin_memcpy(end, &v, sizeof(v));
    end += v > bracket.lo && v < bracket.hi ? 1 : 0;
  }
  counts.up_to_lo = n - above;
  counts.inside = end - out;
  return counts;
}

BracketCounts BracketPass(const float* values, std::int64_t n, const Bracket& bracket,
                          float* out) {
  const auto* in = reinterpret_cast<const std::int32_t*>(values);
  auto* collected = reinterpret_cast<std::int32_t*>(out);
  return bracket.count_ends ? bracket_chunk<true>(in, n, bracket, collected)
                            : bracket_chunk<false>(in, n, bracket, collected);
}

}  // namespace
}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(BracketPass);

BracketCounts bracket_pass(const float* values, std::int64_t n, const Bracket& bracket,
                           float* out) noexcept {
  return PITH_DISPATCH(BracketPass)(values, n, bracket, out);
}

}  // namespace pith::kernels
#endif
