// How many weights are kept, from options and a shape alone.
#include "pith/prune/prune.h"

#include "src/base/parallel.h"
#include "src/kernels/select.h"
#include "src/prune/check.h"
#include "src/prune/scores.h"

namespace pith {
namespace {

// Units of `size` elements each, of which the least important go.
std::int64_t kept_units(const PruneOptions& options, std::int64_t units,
                        std::int64_t size) {
  const std::int64_t floor = units - piece_count(options.min_nonzero, size);
  const std::int64_t count = std::max<std::int64_t>(
      0, std::min(kernels::share_floor(options.sparsity, units), floor));
  return (units - count) * size;
}

std::int64_t kept_of_row(const PruneOptions& options, std::int64_t cols) {
  const std::int64_t tail = cols % options.m;
  return cols / options.m * options.n + piece_count(options.n * tail, options.m);
}

}  // namespace

std::optional<std::int64_t> kept_by_shape(const PruneOptions& options,
                                          const Shape& shape) {
  const std::int64_t elements = shape.elements();
  if (elements == 0) return 0;
  const std::int64_t rows = shape.rows();
  const std::int64_t cols = shape.cols();
  if (options.granularity == Granularity::kNM) return rows * kept_of_row(options, cols);
  // With such scores what is kept is never all zeros while a non-zero weight goes.
  if (!orders_by_magnitude(options.importance)) return std::nullopt;
  switch (options.granularity) {
    case Granularity::kElement:
      if (options.scope == PruneScope::kGlobal) return std::nullopt;
      if (options.scope == PruneScope::kRow) {
        return rows * (cols - prune_count(options, cols));
      }
      return elements - prune_count(options, elements);
    case Granularity::kRow:
      if (options.min_nonzero > 1) return std::nullopt;
      return kept_units(options, rows, cols);
    case Granularity::kColumn:
      if (options.min_nonzero > 1) return std::nullopt;
      return kept_units(options, cols, rows);
    default:
      break;
  }
  const std::int64_t block_rows = std::min(options.block_rows, rows);
  const std::int64_t block_cols = std::min(options.block_cols, cols);
  if (options.min_nonzero > 1 || rows % block_rows != 0 || cols % block_cols != 0) {
    return std::nullopt;
  }
  const std::int64_t size = block_rows * block_cols;
  return kept_units(options, elements / size, size);
}

}  // namespace pith
