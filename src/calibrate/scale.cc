#include "pith/calibrate/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr int kSteps = 100;  // candidates of the least-squares search

// Clips with the least mean squared error, rounding noise being step^2 / 12: for a normal
// distribution in deviations, c / (6 L^2) = 4 (density(c) - c tail(c)); for a Laplace
// distribution in mean magnitudes, c e^c = 12 L^2. L is the largest code.
struct BestClip {
  double normal;
  double laplace;
};
constexpr BestClip kBestClip8 = {3.9206374575731, 9.8825138999916};
constexpr BestClip kBestClip4 = {2.4831189649030, 4.8067133852238};

// Mean magnitude over root mean square is 0.798 for a normal distribution and 0.707 for a
// Laplace one.
constexpr double kShapeBetween = 0.7525;

double aciq_clip(const ValueStats& stats, int bits) {
  const BestClip& best = bits == 8 ? kBestClip8 : kBestClip4;
  return stats.mean_abs() < kShapeBetween * stats.rms() ? best.laplace * stats.mean_abs()
                                                        : best.normal * stats.rms();
}

// Magnitudes between `low` and `high`, taken as all in the middle.
struct Bin {
  double low;
  double high;
  double count;
};

std::vector<Bin> bins_of(const ValueStats& stats) {
  std::vector<Bin> bins;
  for (const MagnitudeCount& entry : stats.magnitudes()) {
    double low = entry.magnitude;
    if (!stats.percentiles_are_exact()) {  // ends of bins: the lower 15 bits are free
      low = std::bit_cast<float>(std::bit_cast<std::uint32_t>(entry.magnitude) &
                                 ~std::uint32_t{0x7fff});
    }
    bins.push_back({low, entry.magnitude, static_cast<double>(entry.count)});
  }
  return bins;
}

double squared_error(const std::vector<Bin>& bins, double clip, int largest_code) {
  const double step = clip / largest_code;
  double error = 0;
  for (const Bin& bin : bins) {
    const double middle = (bin.low + bin.high) / 2;
    double distance =
        middle - step * std::min<double>(largest_code, std::round(middle / step));
    distance *= distance;
    // Inside a bin wider than this the place within a step is unknown.
    if (middle < clip && bin.high - bin.low > step / 4) distance = step * step / 12;
    error += bin.count * distance;
  }
  return error;
}

float mse_clip(const ValueStats& stats, int largest_code) {
  const std::vector<Bin> bins = bins_of(stats);
  float best = stats.absmax();
  double least = squared_error(bins, best, largest_code);
  for (int k = kSteps - 1; k >= 1; --k) {
    const float clip = stats.absmax() * (static_cast<float>(k) / float{kSteps});
    if (!(clip / static_cast<float>(largest_code) > 0))
      break;  // below the smallest float
    const double error = squared_error(bins, clip, largest_code);
    if (error < least) {
      least = error;
      best = clip;
    }
  }
  return best;
}

// The reference's cost: 256 equal bins, and step^2 / 3 for rounding.
float reference_mse_clip(const ValueStats& stats, int largest_code) {
  const double largest = stats.absmax();
  std::array<double, 256> counts{};
  for (const MagnitudeCount& entry : stats.magnitudes()) {
    const double bin = std::min(255.0, std::floor(entry.magnitude / largest * 256));
    counts[static_cast<std::size_t>(bin)] += static_cast<double>(entry.count);
  }
  float best = stats.absmax();
  double least = INFINITY;
  for (int k = 1; k <= kSteps; ++k) {
    const float clip = stats.absmax() * (static_cast<float>(k) / float{kSteps});
    const double step = double{clip} / largest_code;
    double cut = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      const double centre = (static_cast<double>(b) + 0.5) / 256 * largest;
      const double beyond = std::max(0.0, centre - double{clip});
      cut += counts[b] * beyond * beyond;
    }
    const double cost = step * step / 3 + cut / static_cast<double>(stats.count());
    if (cost < least) {
      least = cost;
      best = clip;
    }
  }
  return best;
}

Result<float> clip_value(const ValueStats& stats, const ScaleOptions& options) {
  const float largest = stats.absmax();
  const int largest_code = options.bits == 8 ? 127 : 7;
  switch (options.method) {
    case ScaleMethod::kMinMax:
      return largest;
    case ScaleMethod::kPercentile: {
      PITH_TRY(const float clip, options.reference
                                     ? stats.percentile_256(options.percentile)
                                     : stats.percentile(options.percentile));
      return clip > 0 ? clip : largest;
    }
    case ScaleMethod::kAciq: {
      const double clip = options.reference ? double{2.83f} * stats.std_dev()
                                            : aciq_clip(stats, options.bits);
      if (clip == 0) return largest;
      return static_cast<float>(std::min(clip, double{largest}));
    }
    case ScaleMethod::kMse:
      return options.reference ? reference_mse_clip(stats, largest_code)
                               : mse_clip(stats, largest_code);
  }
  return Status::invalid_argument(
      fmt::format("scale method {} is unknown", static_cast<int>(options.method)));
}

}  // namespace

Result<float> calibrated_scale(const ValueStats& stats, const ScaleOptions& options) {
  if (options.bits != 8 && options.bits != 4) {
    return Status::invalid_argument(
        fmt::format("bits is {}, expected 8 or 4", options.bits));
  }
  if (options.method == ScaleMethod::kPercentile &&
      !(options.percentile >= 0 && options.percentile <= 1)) {
    return Status::invalid_argument(
        fmt::format("percentile is {}, expected a value in [0, 1]", options.percentile));
  }
  if (stats.absmax() == 0) return 0.0f;
  PITH_TRY(const float clip, clip_value(stats, options));
  return clip / (options.bits == 8 ? 127.0f : 7.0f);
}

float suggested_scale(const ValueStats& stats) {
  if (stats.count() == 0) return 0;
  const Result<float> p99 = stats.percentile(0.99);
  if (p99 && *p99 > 0) return *p99 / 127.0f;
  return stats.absmax() > 0 ? stats.absmax() / 127.0f : 1.0f / 127.0f;
}

std::vector<std::string> check_scale(float scale, const ValueStats& stats) {
  std::vector<std::string> findings;
  const bool usable = std::isfinite(scale) && scale > 0;
  if (!std::isfinite(scale)) {
    findings.push_back(fmt::format("scale is {}, expected a finite number", scale));
  } else if (!usable) {
    findings.push_back(fmt::format("scale is {}, expected a number above 0", scale));
  }
  if (stats.count() == 0) {
    findings.emplace_back("no values were seen, so the scale cannot be checked");
  } else if (usable) {
    const float expected = stats.absmax() / 127.0f;
    if (stats.absmax() == 0) {
      findings.emplace_back("all values seen are 0, so no scale is right");
    } else if (scale > 10.0f * expected) {
      findings.push_back(fmt::format(
          "scale {} is more than 10 times the {} that the values need", scale, expected));
    } else if (scale < expected / 1000.0f) {
      findings.push_back(
          fmt::format("scale {} is less than a thousandth of the {} that the values need",
                      scale, expected));
    }
  }
  return findings;
}

ClippingCost clipping_cost(float scale, const ValueStats& stats) {
  ClippingCost cost;
  if (stats.count() == 0 || !(scale > 0) || !std::isfinite(scale)) return cost;
  const double step = static_cast<double>(scale);
  const double last = 127 * step;
  double energy = 0;
  std::int64_t clipped = 0;
  for (const MagnitudeCount& entry : stats.magnitudes()) {
    const double magnitude = static_cast<double>(entry.magnitude);
    const double count = static_cast<double>(entry.count);
    energy += count * magnitude * magnitude;
    if (magnitude > last + step / 2) {
      clipped += entry.count;
      cost.clip_error += count * (magnitude - last) * (magnitude - last);
    } else if (magnitude != 0) {
      cost.round_error += count * step * step / 12;
    }
  }
  cost.clipped = static_cast<double>(clipped) / static_cast<double>(stats.count());
  if (energy > 0) {
    cost.relative_error = std::sqrt((cost.clip_error + cost.round_error) / energy);
  }
  return cost;
}

std::vector<std::string> check_clipping(float scale, const ValueStats& stats) {
  const ClippingCost cost = clipping_cost(scale, stats);
  if (cost.clip_error <= cost.round_error) return {};
  return {fmt::format(
      "scale {} saturates {:.2g} % of the values, which costs {:.3g} times what rounding "
      "does ({:.1f} % of the input is lost): take dynamic scales, the largest magnitude "
      "or a percentile nearer to 1",
      scale, 100 * cost.clipped, cost.clip_error / cost.round_error,
      100 * cost.relative_error)};
}

Result<WeightRange> weight_range(std::span<const float> weights) {
  if (weights.empty()) {
    return Status::invalid_argument("weight range: no weights, expected at least one");
  }
  PITH_OK(require_finite(weights, "weight range"));
  const auto [min, max] = std::minmax_element(weights.begin(), weights.end());
  WeightRange range{*min, *max, 0};
  range.scale = std::max(std::fabs(range.min), std::fabs(range.max)) / 127.0f;
  return range;
}

}  // namespace pith
