// Clipping at a percentile of the magnitudes: the small ones to zero, or the large ones
// to it.
//
//   PITH_TRY(pith::Clipped c, pith::clip(values, 0.1f, "fc.weight"));    // smallest
//   tenth: 0 PITH_TRY(pith::Limited l, pith::limit(values, 0.999f, "fc.weight")); //
//   outliers: +-t
//
// The percentile p of n magnitudes is the one at rank min(max(ceil(p * n), 1), n),
// counted from 1 in rising order; the product is rounded to f32 up to 2^24 elements and
// exact above.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pith/base/result.h"
#include "pith/prune/sparsity.h"

namespace pith {

struct Clipped {
  float threshold = 0;      ///< the percentile
  std::int64_t zeroed = 0;  ///< elements chosen: the rank of the percentile
  bool cleared = false;     ///< all elements became zero (percentile 1): worth a warning
  Sparsity after;
};

/// Sets the smallest magnitudes to +0: as many as the rank says, equal ones by rising
/// index, so that ties never take more than asked. Zeros that were not chosen become +0
/// too where the percentile is 0. Nothing happens to an empty tensor.
///
/// kInvalidArgument if the percentile is not in (0, 1]; kNotFinite if a value is NaN. On
/// an error nothing has changed.
Result<Clipped> clip(std::span<float> values, float percentile,
                     std::string_view name = {});

struct Limited {
  float threshold = 0;
  std::int64_t limited = 0;  ///< elements that were larger and are +-threshold now
};

/// Draws magnitudes above the percentile back to it. Errors as clip().
Result<Limited> limit(std::span<float> values, float percentile,
                      std::string_view name = {});

/// kInvalidArgument unless 0 < percentile <= 1.
Status check_percentile(float percentile);

/// How many of n elements clip() zeroes; the rank, counted from 1. 0 for n = 0.
[[nodiscard]] std::int64_t clip_count(float percentile, std::int64_t n);

}  // namespace pith
