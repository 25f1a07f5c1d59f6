#include "src/kernels/error.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DD = hn::CappedTag<double, 4>;
using DF = hn::Rebind<float, DD>;
using VD = hn::Vec<DD>;
using DZ = hn::CappedTag<float, 8>;
using DI = hn::RebindToSigned<DZ>;
using VI = hn::Vec<DI>;
constexpr DD kDD;
constexpr DF kDF;
constexpr DZ kDZ;
constexpr DI kDI;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(DD()));
constexpr std::int64_t kBlock = std::int64_t{1} << 24;  // counts of it fit 32 bits

// The sums of some lanes.
struct Sums {
  VD error;
  VD error_squared;
  VD squared_before;
  VD squared_after;
  VD max_error;

  HWY_INLINE void Add(const float* before, const float* after) {
    const VD x = hn::PromoteTo(kDD, hn::LoadU(kDF, before));
    const VD y = hn::PromoteTo(kDD, hn::LoadU(kDF, after));
    const VD e = hn::Abs(hn::Sub(x, y));
    error = hn::Add(error, e);
    error_squared = hn::Add(error_squared, hn::Mul(e, e));
    // The square of an f32 value is exact in double: fused or not, the sum is the same.
    squared_before = hn::MulAdd(x, x, squared_before);
    squared_after = hn::MulAdd(y, y, squared_after);
    max_error = hn::Max(max_error, e);
  }
};

// The eight lanes of each sum, in memory.
struct Lanes {
  alignas(32) double error[8];
  alignas(32) double error_squared[8];
  alignas(32) double squared_before[8];
  alignas(32) double squared_after[8];
  alignas(32) double max_error[8];

  HWY_INLINE void Set(std::int64_t lane, const Sums& sums) {
    hn::Store(sums.error, kDD, error + lane);
    hn::Store(sums.error_squared, kDD, error_squared + lane);
    hn::Store(sums.squared_before, kDD, squared_before + lane);
    hn::Store(sums.squared_after, kDD, squared_after + lane);
    hn::Store(sums.max_error, kDD, max_error + lane);
  }
};

HWY_INLINE double AddLanes(const double (&lanes)[8]) {
  const double a = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double b = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return a + b;
}

HWY_INLINE std::int64_t CountZeros(const float* values, std::int64_t n) {
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(DZ()));
  std::int64_t count = 0;
  std::int64_t i = 0;
  while (i + kStep <= n) {
    const std::int64_t end = n - i < kBlock ? n : i + kBlock;
    VI zeros = hn::Zero(kDI);  // -1 for each
    for (; i + kStep <= end; i += kStep) {
      const auto is_zero = hn::Eq(hn::LoadU(kDZ, values + i), hn::Zero(kDZ));
      zeros = hn::Add(zeros, hn::BitCast(kDI, hn::VecFromMask(kDZ, is_zero)));
    }
    alignas(32) std::int32_t lanes[kStep];
    hn::Store(zeros, kDI, lanes);
    for (const std::int32_t lane : lanes) count -= lane;
  }
  for (; i < n; ++i) count += values[i] == 0 ? 1 : 0;
  return count;
}

// Goes over the values once for every vector of lanes, for all sums of all lanes would
// need more registers than there are.
ErrorSums ErrorSumsImpl(const float* before, const float* after, std::int64_t n) {
  const std::int64_t whole = n / 8 * 8;
  alignas(32) float x[8] = {};
  alignas(32) float y[8] = {};
  const auto rest = static_cast<std::size_t>(n - whole) * sizeof(float);
  if (rest != 0) {
    std::memcpy(x, before + whole, rest);
    std::memcpy(y, after + whole, rest);
  }
  Lanes lanes = {};
  for (std::int64_t lane = 0; lane < 8; lane += kLanes) {
    Sums sums;
    sums.error = sums.error_squared = sums.squared_before = sums.squared_after =
        sums.max_error = hn::Zero(kDD);
    for (std::int64_t i = lane; i < whole; i += 8) sums.Add(before + i, after + i);
    if (rest != 0) sums.Add(x + lane, y + lane);
    lanes.Set(lane, sums);
  }
  ErrorSums result;
  result.error = AddLanes(lanes.error);
  result.error_squared = AddLanes(lanes.error_squared);
  result.squared_before = AddLanes(lanes.squared_before);
  result.squared_after = AddLanes(lanes.squared_after);
  for (const double error : lanes.max_error) {
    if (error > result.max_error) result.max_error = error;
  }
  result.zeros_before = CountZeros(before, n);
  result.zeros_after = CountZeros(after, n);
  return result;
}

HWY_INLINE VD ErrorOf(const float* before, const float* after) {
  return hn::Abs(hn::Sub(hn::PromoteTo(kDD, hn::LoadU(kDF, before)),
                         hn::PromoteTo(kDD, hn::LoadU(kDF, after))));
}

std::int64_t FirstErrorImpl(const float* before, const float* after, std::int64_t n,
                            double error) {
  const VD wanted = hn::Set(kDD, error);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const auto low = hn::Eq(ErrorOf(before + i, after + i), wanted);
    const auto high = hn::Eq(ErrorOf(before + i + kLanes, after + i + kLanes), wanted);
    if (!hn::AllFalse(kDD, hn::Or(low, high))) break;
  }
  for (; i < n; ++i) {
    const double x = before[i];
    const double y = after[i];
    if (__builtin_fabs(x - y) == error) return i;
  }
  return -1;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(ErrorSumsImpl);
HWY_EXPORT(FirstErrorImpl);

ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept {
  return PITH_DISPATCH(ErrorSumsImpl)(before, after, n);
}

std::int64_t first_error(const float* before, const float* after, std::int64_t n,
                         double error) noexcept {
  return PITH_DISPATCH(FirstErrorImpl)(before, after, n, error);
}

}  // namespace pith::kernels
#endif
