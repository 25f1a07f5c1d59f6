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
  // Blocks without a branch inside, which compilers turn into vector code.
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, n);
    std::uint32_t largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, magnitude(values[i]));
    }
    if (largest <= kInfinityBits) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (magnitude(values[i]) > kInfinityBits) return i;
    }
  }
  return -1;
}

}  // namespace pith::kernels
