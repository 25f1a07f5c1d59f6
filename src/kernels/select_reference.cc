#include <algorithm>
#include <bit>
#include <vector>

#include "src/kernels/select.h"

namespace pith::kernels {

MagnitudeRank reference_select_magnitude(const float* values, std::int64_t n,
                                         std::int64_t k) {
  std::vector<std::uint32_t> sorted;
  for (std::int64_t i = 0; i < n; ++i) {
    sorted.push_back(std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask);
  }
  std::sort(sorted.begin(), sorted.end());
  MagnitudeRank rank;
  rank.bits = sorted[static_cast<std::size_t>(k)];
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), rank.bits);
  rank.below = first - sorted.begin();
  rank.equal = last - first;
  rank.has_nan = sorted.back() > kInfinityBits;
  return rank;
}

}  // namespace pith::kernels
