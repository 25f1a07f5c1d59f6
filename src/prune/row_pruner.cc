#include "src/prune/row_pruner.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/mask.h"
#include "src/kernels/n_m.h"
#include "src/prune/check.h"
#include "src/prune/scores.h"

namespace pith {
namespace {

// The threshold of one row: `count` elements, fewer where the floor of non-zero weights
// ends it.
Threshold row_threshold(std::span<const float> values, const std::vector<float>& scores,
                        const PruneOptions& options) {
  const auto cols = static_cast<std::int64_t>(values.size());
  const std::int64_t count = prune_count(options, cols);
  if (count == 0) return Threshold::none();
  const kernels::MagnitudeRank rank =
      kernels::select_magnitude(scores.data(), cols, count - 1);
  Threshold threshold = Threshold::first(count, rank);
  if (orders_by_magnitude(options.importance)) return threshold;  // zeros went first

  std::vector<float> nonzero;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0.0f) nonzero.push_back(scores[i]);
  }
  const auto size = static_cast<std::int64_t>(nonzero.size());
  const std::int64_t may_go = size - std::min(options.min_nonzero, size);
  if (may_go == size) return threshold;
  threshold.limit_nonzero(may_go,
                          kernels::select_magnitude(nonzero.data(), size, may_go));
  return threshold;
}

}  // namespace

Applied prune_rows_alone(std::span<float> values, std::int64_t cols, std::uint8_t* mask,
                         const PruneOptions& options, std::span<const float> norms,
                         std::int64_t first) {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  const std::int64_t row_bytes = cols / 8 + (cols % 8 != 0 ? 1 : 0);
  const std::int64_t piece = std::max<std::int64_t>(1, (std::int64_t{1} << 16) / cols);
  const bool by_magnitude = orders_by_magnitude(options.importance);
  const ImportanceOptions importance{options.importance, options.seed, norms};
  std::vector<Applied> parts(static_cast<std::size_t>(piece_count(rows, piece)));
  parallel_pieces(rows, piece, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(static_cast<std::size_t>(cols));
    std::vector<std::uint8_t> own_mask(static_cast<std::size_t>(row_bytes));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::span<float> line = values.subspan(static_cast<std::size_t>(row * cols),
                                                   static_cast<std::size_t>(cols));
      std::uint8_t* bits = mask != nullptr ? mask + row * row_bytes : own_mask.data();
      const std::int64_t at = first + row * cols;
      if (by_magnitude) {
        std::copy(line.begin(), line.end(), scores.begin());
      } else {
        fill_scores(importance, line, at, 0, scores.data());
      }
      Applied& part = parts[static_cast<std::size_t>(i)];
      if (options.granularity == Granularity::kNM) {
        part.pruned +=
            cols - kernels::mask_n_m(scores.data(), cols, options.n, options.m, bits);
        part.nonzero += kernels::apply_mask(line.data(), cols, bits);
        continue;
      }
      Threshold threshold = row_threshold(line, scores, options);
      part.add(by_magnitude
                   ? apply_threshold(line, cols, line.data(), bits, threshold)
                   : apply_score_threshold(line, cols, bits, importance, at, threshold));
    }
  });
  Applied applied;
  for (const Applied& part : parts) applied.add(part);
  return applied;
}

}  // namespace pith
