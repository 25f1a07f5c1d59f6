// Checks that prune(), prune_model() and PruneStream share.
#pragma once

#include <cstdint>
#include <string_view>

#include "pith/base/status.h"
#include "pith/prune/prune.h"

namespace pith {

/// Rows, columns and blocks are those of a matrix.
[[nodiscard]] constexpr bool needs_matrix(Granularity granularity) {
  return granularity == Granularity::kRow || granularity == Granularity::kColumn ||
         granularity == Granularity::kBlock;
}

/// In this order: it has elements, its shape suits the granularity, min_nonzero is
/// possible.
Status check_shape(const PruneOptions& options, const Shape& shape,
                   std::string_view where);

/// min_nonzero is at most `elements`, the number that competes.
Status check_floor(const PruneOptions& options, std::int64_t elements,
                   std::string_view where);

/// How many of `n` elements that compete are zeroed, before the floor of non-zero ones.
[[nodiscard]] std::int64_t prune_count(const PruneOptions& options, std::int64_t n);

}  // namespace pith
