#include "pith/quantize/smooth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/checked.h"
#include "src/base/parallel.h"
#include "src/kernels/moments.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr float kSmallestEpsilon = 1e-10f;
constexpr std::int64_t kSmoothPiece = 1 << 16;  // elements per task

Status check_size(std::string_view what, std::size_t size, std::int64_t rows,
                  std::int64_t cols) {
  const CheckedSize expected =
      CheckedSize::from_signed(rows) * CheckedSize::from_signed(cols);
  if (expected.fits_int64() && expected.value() == size) return {};
  return Status::invalid_argument(fmt::format(
      "{}: {} values, expected {} ({} x {})", what, size,
      expected.fits_int64() ? fmt::to_string(expected.value()) : "a product that fits",
      rows, cols));
}

// The power in double, rounded to f32: the same on every machine but for the rarest ties.
float power(float base, float exponent) {
  return static_cast<float>(std::pow(double{base}, double{exponent}));
}

// data[r, j] = op(data[r, j], factors[j])
template <typename Op>
Status apply(std::string_view what, std::span<float> data, std::int64_t rows,
             std::int64_t cols, std::span<const float> factors, Op op) {
  if (cols < 0 || factors.size() != static_cast<std::size_t>(cols)) {
    return Status::invalid_argument(
        fmt::format("{}: {} factors, expected one for each of {} features", what,
                    factors.size(), cols));
  }
  PITH_OK(check_size(what, data.size(), rows, cols));
  for (std::size_t j = 0; j < factors.size(); ++j) {
    if (std::isfinite(factors[j]) && factors[j] > 0) continue;
    return Status::invalid_argument(fmt::format(
        "{}: factor {} is {}, expected a finite number above 0", what, j, factors[j]));
  }
  if (data.empty()) return {};
  parallel_pieces(rows, std::max<std::int64_t>(1, kSmoothPiece / cols),
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      float* const row = data.data() + r * cols;
                      for (std::int64_t j = 0; j < cols; ++j) {
                        row[j] = op(row[j], factors[static_cast<std::size_t>(j)]);
                      }
                    }
                  });
  return {};
}

}  // namespace

SmoothOptions SmoothOptions::limited(float alpha) {
  return {.alpha = std::clamp(alpha, 0.0f, 1.0f)};
}

Status SmoothOptions::validate() const {
  if (!(alpha >= 0 && alpha <= 1)) {
    return Status::invalid_argument(
        fmt::format("smooth: alpha is {}, expected a value in [0, 1]", alpha));
  }
  if (!(epsilon >= 0 && std::isfinite(epsilon))) {
    return Status::invalid_argument(fmt::format(
        "smooth: epsilon is {}, expected a finite number of 0 or more", epsilon));
  }
  return {};
}

Result<std::vector<float>> smooth_factors(std::span<const float> activation_absmax,
                                          std::span<const float> weight_absmax,
                                          const SmoothOptions& options) {
  PITH_OK(options.validate());
  if (activation_absmax.size() != weight_absmax.size()) {
    return Status::invalid_argument(
        fmt::format("smooth: {} activation maxima and {} weight maxima, expected as many",
                    activation_absmax.size(), weight_absmax.size()));
  }
  PITH_OK(require_finite(activation_absmax, "smooth: activation maxima"));
  PITH_OK(require_finite(weight_absmax, "smooth: weight maxima"));
  const float epsilon = std::max(options.epsilon, kSmallestEpsilon);
  std::vector<float> factors(activation_absmax.size());
  for (std::size_t j = 0; j < factors.size(); ++j) {
    const float activation =
        power(std::fabs(activation_absmax[j]) + epsilon, options.alpha);
    const float weight =
        power(std::fabs(weight_absmax[j]) + epsilon, 1.0f - options.alpha);
    factors[j] = std::max(activation / weight, epsilon);
  }
  return factors;
}

Result<std::vector<float>> smooth_factors(const ColumnStats& input,
                                          std::span<const float> weight_absmax,
                                          const SmoothOptions& options) {
  PITH_TRY(std::vector<float> factors,
           smooth_factors(input.absmax(), weight_absmax, options));
  for (std::size_t j = 0; j < factors.size(); ++j) {
    if (input.absmax()[j] == 0 || weight_absmax[j] == 0) factors[j] = 1;
  }
  return factors;
}

Result<std::vector<float>> inverse_factors(std::span<const float> factors) {
  std::vector<float> ones(factors.size(), 1.0f);
  PITH_OK(
      smooth_activations(ones, 1, static_cast<std::int64_t>(factors.size()), factors));
  return ones;
}

Status fold_factors(std::span<float> norm, std::span<const float> factors) {
  return apply("fold factors", norm, 1, static_cast<std::int64_t>(norm.size()), factors,
               std::divides<float>());
}

Result<std::vector<float>> column_absmax(std::span<const float> values, std::int64_t rows,
                                         std::int64_t cols) {
  PITH_OK(check_size("column maxima", values.size(), rows, cols));
  PITH_OK(require_finite(values, "column maxima"));
  std::vector<float> absmax(static_cast<std::size_t>(cols));
  if (!values.empty()) {
    kernels::column_absmax(values.data(), rows, cols, cols, absmax.data());
  }
  return absmax;
}

Status smooth_activations(std::span<float> data, std::int64_t tokens,
                          std::int64_t in_features, std::span<const float> factors) {
  return apply("smooth activations", data, tokens, in_features, factors,
               std::divides<float>());
}

Status smooth_weights(std::span<float> data, std::int64_t out_features,
                      std::int64_t in_features, std::span<const float> factors) {
  return apply("smooth weights", data, out_features, in_features, factors,
               std::multiplies<float>());
}

Status SmoothCalibrator::record(std::string_view layer,
                                std::span<const float> activations,
                                std::int64_t in_features) {
  if (in_features < 0) {
    return Status::invalid_argument(
        fmt::format("layer '{}': {} features, expected 0 or more", layer, in_features));
  }
  if (activations.empty() || in_features == 0) return {};
  const auto found = absmax_.find(layer);
  const auto features = static_cast<std::size_t>(in_features);
  if (found != absmax_.end() && found->second.size() != features) {
    return Status::invalid_argument(
        fmt::format("layer '{}': {} features, expected {} as recorded before", layer,
                    in_features, found->second.size()));
  }
  const std::size_t rows = activations.size() / features;
  const std::span<const float> whole = activations.first(rows * features);
  if (Status s = require_finite(whole, "activations"); !s.ok()) {
    return s.with_context(fmt::format("layer '{}'", layer));
  }
  std::vector<float>& absmax =
      found != absmax_.end()
          ? found->second
          : absmax_.emplace(layer, std::vector<float>(features)).first->second;
  kernels::column_absmax(whole.data(), static_cast<std::int64_t>(rows), in_features,
                         in_features, absmax.data());
  return {};
}

Result<std::vector<float>> SmoothCalibrator::factors(std::string_view layer,
                                                     std::span<const float> weight,
                                                     std::int64_t out_features) const {
  const auto found = absmax_.find(layer);
  if (found == absmax_.end()) {
    return Status::not_found(fmt::format("layer '{}' was not recorded; {} layers were",
                                         layer, absmax_.size()));
  }
  const auto in_features = static_cast<std::int64_t>(found->second.size());
  PITH_TRY(const std::vector<float> weight_absmax,
           column_absmax(weight, out_features, in_features));
  return smooth_factors(found->second, weight_absmax, options_);
}

bool SmoothCalibrator::has_layer(std::string_view layer) const {
  return absmax_.contains(layer);
}
std::int64_t SmoothCalibrator::layer_count() const {
  return static_cast<std::int64_t>(absmax_.size());
}

}  // namespace pith
