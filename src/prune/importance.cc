#include "pith/prune/importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "src/kernels/select.h"
#include "src/prune/scores.h"

namespace pith {

std::string_view to_string(Importance importance) {
  switch (importance) {
    case Importance::kL1:
      return "l1";
    case Importance::kL2:
      return "l2";
    case Importance::kTaylorProxy:
      return "taylor_proxy";
    case Importance::kRandom:
      return "random";
    case Importance::kWanda:
      return "wanda";
  }
  return "unknown";
}

Result<std::vector<float>> importance_scores(std::span<const float> values,
                                             const ImportanceOptions& options,
                                             std::string_view name) {
  const std::string where = describe("importance", name);
  if (options.importance == Importance::kWanda) {
    const std::size_t cols = options.column_norms.size();
    if (cols == 0 || values.size() % cols != 0) {
      return Status::invalid_argument(
          fmt::format("{}: {} values are no whole rows of {} columns, the number of "
                      "column norms given",
                      where, values.size(), cols));
    }
    PITH_OK(check_norms(options.importance, options.column_norms,
                        static_cast<std::int64_t>(cols), where));
  }
  PITH_OK(check_no_nan(values, 0, where));
  std::vector<float> scores(values.size());
  fill_scores(options, values, 0, 0, scores.data());
  return scores;
}

float sparsity_at(std::span<const float> scores, float threshold) {
  if (scores.empty()) return 0.0f;
  std::int64_t at_most = 0;
  for (const float score : scores) at_most += score <= threshold ? 1 : 0;
  if (scores.size() <= std::size_t{1} << 24) {
    return static_cast<float>(at_most) / static_cast<float>(scores.size());
  }
  return static_cast<float>(static_cast<double>(at_most) /
                            static_cast<double>(scores.size()));
}

std::vector<float> top_scores(std::span<const float> scores, std::int64_t k) {
  const auto n = static_cast<std::int64_t>(scores.size());
  k = std::clamp<std::int64_t>(k, 0, n);
  if (k == 0) return {};
  const kernels::MagnitudeRank rank = kernels::select_magnitude(scores.data(), n, n - k);
  const float threshold = std::bit_cast<float>(rank.bits);
  std::vector<float> top;
  top.reserve(static_cast<std::size_t>(k));
  for (const float score : scores) {
    if (score > threshold) top.push_back(score);
  }
  std::sort(top.begin(), top.end(), std::greater<>());
  top.resize(static_cast<std::size_t>(k), threshold);
  return top;
}

ScoreStats score_stats(std::span<const float> scores) {
  ScoreStats stats;
  if (scores.empty()) return stats;
  const auto n = static_cast<std::int64_t>(scores.size());
  const auto [min, max] = std::minmax_element(scores.begin(), scores.end());
  stats.min = *min;
  stats.max = *max;
  double sum = 0;
  for (const float score : scores) sum += score;
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (const float score : scores) {
    const double distance = score - mean;
    squares += distance * distance;
  }
  stats.mean = static_cast<float>(mean);
  stats.std_dev = static_cast<float>(std::sqrt(squares / static_cast<double>(n)));
  const kernels::MagnitudeRank upper = kernels::select_magnitude(scores.data(), n, n / 2);
  stats.median = std::bit_cast<float>(upper.bits);
  if (n % 2 == 0) {
    const kernels::MagnitudeRank lower =
        kernels::select_magnitude(scores.data(), n, n / 2 - 1);
    // The sum of two floats is exact in double, or rounds as it would in f32.
    stats.median = static_cast<float>(
        (double{std::bit_cast<float>(lower.bits)} + double{stats.median}) / 2);
  }
  return stats;
}

}  // namespace pith
