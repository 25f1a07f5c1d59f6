// SmoothQuant: activations are divided by a factor per input feature and weights
// multiplied by it, so that the product stays and outliers of activations become smaller.
//
//   pith::SmoothCalibrator calibrator({.alpha = 0.5f});
//   PITH_OK(calibrator.record("blk.0.ffn_up", activations, 4096));
//   PITH_TRY(std::vector<float> factors, calibrator.factors("blk.0.ffn_up", weight,
//   11008)); PITH_OK(pith::smooth_weights(weight, 11008, 4096, factors));
//
// factor_j = max((A_j + e)^alpha / (W_j + e)^(1 - alpha), e), where A_j and W_j are the
// largest magnitudes of column j. e keeps it above 0 where a column is all zeros.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/calibrate/stats.h"

namespace pith {

struct SmoothOptions {
  float alpha = 0.5f;     ///< in [0, 1]: how much of the difficulty moves to the weights
  float epsilon = 1e-5f;  ///< e: finite, not negative; at least 1e-10 is used

  /// The default with alpha limited to [0, 1].
  static SmoothOptions limited(float alpha);

  /// kInvalidArgument if a field is out of its range.
  [[nodiscard]] Status validate() const;
};

/// Factors from column maxima, as ColumnStats::absmax() has them. kInvalidArgument if the
/// sizes differ or an option is out of its range; kNotFinite if a maximum is NaN or
/// infinite. Factors are finite and above 0.
Result<std::vector<float>> smooth_factors(std::span<const float> activation_absmax,
                                          std::span<const float> weight_absmax,
                                          const SmoothOptions& options = {});

/// The factors of a weight [out, in] whose input has these statistics, from its column
/// maxima. A column that is 0 in all activations or weights gets factor 1: there is nothing
/// to move. Layers that read the same input must share factors if these are to be folded
/// into what computes it: give the maxima over all their weights.
///
/// What is to be done with them:
///   weights        smooth_weights(), then quantize
///   the input      inverse_factors() as `column_scale` of the file, which is
///                  LinearOptions::input_scale when the layer runs; or
///   the norm       before the layer: fold_factors() on its weight, and on its bias, after
///                  which the layer needs nothing
/// Fails as above.
Result<std::vector<float>> smooth_factors(const ColumnStats& input,
                                          std::span<const float> weight_absmax,
                                          const SmoothOptions& options = {});

/// 1 / factor, rounded. kInvalidArgument if a factor is not finite and above 0.
Result<std::vector<float>> inverse_factors(std::span<const float> factors);

/// weight[j] / factors[j] in place: the weight or the bias of the norm whose output is the
/// input of smoothed layers. kInvalidArgument as smooth_activations(); nothing changes then.
Status fold_factors(std::span<float> norm, std::span<const float> factors);

/// Largest magnitude of each column of [rows, cols]. kInvalidArgument if the sizes do not
/// agree, kNotFinite if a value is NaN or infinite.
Result<std::vector<float>> column_absmax(std::span<const float> values, std::int64_t rows,
                                         std::int64_t cols);

/// data[t, j] / factors[j] in place, data being [tokens, in_features].
///
/// kInvalidArgument if the factors do not number in_features (looked at first), the data
/// has another size, or a factor is not finite and above 0; nothing changes then.
Status smooth_activations(std::span<float> data, std::int64_t tokens,
                          std::int64_t in_features, std::span<const float> factors);

/// data[o, j] * factors[j] in place, data being [out_features, in_features]; the same
/// errors.
Status smooth_weights(std::span<float> data, std::int64_t out_features,
                      std::int64_t in_features, std::span<const float> factors);

/// Column maxima of layers, and factors from them.
class SmoothCalibrator {
 public:
  explicit SmoothCalibrator(SmoothOptions options = {}) : options_(options) {}

  /// Takes the whole rows of `activations`; a trailing partial row is left out, and a
  /// batch without values or features makes no layer. kInvalidArgument if the layer is
  /// known with another number of features, kNotFinite if a value is NaN or infinite;
  /// nothing changes then.
  Status record(std::string_view layer, std::span<const float> activations,
                std::int64_t in_features);

  /// kNotFound if the layer was not recorded; else as smooth_factors, the weight being
  /// [out_features, features of the layer].
  Result<std::vector<float>> factors(std::string_view layer,
                                     std::span<const float> weight,
                                     std::int64_t out_features) const;

  [[nodiscard]] bool has_layer(std::string_view layer) const;
  [[nodiscard]] std::int64_t layer_count() const;

 private:
  SmoothOptions options_;
  std::map<std::string, std::vector<float>, std::less<>> absmax_;
};

}  // namespace pith
