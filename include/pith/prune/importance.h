// How much each weight matters: the score by which pruning chooses, smallest first.
//
//   PITH_TRY(std::vector<float> scores, pith::importance_scores(weights, {}));
//   pith::ScoreStats stats = pith::score_stats(scores);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pith/base/result.h"

namespace pith {

enum class Importance : std::uint8_t {
  kL1,           ///< |w|
  kL2,           ///< w * w
  kTaylorProxy,  ///< w * w, for weights whose gradient is proportional to them
  kRandom,       ///< a draw per weight, the same for the same seed
  kWanda,        ///< |w| times the norm of the activations of its column
};

/// "l1", "l2", "taylor_proxy", "random", "wanda".
[[nodiscard]] std::string_view to_string(Importance importance);

/// A score and what it depends on.
struct ImportanceOptions {
  Importance importance = Importance::kL1;
  std::uint64_t seed = 0;               ///< of kRandom
  std::span<const float> column_norms;  ///< of kWanda: one per column, finite, >= 0
};

/// One score per value; a value stands in column i % column_norms.size().
///
/// kRandom: a state that starts at the seed is advanced once for each value by
/// state * 6364136223846793005 + 1442695040888963407 modulo 2^64; its upper half over
/// 2^32, below 1, is the score. kNotFinite if a value is NaN (name and index in the
/// message), kInvalidArgument if the norms do not fit.
Result<std::vector<float>> importance_scores(std::span<const float> values,
                                             const ImportanceOptions& options,
                                             std::string_view name = {});

/// Of scores, which are >= 0 and not NaN:
/// the share that is at most `threshold`; 0 where there are none.
[[nodiscard]] float sparsity_at(std::span<const float> scores, float threshold);

/// The k largest in falling order, or all if there are fewer.
[[nodiscard]] std::vector<float> top_scores(std::span<const float> scores,
                                            std::int64_t k);

/// All 0 where there are no scores. The median of an even number is the mean of the
/// middle two; the deviation is that of the whole population. Sums are in double.
struct ScoreStats {
  float min = 0;
  float max = 0;
  float mean = 0;
  float median = 0;
  float std_dev = 0;
};
[[nodiscard]] ScoreStats score_stats(std::span<const float> scores);

}  // namespace pith
