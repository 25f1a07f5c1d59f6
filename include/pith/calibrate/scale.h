// From statistics to the scale of a quantized activation: clip value / largest code.
//
//   PITH_TRY(float scale, pith::calibrated_scale(stats, {.method =
//   pith::ScaleMethod::kMse})); for (const std::string& finding :
//   pith::check_scale(scale, stats)) warn(finding);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/calibrate/stats.h"

namespace pith {

/// How the clip value is chosen. All clip around zero.
enum class ScaleMethod : std::uint8_t {
  kMinMax,      ///< the largest magnitude
  kPercentile,  ///< a percentile of the magnitudes; the largest where that is 0
  kAciq,        ///< the best clip for a normal or a Laplace distribution of the same mean
                ///< square and mean magnitude, whichever is nearer; at most the largest
  kMse,         ///< of 100 equal steps up to the largest magnitude, the one with the
                ///< least mean squared error over the values seen
};

struct ScaleOptions {
  ScaleMethod method = ScaleMethod::kPercentile;
  double percentile = 0.9999;  ///< for kPercentile: in [0, 1]
  int bits = 8;                ///< 8 or 4
  /// Computes as the reference does, to compare with it: percentiles in 256ths of the
  /// largest magnitude, 2.83 deviations around the mean for kAciq, and a cost of kMse
  /// that counts rounding four times. These clip too hard.
  bool reference = false;
};

/// 0 if there is no value or all are 0. kInvalidArgument if an option is out of its
/// range.
Result<float> calibrated_scale(const ValueStats& stats, const ScaleOptions& options = {});

/// The scale of the reference's simple statistics: the 99th percentile / 127, the largest
/// magnitude / 127 where that is 0, 1 / 127 where all values are 0; 0 without values.
[[nodiscard]] float suggested_scale(const ValueStats& stats);

/// What is wrong with an int8 scale for values such as these; nothing if it is good. A
/// good one is finite, above 0, and within [1/1000, 10] times largest magnitude / 127.
[[nodiscard]] std::vector<std::string> check_scale(float scale, const ValueStats& stats);

/// What a static int8 scale costs the values seen: those beyond 127 steps saturate, all
/// others are rounded.
struct ClippingCost {
  double clipped = 0;      ///< share of the values that saturate
  double clip_error = 0;   ///< sum of squared errors of those
  double round_error = 0;  ///< of all others: scale^2 / 12 each

  /// Relative to the energy of the values, as a root: what the layer's input loses.
  double relative_error = 0;
};
[[nodiscard]] ClippingCost clipping_cost(float scale, const ValueStats& stats);

/// A warning if saturation costs more than rounding, as the 99th percentile of activations
/// with outliers does; nothing if the scale is well chosen.
[[nodiscard]] std::vector<std::string> check_clipping(float scale,
                                                      const ValueStats& stats);

/// Smallest and largest weight, and the int8 scale that holds both.
struct WeightRange {
  float min = 0;
  float max = 0;
  float scale = 0;  ///< the larger magnitude / 127
};

/// kInvalidArgument without weights, kNotFinite if one is NaN or infinite.
Result<WeightRange> weight_range(std::span<const float> weights);

}  // namespace pith
