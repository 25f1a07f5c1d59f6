#include <algorithm>
#include <bit>

#include "src/kernels/float_bits.h"
#include "src/kernels/n_m.h"

namespace pith::kernels {

std::int64_t reference_mask_n_m(const float* values, std::int64_t count, std::int64_t n,
                                std::int64_t m, std::uint8_t* mask) {
  const auto magnitude = [&](std::int64_t i) {
    return std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask;
  };
  std::fill_n(mask, (count + 7) / 8, std::uint8_t{0});
  std::int64_t kept = 0;
  for (std::int64_t begin = 0; begin < count; begin += m) {
    const std::int64_t end = std::min(begin + m, count);
    const std::int64_t keep = (n * (end - begin) + m - 1) / m;
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t before = 0;  // values that are pruned rather than this one
      for (std::int64_t j = begin; j < end; ++j) {
        const bool tie = magnitude(j) == magnitude(i) && j < i;
        before += magnitude(j) < magnitude(i) || tie ? 1 : 0;
      }
      if (before < end - begin - keep) continue;
      mask[i / 8] = static_cast<std::uint8_t>(mask[i / 8] | 1 << (i % 8));
      ++kept;
    }
  }
  return kept;
}

}  // namespace pith::kernels
