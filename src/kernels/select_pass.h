// One pass of selection by a bracket (select.cc): counts magnitudes at and below its
// lower end, and collects those strictly inside.
#pragma once

#include <cstdint>

namespace pith::kernels {

/// Open interval of magnitude bits. `lo` may be -1, `hi` is at most INT32_MAX.
struct Bracket {
  std::int32_t lo = -1;
  std::int32_t hi = INT32_MAX;
  bool count_ends = false;  ///< fill equal_lo and equal_hi, where ties are to be feared
};

struct BracketCounts {
  std::int64_t up_to_lo = 0;  ///< magnitudes <= lo
  std::int64_t equal_lo = 0;
  std::int64_t equal_hi = 0;
  std::int64_t inside = 0;   ///< collected
  std::int32_t largest = 0;  ///< magnitude bits

  void add(const BracketCounts& other) {
    up_to_lo += other.up_to_lo;
    equal_lo += other.equal_lo;
    equal_hi += other.equal_hi;
    inside += other.inside;
    largest = largest > other.largest ? largest : other.largest;
  }
};

/// What one call looks at: `streams` stretches of `n` values, `stride` values apart. Memory gives
/// four streams at once a quarter more than one.
struct BracketInput {
  const float* values;
  std::int64_t n;
  std::int64_t stride = 0;
  int streams = 1;  ///< 1 or kBracketStreams
};
inline constexpr int kBracketStreams = 4;
/// n is at most this.
inline constexpr std::int64_t kBracketBlock = 1024;

/// Writes the magnitudes (without sign) inside the bracket to `out` in any order; it has room
/// for streams * n values and does not alias the input.
BracketCounts bracket_pass(const BracketInput& input, const Bracket& bracket,
                           float* out) noexcept;
BracketCounts reference_bracket_pass(const BracketInput& input, const Bracket& bracket,
                                     float* out) noexcept;

}  // namespace pith::kernels
