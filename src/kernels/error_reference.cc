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

// Products and sums of 64 elements are of type T.
template <typename T>
ErrorSums sums_of(const float* before, const float* after, std::int64_t n) {
  double error[8] = {};
  double error_squared[8] = {};
  double squared_before[8] = {};
  double squared_after[8] = {};
  ErrorSums sums;
  for (std::int64_t block = 0; block < n; block += 64) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      T e1 = 0;
      T e2 = 0;
      T x2 = 0;
      T y2 = 0;
      for (std::int64_t i = block + lane; i < std::min(n, block + 64); i += 8) {
        const T x = before[i];
        const T y = after[i];
        const T e = std::fabs(x - y);
        e1 += e;
        e2 += e * e;
        x2 += x * x;
        y2 += y * y;
        sums.max_error = std::max(sums.max_error, double{e});
        sums.zeros_before += x == 0 ? 1 : 0;
        sums.zeros_after += y == 0 ? 1 : 0;
      }
      error[lane] += double{e1};
      error_squared[lane] += double{e2};
      squared_before[lane] += double{x2};
      squared_after[lane] += double{y2};
    }
  }
  sums.error = add_lanes(error);
  sums.error_squared = add_lanes(error_squared);
  sums.squared_before = add_lanes(squared_before);
  sums.squared_after = add_lanes(squared_after);
  return sums;
}

}  // namespace

ErrorSums reference_error_sums(const float* before, const float* after,
                               std::int64_t n) noexcept {
  const ErrorSums sums = sums_of<float>(before, after, n);
  return fits_f32(sums, n) ? sums : sums_of<double>(before, after, n);
}

std::int64_t reference_first_error(const float* before, const float* after,
                                   std::int64_t n, double error) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (double{std::fabs(before[i] - after[i])} == error) return i;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::fabs(double{before[i]} - double{after[i]}) == error) return i;
  }
  return -1;
}

}  // namespace pith::kernels
