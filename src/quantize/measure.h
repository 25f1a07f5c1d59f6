// Error figures of the chunks of a tensor.
#pragma once

#include <cstdint>

#include "pith/quantize/error.h"

namespace pith {

/// Adds the figures of n <= kErrorChunk elements, the first of which is element `offset`
/// of what `figures` is about. Values that are not finite before are counted apart.
/// Returns the first of the n elements that is NaN after, or -1.
std::int64_t add_chunk(ErrorFigures& figures, const float* before, const float* after,
                       std::int64_t n, std::int64_t offset);

}  // namespace pith
