#include "pith/prune/clip.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/mask.h"
#include "src/kernels/select.h"
#include "src/prune/scores.h"
#include "src/prune/threshold.h"

namespace pith {

Status check_percentile(float percentile) {
  if (percentile > 0.0f && percentile <= 1.0f) return {};
  return Status::invalid_argument(
      fmt::format("clip: percentile is {}, expected a value in (0, 1]", percentile));
}

std::int64_t clip_count(float percentile, std::int64_t n) {
  return n == 0 ? 0 : kernels::percentile_rank(percentile, n) + 1;
}

Result<Clipped> clip(std::span<float> values, float percentile, std::string_view name) {
  PITH_OK(check_percentile(percentile));
  Clipped clipped;
  const auto n = static_cast<std::int64_t>(values.size());
  clipped.after = {n, 0};
  if (n == 0) return clipped;
  clipped.zeroed = clip_count(percentile, n);
  const kernels::MagnitudeRank rank =
      kernels::select_magnitude(values.data(), n, clipped.zeroed - 1);
  if (rank.has_nan) PITH_OK(check_no_nan(values, 0, describe("clip", name)));
  clipped.threshold = std::bit_cast<float>(rank.bits);
  Threshold threshold = Threshold::first(clipped.zeroed, rank);
  if (rank.bits == 0) threshold.ties = kAllTies;  // of zeros only the sign is lost
  clipped.after.nonzero =
      apply_threshold(values, n, values.data(), nullptr, threshold).nonzero;
  clipped.cleared = clipped.after.nonzero == 0;
  return clipped;
}

Result<Limited> limit(std::span<float> values, float percentile, std::string_view name) {
  PITH_OK(check_percentile(percentile));
  Limited result;
  const auto n = static_cast<std::int64_t>(values.size());
  if (n == 0) return result;
  const kernels::MagnitudeRank rank = kernels::select_magnitude(
      values.data(), n, kernels::percentile_rank(percentile, n));
  if (rank.has_nan) PITH_OK(check_no_nan(values, 0, describe("limit", name)));
  result.threshold = std::bit_cast<float>(rank.bits);
  constexpr std::int64_t kPiece = std::int64_t{1} << 18;
  std::vector<std::int64_t> limited(static_cast<std::size_t>(piece_count(n, kPiece)));
  parallel_pieces(n, kPiece, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    limited[static_cast<std::size_t>(i)] =
        kernels::limit_magnitude(values.data() + begin, end - begin, result.threshold);
  });
  for (const std::int64_t count : limited) result.limited += count;
  return result;
}

}  // namespace pith
