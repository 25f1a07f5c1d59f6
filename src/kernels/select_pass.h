// One pass of selection by a bracket (select.cc): counts magnitudes at and below its
// lower end, and collects those strictly inside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/kernels/select.h"

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

/// The bracket of a sample around rank k of n values, and the share of the values to be
/// expected inside: `radius` ranks of the sample to both sides.
struct BracketEstimate {
  Bracket bracket;
  double inside = 1;
};
BracketEstimate bracket_of(const std::vector<float>& sample, std::int64_t n,
                           std::int64_t k, double radius);

/// Rank k, if it is not outside of the bracket after all. `inside` is what passes over all
/// values have collected.
std::optional<MagnitudeRank> rank_in(const Bracket& bracket, BracketCounts counts,
                                     std::span<const FloatSpan> inside, std::int64_t k);

/// Goes over n values in four streams, block by block: take(counts, inside) gets what each block
/// has, and ends it by returning false.
template <typename Take>
void for_bracket_blocks(const float* values, std::int64_t n, const Bracket& bracket,
                        const Take& take) {
  constexpr std::int64_t kLine = 16;
  float inside[kBracketStreams * kBracketBlock];
  const std::int64_t stride = n / kBracketStreams / kLine * kLine;
  for (std::int64_t at = 0; at < stride; at += kBracketBlock) {
    const std::int64_t size = stride - at < kBracketBlock ? stride - at : kBracketBlock;
    if (!take(bracket_pass({values + at, size, stride, kBracketStreams}, bracket, inside),
              inside)) {
      return;
    }
  }
  for (std::int64_t at = kBracketStreams * stride; at < n; at += kBracketBlock) {
    const std::int64_t size = n - at < kBracketBlock ? n - at : kBracketBlock;
    if (!take(bracket_pass({values + at, size}, bracket, inside), inside)) return;
  }
}

}  // namespace pith::kernels
