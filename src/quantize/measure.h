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

/// Figures of elements that come after some whose figures are known: where the largest
/// error is matters only if it is larger than all of theirs. They are merged with those
/// figures, or with others that were.
ErrorFigures figures_after(const ErrorFigures& known);

/// True if the figures of n elements can be had from these sums: all of them are finite.
bool are_figures(const kernels::ErrorSums& sums, std::int64_t n);
/// True if an error is the largest so far.
bool is_largest(const ErrorFigures& figures, double error);
/// Adds such sums. at: of the largest error, if that is the largest so far.
void add_sums(ErrorFigures& figures, const kernels::ErrorSums& sums, std::int64_t n,
              std::int64_t at);

}  // namespace pith
