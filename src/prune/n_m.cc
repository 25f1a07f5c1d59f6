#include "src/prune/n_m.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/kernels/select.h"

namespace pith {
namespace {

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kernels::kMagnitudeMask;
}

// ceil(n * size / m) without overflow: n <= m and size <= m.
std::int64_t share(std::int64_t n, std::int64_t size, std::int64_t m) {
  if (size == m) return n;
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>((Wide{n} * size + m - 1) / m);
}

}  // namespace

std::int64_t mask_n_m(const float* scores, std::int64_t cols, std::int64_t n,
                      std::int64_t m, std::uint8_t* mask) {
  std::fill_n(mask, (cols + 7) / 8, std::uint8_t{0});
  std::int64_t kept = 0;
  for (std::int64_t begin = 0; begin < cols; begin += std::min(m, cols - begin)) {
    const std::int64_t size = std::min(m, cols - begin);
    const std::int64_t keep = share(n, size, m);
    const std::int64_t drop = size - keep;
    const float* group = scores + begin;
    kernels::MagnitudeRank rank;
    if (drop > 0) rank = kernels::select_magnitude(group, size, drop - 1);
    std::int64_t ties = drop - rank.below;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::uint32_t bits = magnitude(group[i]);
      const bool tie = drop > 0 && bits == rank.bits && ties > 0;
      if (tie) --ties;
      const bool lost = drop > 0 && (bits < rank.bits || tie);
      const std::int64_t col = begin + i;
      mask[col / 8] =
          static_cast<std::uint8_t>(mask[col / 8] | (lost ? 0 : 1) << (col % 8));
    }
    kept += keep;
  }
  return kept;
}

}  // namespace pith
