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
using DI = hn::RebindToSigned<DD>;
using VD = hn::Vec<DD>;
using VI = hn::Vec<DI>;
constexpr DD kDD;
constexpr DF kDF;
constexpr DI kDI;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(DD()));
constexpr int kVectors = static_cast<int>(8 / kLanes);  // that hold the eight lanes

// The sums of eight lanes, one vector after the other.
struct Sums {
  VD error[kVectors];
  VD error_squared[kVectors];
  VD squared_before[kVectors];
  VD squared_after[kVectors];
  VD max_error[kVectors];
  VI zeros_before;  // -1 for each
  VI zeros_after;
};

HWY_INLINE void Add(const float* before, const float* after, Sums& sums) {
  const VD zero = hn::Zero(kDD);
  for (int k = 0; k < kVectors; ++k) {
    const VD x = hn::PromoteTo(kDD, hn::LoadU(kDF, before + k * kLanes));
    const VD y = hn::PromoteTo(kDD, hn::LoadU(kDF, after + k * kLanes));
    const VD e = hn::Abs(hn::Sub(x, y));
    sums.error[k] = hn::Add(sums.error[k], e);
    sums.error_squared[k] = hn::Add(sums.error_squared[k], hn::Mul(e, e));
    sums.squared_before[k] = hn::Add(sums.squared_before[k], hn::Mul(x, x));
    sums.squared_after[k] = hn::Add(sums.squared_after[k], hn::Mul(y, y));
    sums.max_error[k] = hn::Max(sums.max_error[k], e);
    sums.zeros_before = hn::Add(sums.zeros_before,
                                hn::BitCast(kDI, hn::VecFromMask(kDD, hn::Eq(x, zero))));
    sums.zeros_after = hn::Add(sums.zeros_after,
                               hn::BitCast(kDI, hn::VecFromMask(kDD, hn::Eq(y, zero))));
  }
}

HWY_INLINE double AddLanes(const VD (&vectors)[kVectors]) {
  alignas(32) double lanes[8];
  for (int k = 0; k < kVectors; ++k) hn::Store(vectors[k], kDD, lanes + k * kLanes);
  const double a = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double b = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return a + b;
}

ErrorSums ErrorSumsImpl(const float* before, const float* after, std::int64_t n) {
  Sums sums;
  for (int k = 0; k < kVectors; ++k) {
    sums.error[k] = sums.error_squared[k] = sums.squared_before[k] =
        sums.squared_after[k] = sums.max_error[k] = hn::Zero(kDD);
  }
  sums.zeros_before = sums.zeros_after = hn::Zero(kDI);
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) Add(before + i, after + i, sums);
  std::int64_t padding = 0;
  if (i < n) {
    float x[8] = {};
    float y[8] = {};
    std::memcpy(x, before + i, static_cast<std::size_t>(n - i) * sizeof(float));
    std::memcpy(y, after + i, static_cast<std::size_t>(n - i) * sizeof(float));
    Add(x, y, sums);
    padding = 8 - (n - i);
  }
  ErrorSums result;
  result.error = AddLanes(sums.error);
  result.error_squared = AddLanes(sums.error_squared);
  result.squared_before = AddLanes(sums.squared_before);
  result.squared_after = AddLanes(sums.squared_after);
  VD largest = sums.max_error[0];
  for (int k = 1; k < kVectors; ++k) largest = hn::Max(largest, sums.max_error[k]);
  result.max_error = hn::GetLane(hn::MaxOfLanes(kDD, largest));
  result.zeros_before = -hn::GetLane(hn::SumOfLanes(kDI, sums.zeros_before)) - padding;
  result.zeros_after = -hn::GetLane(hn::SumOfLanes(kDI, sums.zeros_after)) - padding;
  return result;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(ErrorSumsImpl);

ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept {
  return PITH_DISPATCH(ErrorSumsImpl)(before, after, n);
}

}  // namespace pith::kernels
#endif
