// What scales are made from: the largest magnitudes of values, and percentiles.
#pragma once

#include <cstdint>

#include "pith/quantize/scheme.h"
#include "src/quantize/values.h"

namespace pith {

/// Elements that one task looks at: their bytes stay in the second-level cache.
inline constexpr std::int64_t kPieceElements = 65536;
/// The same where nothing is kept for later, and only memory matters, which likes it long.
inline constexpr std::int64_t kLongPiece = 4 * kPieceElements;

/// Bits of the largest magnitudes among values.
struct Extremes {
  std::uint32_t positive = 0;  ///< without the sign bit; of all if signs do not matter
  std::uint32_t negative = 0;  ///< with the sign bit

  [[nodiscard]] std::uint32_t magnitude() const {
    return positive > negative ? positive : negative;
  }
  [[nodiscard]] bool finite() const;
  void merge(const Extremes& other);
};

/// True if a scheme has to know the signs of extremes.
inline bool needs_signs(const Scheme& scheme) {
  return !scheme.symmetric || scheme.rule == ScaleRule::kSignedMax;
}

/// Extremes of values [first, first + n) of a tensor, by all threads. If one is not
/// finite, neither is the result, or they are passed over.
Extremes find_extremes(const Values& values, std::int64_t first, std::int64_t n,
                       bool signs, bool finite_only);

/// The value of largest magnitude, the first one if there are several.
float signed_extreme(const float* values, std::int64_t n, const Extremes& extremes);

/// The magnitude at the percentile of n > 0 values: `largest` where that is 0 or not
/// finite.
float percentile_magnitude(const float* values, std::int64_t n, double p, float largest);
/// Of values [first, first + n) of a tensor.
float percentile_magnitude(const Values& values, std::int64_t first, std::int64_t n,
                           double p, float largest);
/// The same without a pass to find the largest, whose bits it gives; below 0 if there is
/// a value that is not finite, or the values have to be read otherwise.
struct FinitePercentile {
  float percentile = -1;
  std::uint32_t largest = 0;
};
FinitePercentile finite_percentile(const Values& values, double p);
/// The choice between the two.
float percentile_or(std::uint32_t percentile_bits, float largest);

}  // namespace pith
