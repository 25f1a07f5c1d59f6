#include <algorithm>
#include <cmath>

#include "src/kernels/error.h"

namespace pith::kernels {
namespace {

double add_lanes(const double (&lanes)[4]) {
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// Products and sums of a block of 512 elements are of type T.
template <typename T>
ErrorSums sums_of(const float* before, const float* after, std::int64_t n) {
  double totals[4][4] = {};
  ErrorSums sums;
  for (std::int64_t block = 0; block < n; block += 512) {
    T lanes[4][8] = {};  // error, its square, the squares of both
    for (std::int64_t pair = 0; pair < 512; ++pair) {
      if (pair / 8 % 2 != 0) continue;  // has been the second of one
      T more[4] = {};
      for (std::int64_t i : {block + pair, block + pair + 8}) {
        if (i >= n) continue;
        const T x = before[i];
        const T y = after[i];
        const T e = std::fabs(x - y);
        const T products[4] = {e, e * e, x * x, y * y};
        for (int k = 0; k < 4; ++k) more[k] += products[k];
        sums.max_error = std::max(sums.max_error, double{e});
        sums.zeros_before += x == 0 ? 1 : 0;
        sums.zeros_after += y == 0 ? 1 : 0;
      }
      for (int k = 0; k < 4; ++k) lanes[k][pair % 8] += more[k];
    }
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 4; ++i) totals[k][i] += double{lanes[k][i] + lanes[k][i + 4]};
    }
  }
  sums.error = add_lanes(totals[0]);
  sums.error_squared = add_lanes(totals[1]);
  sums.squared_before = add_lanes(totals[2]);
  sums.squared_after = add_lanes(totals[3]);
  return sums;
}

}  // namespace

ErrorSums reference_error_sums(const float* before, const float* after,
                               std::int64_t n) noexcept {
  const ErrorSums sums = sums_of<float>(before, after, n);
  return fits_f32(sums, n) ? sums : error_sums_in_double(before, after, n);
}

ErrorSums error_sums_in_double(const float* before, const float* after,
                               std::int64_t n) noexcept {
  return sums_of<double>(before, after, n);
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
