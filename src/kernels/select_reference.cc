#include <algorithm>
#include <bit>
#include <vector>

#include "src/kernels/select.h"
#include "src/kernels/select_pass.h"

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
  rank.largest = sorted.back();
  rank.has_nan = rank.largest > kInfinityBits;
  return rank;
}

BracketCounts reference_bracket_pass(const BracketInput& input, const Bracket& bracket,
                                     float* out) noexcept {
  BracketCounts counts;
  for (std::int64_t i = 0; i < input.streams * input.n; ++i) {
    const float value = input.values[i / input.n * input.stride + i % input.n];
    const auto v =
        static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) & kMagnitudeMask);
    counts.up_to_lo += v <= bracket.lo ? 1 : 0;
    if (bracket.count_ends) {
      counts.equal_lo += v == bracket.lo ? 1 : 0;
      counts.equal_hi += v == bracket.hi ? 1 : 0;
    }
    if (v > bracket.lo && v < bracket.hi) out[counts.inside++] = std::bit_cast<float>(v);
    counts.largest = std::max(counts.largest, v);
  }
  return counts;
}

}  // namespace pith::kernels
