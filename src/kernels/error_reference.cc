#include <algorithm>
#include <cmath>

#include "src/kernels/error.h"

namespace pith::kernels {
namespace {

double add_lanes(const double (&lanes)[8]) {
  const double a = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double b = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return a + b;
}

}  // namespace

ErrorSums reference_error_sums(const float* before, const float* after,
                               std::int64_t n) noexcept {
  double error[8] = {};
  double error_squared[8] = {};
  double squared_before[8] = {};
  double squared_after[8] = {};
  ErrorSums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = before[i];
    const double y = after[i];
    const double e = std::fabs(x - y);
    error[i % 8] += e;
    error_squared[i % 8] += e * e;
    squared_before[i % 8] += x * x;
    squared_after[i % 8] += y * y;
    sums.max_error = std::max(sums.max_error, e);
    sums.zeros_before += x == 0 ? 1 : 0;
    sums.zeros_after += y == 0 ? 1 : 0;
  }
  sums.error = add_lanes(error);
  sums.error_squared = add_lanes(error_squared);
  sums.squared_before = add_lanes(squared_before);
  sums.squared_after = add_lanes(squared_after);
  return sums;
}

std::int64_t reference_first_error(const float* before, const float* after,
                                   std::int64_t n, double error) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::fabs(double{before[i]} - double{after[i]}) == error) return i;
  }
  return -1;
}

}  // namespace pith::kernels
