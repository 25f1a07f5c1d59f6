// Pruning where each row is judged alone: n:m, and PruneScope::kRow.
#pragma once

#include <cstdint>
#include <span>

#include "pith/prune/prune.h"
#include "src/prune/threshold.h"

namespace pith {

/// Zeroes elements of whole rows of `cols` values; `first` is the index of values[0] in
/// the tensor, `mask` may be null. Uses threads.
Applied prune_rows_alone(std::span<float> values, std::int64_t cols, std::uint8_t* mask,
                         const PruneOptions& options, std::span<const float> norms,
                         std::int64_t first);

}  // namespace pith
