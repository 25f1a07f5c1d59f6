// Range and exact sums of floats, a chunk at a time.
//
// A double holds 53 bits, a float 24. Up to kMomentsChunk floats whose exponents lie
// within one window of kMomentsWindow exponents can be added in doubles without any
// rounding, in any order; their squares too, if each is first cut in two on a grid that
// the window fixes. So every instruction set gives the same sums, and adding them to an
// ExactSum keeps them exact. Data with a wider range takes one call per window.
#pragma once

#include <cstdint>

namespace pith::kernels {

inline constexpr std::int64_t kMomentsChunk = 1024;
inline constexpr int kMomentsWindow = 20;

/// A float as an integer in the order of its value; -0 comes before +0.
constexpr std::int32_t order_key(std::uint32_t bits) {
  const auto sign = static_cast<std::int32_t>(bits) >> 31;
  return static_cast<std::int32_t>(bits ^ (static_cast<std::uint32_t>(sign) >> 1));
}
/// The bits of a key: the same function.
constexpr std::uint32_t key_bits(std::int32_t key) {
  return static_cast<std::uint32_t>(order_key(static_cast<std::uint32_t>(key)));
}

/// What the values of a chunk are like. NaN and infinity are only counted.
struct ChunkRange {
  std::int32_t min_key = INT32_MAX;
  std::int32_t max_key = INT32_MIN;
  std::uint32_t smallest = UINT32_MAX;  // magnitude bits of the smallest but 0
  std::uint32_t largest = 0;            // magnitude bits
  std::int64_t zeros = 0;
  std::int64_t nonfinite = 0;

  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};
/// Adds n <= kMomentsChunk values to a range.
void chunk_range(const float* x, std::int64_t n, ChunkRange& range) noexcept;
void reference_chunk_range(const float* x, std::int64_t n, ChunkRange& range) noexcept;

/// Values whose magnitude bits lie in [low, high], and the grid that their squares are
/// cut on: adding and subtracting `magic` leaves a multiple of the grid.
struct Window {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  double magic = 0;
};
/// The window whose highest exponent is that of the magnitude `largest`; `largest` is not
/// 0 and finite. The next one has largest = low - 1, if low > 0.
Window window_below(std::uint32_t largest) noexcept;

/// Exact sums over the values in a window; squares = squares_high + squares_low.
struct WindowSums {
  double sum = 0;
  double sum_abs = 0;
  double squares_high = 0;
  double squares_low = 0;

  friend bool operator==(const WindowSums&, const WindowSums&) = default;
};
WindowSums window_sums(const float* x, std::int64_t n, const Window& window) noexcept;
WindowSums reference_window_sums(const float* x, std::int64_t n,
                                 const Window& window) noexcept;

/// Adds the squares of the values in a window to high[j] and low[j] for each column j of
/// rows <= kMomentsChunk rows; the sums must have begun at 0 with this window.
void column_squares(const float* x, std::int64_t rows, std::int64_t cols,
                    std::int64_t stride, const Window& window, double* high,
                    double* low) noexcept;
void reference_column_squares(const float* x, std::int64_t rows, std::int64_t cols,
                              std::int64_t stride, const Window& window, double* high,
                              double* low) noexcept;

/// absmax[j] = the larger of absmax[j] and the magnitudes in column j; NaN and infinity
/// are passed over.
void column_absmax(const float* x, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, float* absmax) noexcept;
void reference_column_absmax(const float* x, std::int64_t rows, std::int64_t cols,
                             std::int64_t stride, float* absmax) noexcept;

}  // namespace pith::kernels
