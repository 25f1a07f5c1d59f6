#include "src/kernels/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/error-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

ErrorSums ErrorSumsImpl(const float* before, const float* after, std::int64_t n) {
  ErrorTotals totals;
  std::int64_t i = 0;
  for (; i + kErrorBlock <= n; i += kErrorBlock) {
    totals.AddValues(before + i, after + i, kErrorBlock);
  }
  if (i < n) totals.AddTail(before + i, after + i, n - i);
  ErrorSums sums = totals.Finish([&]() HWY_ATTR { return CountZeros(before, n); });
  sums.zeros_after = CountZeros(after, n);
  return sums;
}

std::int64_t FirstErrorImpl(const float* before, const float* after, std::int64_t n,
                            double error) {
  const VF wanted = hn::Set(kDF, static_cast<float>(error));
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF e = hn::Abs(hn::Sub(hn::LoadU(kDF, before + i), hn::LoadU(kDF, after + i)));
    if (!hn::AllFalse(kDF, hn::Eq(e, wanted))) break;
  }
  for (; i < n; ++i) {
    const float e = __builtin_fabsf(before[i] - after[i]);
    if (static_cast<double>(e) == error) return i;
  }
  for (i = 0; i < n; ++i) {
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

PITH_EXPORT(ErrorSumsImpl);
PITH_EXPORT(FirstErrorImpl);

ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept {
  const ErrorSums sums = PITH_DISPATCH(ErrorSumsImpl)(before, after, n);
  return fits_f32(sums, n) ? sums : error_sums_in_double(before, after, n);
}

std::int64_t first_error(const float* before, const float* after, std::int64_t n,
                         double error) noexcept {
  return PITH_DISPATCH(FirstErrorImpl)(before, after, n, error);
}

}  // namespace pith::kernels
#endif
