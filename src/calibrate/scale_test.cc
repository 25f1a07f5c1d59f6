#include "pith/calibrate/scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pith {
namespace {

enum class Distribution { kNormal, kLaplace };

std::vector<float> values_of(Distribution kind, std::size_t n, float mean = 0) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::exponential_distribution<float> exponential;
  std::vector<float> values(n);
  for (float& v : values) {
    v = kind == Distribution::kNormal ? normal(random) : exponential(random);
    if (kind == Distribution::kLaplace && random() % 2 != 0) v = -v;
    v += mean;
  }
  return values;
}

ValueStats stats_of(const std::vector<float>& values) {
  ValueStats stats;
  EXPECT_TRUE(stats.add(values).ok());
  return stats;
}

float scale_of(const ValueStats& stats, const ScaleOptions& options) {
  const Result<float> scale = calibrated_scale(stats, options);
  EXPECT_TRUE(scale.has_value()) << scale.status().message();
  return *scale;
}

double true_mse(const std::vector<float>& values, float scale, int largest_code) {
  double sum = 0;
  for (float v : values) {
    const float code =
        std::clamp(std::round(v / scale), -static_cast<float>(largest_code),
                   static_cast<float>(largest_code));
    sum += std::pow(double{v} - double{code} * scale, 2);
  }
  return sum / static_cast<double>(values.size());
}

double best_mse(const std::vector<float>& values, int largest_code) {
  const float largest = stats_of(values).absmax();
  double best = INFINITY;
  for (int k = 1; k <= 100; ++k) {
    const float clip = largest * (static_cast<float>(k) / 100);
    best = std::min(
        best, true_mse(values, clip / static_cast<float>(largest_code), largest_code));
  }
  return best;
}

TEST(CalibratedScale, MseReachesTheBestGridPoint) {
  for (Distribution kind : {Distribution::kNormal, Distribution::kLaplace}) {
    for (std::size_t n : {1000u, 20000u, 200000u}) {  // exact, and by bins
      const std::vector<float> values = values_of(kind, n);
      for (int bits : {8, 4}) {
        const int largest_code = bits == 8 ? 127 : 7;
        const float scale =
            scale_of(stats_of(values), {.method = ScaleMethod::kMse, .bits = bits});
        EXPECT_LE(true_mse(values, scale, largest_code),
                  1.05 * best_mse(values, largest_code))
            << n << " values, bits: " << bits;
      }
    }
  }
}

TEST(CalibratedScale, AciqIsNearTheBestForItsDistributions) {
  for (Distribution kind : {Distribution::kNormal, Distribution::kLaplace}) {
    const std::vector<float> values = values_of(kind, 100000);
    for (int bits : {8, 4}) {
      const int largest_code = bits == 8 ? 127 : 7;
      const float scale =
          scale_of(stats_of(values), {.method = ScaleMethod::kAciq, .bits = bits});
      EXPECT_LE(true_mse(values, scale, largest_code),
                1.1 * best_mse(values, largest_code))
          << "bits: " << bits;
    }
  }
}

TEST(CalibratedScale, AciqCoversDataFarFromZero) {
  const ValueStats stats = stats_of(values_of(Distribution::kNormal, 1000, 50));
  const float scale = scale_of(stats, {.method = ScaleMethod::kAciq});
  EXPECT_GE(127 * scale, *stats.percentile(0.99));
}

TEST(CalibratedScale, PercentileFallsBackToTheLargest) {
  std::vector<float> values(100);
  values[7] = -2.54f;
  EXPECT_EQ(scale_of(stats_of(values), {.percentile = 0.5}), 2.54f / 127);
  values.assign(100, 1.27f);
  values[0] = 100;
  EXPECT_EQ(scale_of(stats_of(values), {.percentile = 0.99}), 1.27f / 127);
  EXPECT_EQ(scale_of(stats_of(values), {.percentile = 0.99, .bits = 4}), 1.27f / 7);
}

TEST(CalibratedScale, OfNothingOrZerosIsZero) {
  for (ScaleMethod method : {ScaleMethod::kMinMax, ScaleMethod::kPercentile,
                             ScaleMethod::kAciq, ScaleMethod::kMse}) {
    for (bool reference : {false, true}) {
      const ScaleOptions options{.method = method, .reference = reference};
      EXPECT_EQ(scale_of(ValueStats(), options), 0);
      EXPECT_EQ(scale_of(stats_of({0, -0.0f, 0}), options), 0);
      EXPECT_GT(scale_of(stats_of({1e-44f, 0}), options) + 1e-45f, 0);
      EXPECT_EQ(scale_of(stats_of({-3.0f}), options), 3.0f / 127);
    }
  }
}

TEST(CalibratedScale, OptionsOutOfRangeAreRefused) {
  const ValueStats stats = stats_of({1, 2});
  for (double p : {-0.5, 1.5, static_cast<double>(NAN)}) {
    const Status status = calibrated_scale(stats, {.percentile = p}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("[0, 1]"), std::string::npos);
  }
  EXPECT_FALSE(calibrated_scale(stats, {.bits = 5}).has_value());
}

TEST(CalibratedScale, SuggestedScaleHasARuleForZeros) {
  EXPECT_EQ(suggested_scale(ValueStats()), 0);
  EXPECT_EQ(suggested_scale(stats_of({0, 0})), 1.0f / 127);
  std::vector<float> mostly_zero(200);
  mostly_zero[0] = 9;
  EXPECT_EQ(suggested_scale(stats_of(mostly_zero)), 9.0f / 127);
  EXPECT_EQ(suggested_scale(stats_of({-2.5f})), 2.5f / 127);
}

TEST(CheckScale, FindsWhatIsWrong) {
  const ValueStats stats = stats_of({-1.0f, 1.27f});
  EXPECT_TRUE(check_scale(0.01f, stats).empty());
  EXPECT_TRUE(check_scale(0.09f, stats).empty());
  for (float bad : {0.0f, -0.5f, INFINITY, NAN, 0.11f, 0.9e-5f}) {
    EXPECT_EQ(check_scale(bad, stats).size(), 1u) << bad;
  }
  EXPECT_EQ(check_scale(0.01f, ValueStats()).size(), 1u);
  EXPECT_EQ(check_scale(NAN, ValueStats()).size(), 2u);
  EXPECT_EQ(check_scale(0.01f, stats_of({0})).size(), 1u);
}

TEST(WeightRange, HoldsBothEnds) {
  const float weights[] = {-3, 1, 2};
  const Result<WeightRange> range = weight_range(weights);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->min, -3);
  EXPECT_EQ(range->max, 2);
  EXPECT_EQ(range->scale, 3.0f / 127);
  EXPECT_EQ(weight_range({}).status().code(), StatusCode::kInvalidArgument);
  const float bad[] = {1, NAN};
  EXPECT_EQ(weight_range(bad).status().code(), StatusCode::kNotFinite);
}

TEST(Clipping, CostsAreThoseOfTheDefinition) {
  // 127 values of 1, one of 101; the scale holds 1 exactly, and the other loses 100.
  std::vector<float> values(127, 1.0f);
  values.push_back(101);
  const ClippingCost cost = clipping_cost(1.0f / 127, stats_of(values));
  EXPECT_NEAR(cost.clipped, 1.0 / 128, 1e-12);
  EXPECT_NEAR(cost.clip_error, 1e4, 1e-2);
  EXPECT_NEAR(cost.round_error, 127.0 / (127 * 127 * 12), 1e-6);
  EXPECT_NEAR(cost.relative_error, std::sqrt(1e4 / (127 + 101 * 101)), 1e-3);
  const auto warnings = check_clipping(1.0f / 127, stats_of(values));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("saturates 0.78 %"), std::string::npos) << warnings[0];
  EXPECT_TRUE(check_clipping(101.0f / 127, stats_of(values)).empty());
  EXPECT_TRUE(check_clipping(1, ValueStats()).empty());
}

}  // namespace
}  // namespace pith
