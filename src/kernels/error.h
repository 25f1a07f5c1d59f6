// Sums over two arrays of values, before and after a change.
//
// Element i goes to lane i mod 8 of each sum, in double; differences are taken in double,
// too. The lanes are added at the end: i and i + 4, then i and i + 2, then the last two.
// So the sums do not depend on the width of vectors.
#pragma once

#include <cstdint>

namespace pith::kernels {

struct ErrorSums {
  double error = 0;          // of |before - after|
  double error_squared = 0;  // of (before - after)^2
  double squared_before = 0;
  double squared_after = 0;
  double max_error = 0;  // NaN among the values may be lost in it, not in the sums
  std::int64_t zeros_before = 0;
  std::int64_t zeros_after = 0;
};

ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept;
ErrorSums reference_error_sums(const float* before, const float* after,
                               std::int64_t n) noexcept;

/// The first element with |before - after| == error, or -1.
std::int64_t first_error(const float* before, const float* after, std::int64_t n,
                         double error) noexcept;
std::int64_t reference_first_error(const float* before, const float* after,
                                   std::int64_t n, double error) noexcept;

}  // namespace pith::kernels
