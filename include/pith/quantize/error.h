// What quantization (or any change) did to the values of a tensor, in numbers.
//
//   PITH_TRY(pith::ErrorFigures e, pith::measure_error(original, decoded));
//   fmt::print("rmse {:.3g}, {:.1f} dB\n", e.rmse(), e.sqnr_db());
//
// Differences are taken in f32, where they are exact for values of similar size, and
// summed in double: in chunks of kErrorChunk elements, each over 4 sums (element i goes
// to sum i mod 4) that are then added pairwise, chunk after chunk. What goes to a sum is
// the f32 total of 128 elements, or of one where f32 is too narrow for their squares.
// So the figures are the same for every instruction set and number of threads. Another
// cut of a tensor into parts can change the last digits: show at most 6.
#pragma once

#include <cstdint>
#include <span>

#include "pith/base/result.h"
#include "pith/tensor/non_finite.h"

namespace pith {

/// Elements summed before their sums go to the total.
inline constexpr std::int64_t kErrorChunk = 4096;

/// Sums over the elements of a tensor or of a part of it; a plain struct, so that parts
/// can be merged and written to a report. "Before" is the original, "after" the decoded.
struct ErrorFigures {
  std::int64_t count = 0;         ///< elements compared: all that are finite
  std::int64_t non_finite = 0;    ///< NaN or infinite before: in no other figure
  std::int64_t zeros_before = 0;  ///< +0 and -0
  std::int64_t zeros_after = 0;
  std::int64_t saturated = 0;    ///< more than half a step beyond the outermost code
  double sum_error = 0;          ///< of |before - after|
  double sum_error_squared = 0;  ///< of (before - after)^2
  double sum_squared_before = 0;
  double sum_squared_after = 0;
  double max_error = 0;         ///< largest |before - after|
  std::int64_t max_index = -1;  ///< the first element that has it; -1 if count is 0

  [[nodiscard]] double mae() const;  ///< mean of |before - after|; 0 for no elements
  [[nodiscard]] double mse() const;  ///< mean of (before - after)^2; 0 for no elements
  [[nodiscard]] double rmse() const;
  /// 10 log10(signal / error), of the sums of squares; +infinity if there is no error.
  [[nodiscard]] double sqnr_db() const;
  /// Cosine of the angle between before and after; 1 if both are zeros, 0 if one is.
  [[nodiscard]] double cosine() const;

  /// Adds the figures of a part whose element 0 is element `offset` here. Merge parts in
  /// the order of the tensor: only then sums and max_index do not depend on chance.
  void merge(const ErrorFigures& part, std::int64_t offset);

  friend bool operator==(const ErrorFigures&, const ErrorFigures&) = default;
};

/// The figures of two arrays; `saturated` stays 0. kInvalidArgument if the lengths
/// differ; kNotFinite with the index if `before` has a NaN or infinity (unless they are
/// counted) or `after` a NaN. An infinity in `after` is an infinite error.
Result<ErrorFigures> measure_error(std::span<const float> before,
                                   std::span<const float> after,
                                   NonFinite policy = NonFinite::kError);

}  // namespace pith
