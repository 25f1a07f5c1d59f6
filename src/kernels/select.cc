#include "src/kernels/select.h"

#include <cassert>
#include <cmath>

namespace pith::kernels {

MagnitudeRank select_magnitude(const float* values, std::int64_t n, std::int64_t k) {
  assert(0 <= k && k < n);
  MagnitudeHistogram histogram(k);
  do {
    histogram.add(values, n);
  } while (histogram.next_pass());
  return histogram.result();
}

std::int64_t first_nan(const float* values, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(values[i])) return i;
  }
  return -1;
}

}  // namespace pith::kernels
