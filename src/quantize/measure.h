// Error figures of the chunks of a tensor.
#pragma once

#include <cstdint>

#include "pith/quantize/error.h"
#include "src/kernels/error.h"

namespace pith {

/// Adds the figures of n <= kErrorChunk elements, the first of which is element `offset`
/// of what `figures` is about. Values that are not finite before are counted apart.
/// Returns the first of the n elements that is NaN after, or -1.
std::int64_t add_chunk(ErrorFigures& figures, const float* before, const float* after,
                       std::int64_t n, std::int64_t offset);

/// Adds sums of n elements. False, and nothing is added, if they do not serve: something
/// is not finite, or too large or small for them, or there is a new largest error, whose
/// place is to be found.
bool add_sums(ErrorFigures& figures, const kernels::ErrorSums& sums, std::int64_t n);

}  // namespace pith
