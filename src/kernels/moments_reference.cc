#include <algorithm>
#include <bit>
#include <cmath>

#include "src/kernels/moments.h"

namespace pith::kernels {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

bool inside(float x, const Window& window) {
  return magnitude(x) >= window.low && magnitude(x) <= window.high;
}

}  // namespace

void reference_chunk_range(const float* x, std::int64_t n, ChunkRange& range) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (magnitude(x[i]) >= kInfinity) {
      ++range.nonfinite;
      continue;
    }
    const std::int32_t key = order_key(std::bit_cast<std::uint32_t>(x[i]));
    range.min_key = std::min(range.min_key, key);
    range.max_key = std::max(range.max_key, key);
    range.largest = std::max(range.largest, magnitude(x[i]));
    if (magnitude(x[i]) == 0) {
      ++range.zeros;
    } else {
      range.smallest = std::min(range.smallest, magnitude(x[i]));
    }
  }
}

Window window_below(std::uint32_t largest) noexcept {
  const int top = std::max(1, static_cast<int>(largest >> 23));  // subnormals count as 1
  const int bottom = top - (kMomentsWindow - 1);
  Window window;
  window.low = bottom <= 1 ? 1 : static_cast<std::uint32_t>(bottom) << 23;
  window.high = (static_cast<std::uint32_t>(top) << 23) | 0x007fffffu;
  // With values below 2^(e+1), sums of 2^10 squares stay below 2^(2e+12), and what is cut
  // off below the grid 2^(2e-41) begins at 2^(2(e-19)-46): both within 53 bits.
  const int grid = 2 * (top - 127) - 41;
  window.magic = std::ldexp(1.5, 52 + grid);
  return window;
}

WindowSums reference_window_sums(const float* x, std::int64_t n,
                                 const Window& window) noexcept {
  WindowSums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!inside(x[i], window)) continue;
    const double value = x[i];
    const double square = value * value;
    const double high = (square + window.magic) - window.magic;
    sums.sum += value;
    sums.sum_abs += std::fabs(value);
    sums.squares_high += high;
    sums.squares_low += square - high;
  }
  return sums;
}

void reference_column_squares(const float* x, std::int64_t rows, std::int64_t cols,
                              std::int64_t stride, const Window& window, double* high,
                              double* low) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const float value = x[r * stride + j];
      if (!inside(value, window)) continue;
      const double square = double{value} * value;
      const double cut = (square + window.magic) - window.magic;
      high[j] += cut;
      low[j] += square - cut;
    }
  }
}

void reference_column_absmax(const float* x, std::int64_t rows, std::int64_t cols,
                             std::int64_t stride, float* absmax) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const float size = std::fabs(x[r * stride + j]);
      if (size < INFINITY && size > absmax[j]) absmax[j] = size;
    }
  }
}

}  // namespace pith::kernels
