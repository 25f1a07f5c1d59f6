// Pruning: the weights that matter least become zero.
//
//   pith::PruneOptions options;
//   options.sparsity = 0.5f;
//   PITH_TRY(pith::Pruned pruned, pith::prune({"fc.weight", weights, shape}, options));
//   use(pruned.mask, pruned.sparsity());
//
// Units (elements, rows, columns, blocks) are ordered by rising score, equal scores by
// rising index; exactly the first k become +0, nothing else changes. k = floor(sparsity *
// units), the product in f32 up to 2^24 units and exact above, lowered where fewer than
// min_nonzero non-zero weights would be left. Infinities rank highest, NaN is refused. On
// an error nothing has changed. Results depend neither on threads nor on the instruction
// set.
//
// A tensor that does not fit in memory is pruned row by row: stream.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/prune/importance.h"
#include "pith/prune/mask.h"
#include "pith/prune/sparsity.h"
#include "pith/tensor/shape.h"

namespace pith {

/// What is kept or zeroed as one.
enum class Granularity : std::uint8_t {
  kElement,
  kRow,     ///< of a matrix; score: sum of the elements' (root of the sum of squares for
            ///< kL2)
  kColumn,  ///< likewise
  kBlock,  ///< block_rows x block_cols of a matrix, smaller at its edges; score: the mean
  kNM,     ///< n of each m consecutive elements of a row are kept; `sparsity` is not used
};

/// Which units compete with each other.
enum class PruneScope : std::uint8_t {
  kTensor,
  kRow,     ///< elements of one row: every row loses the same number (Wanda's own way)
  kGlobal,  ///< elements of all tensors, in their order
};

struct PruneOptions {
  float sparsity = 0.5f;  ///< share of the units to zero, in [0, 1)
  Importance importance = Importance::kL1;
  Granularity granularity = Granularity::kElement;
  PruneScope scope = PruneScope::kTensor;  ///< kRow and kGlobal only with kElement
  /// Non-zero weights that stay at least, of those the input has: per tensor, per row
  /// with PruneScope::kRow, of all together with kGlobal. At most the number of elements
  /// there. With kNM the pattern is the floor.
  std::int64_t min_nonzero = 1;
  std::uint64_t seed = 0;       ///< of Importance::kRandom
  std::int64_t n = 2;           ///< of kNM: kept, in [1, m]
  std::int64_t m = 4;           ///< of kNM: group; a last group of m' columns keeps
                                ///< ceil(n * m' / m)
  std::int64_t block_rows = 1;  ///< of kBlock, at least 1
  std::int64_t block_cols = 16;
};

/// A tensor to prune in place.
struct PruneTensor {
  std::string_view name;  ///< for messages
  std::span<float> values;
  Shape shape;
  std::span<const float> column_norms = {};  ///< of Importance::kWanda, one per column
};

/// What became of it.
struct Pruned {
  BitMask mask;             ///< what was kept; zeros that were not chosen count as kept
  std::int64_t pruned = 0;  ///< elements the mask does not keep
  Sparsity after;           ///< of the values now
  bool skipped = false;     ///< by prune_model, which says why
  std::string reason;

  [[nodiscard]] float sparsity() const { return after.sparsity(); }
};

/// Checks what can be checked without a tensor. kInvalidArgument names option, value,
/// range.
Status check(const PruneOptions& options);

/// Weights that the mask of a tensor of that shape keeps; nothing if the values decide,
/// too: with kGlobal, blocks that are smaller at an edge, and scores other than magnitudes,
/// where the floor of non-zero weights counts.
[[nodiscard]] std::optional<std::int64_t> kept_by_shape(const PruneOptions& options,
                                                        const Shape& shape);

/// Prunes one tensor; kGlobal means the same as kTensor.
///
/// kInvalidArgument, checked in this order: sparsity not in [0, 1) or another option out
/// of its range; no elements; a granularity of rows, columns or blocks on a shape that is
/// not two-dimensional; min_nonzero above the number of elements; values or norms that do
/// not fit the shape. kNotFinite if a value is NaN: tensor and index are named.
Result<Pruned> prune(const PruneTensor& tensor, const PruneOptions& options);

/// Prunes tensors one by one, or all together with PruneScope::kGlobal. A tensor without
/// elements, or not two-dimensional where rows, columns or blocks are pruned, is passed
/// through and says so. Other errors are those of prune(), and leave the tensors before
/// unchanged only if the scope is global; the message names the tensor.
Result<std::vector<Pruned>> prune_model(std::span<const PruneTensor> tensors,
                                        const PruneOptions& options);

}  // namespace pith
