#include "pith/quantize/smooth.h"
#include "tests/support/values.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pith {
namespace {

using testing::normal_values;

TEST(SmoothFactors, FollowTheFormula) {
  const std::vector<float> activation = {100, 1, 0, 4};
  const std::vector<float> weight = {1, 0.25f, 2, 0};
  const float e = 1e-5f;
  const Result<std::vector<float>> f =
      smooth_factors(activation, weight, {.alpha = 0.5f});
  ASSERT_TRUE(f.has_value());
  for (std::size_t j = 0; j < 4; ++j) {
    const double expected = std::sqrt((activation[j] + e) / (weight[j] + e));
    EXPECT_NEAR((*f)[j], expected, 1e-5 * expected) << j;
  }
  EXPECT_EQ((*smooth_factors(activation, weight, {.alpha = 1}))[0], 100 + e);
  EXPECT_FLOAT_EQ((*smooth_factors(activation, weight, {.alpha = 0}))[1],
                  1 / (0.25f + e));
}

TEST(SmoothFactors, AreFiniteAndAboveZeroForDeadColumns) {
  const std::vector<float> activation = {0, 0, 3e38f, 3e38f};
  const std::vector<float> weight = {0, 3e38f, 0, 3e38f};
  for (float alpha : {0.0f, 0.3f, 0.5f, 1.0f}) {
    for (float epsilon : {0.0f, 1e-5f}) {
      const Result<std::vector<float>> f =
          smooth_factors(activation, weight, {.alpha = alpha, .epsilon = epsilon});
      ASSERT_TRUE(f.has_value());
      for (float factor : *f) {
        EXPECT_TRUE(std::isfinite(factor) && factor > 0) << alpha << " " << epsilon;
      }
    }
  }
}

TEST(SmoothFactors, BadOptionsAndMaximaAreRefused) {
  const std::vector<float> a = {1, 2}, w = {1, 2};
  for (float alpha : {-0.5f, 1.75f, NAN}) {
    const Status status = smooth_factors(a, w, {.alpha = alpha}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("[0, 1]"), std::string::npos);
  }
  for (float epsilon : {-1.0f, NAN, INFINITY}) {
    EXPECT_FALSE(smooth_factors(a, w, {.epsilon = epsilon}).has_value());
  }
  EXPECT_FALSE(smooth_factors(a, std::vector<float>{1}).has_value());
  EXPECT_EQ(smooth_factors(std::vector<float>{1, INFINITY}, w).status().code(),
            StatusCode::kNotFinite);
  EXPECT_EQ(smooth_factors(a, std::vector<float>{NAN, 1}).status().code(),
            StatusCode::kNotFinite);
}

TEST(SmoothOptions, LimitedKeepsAlphaInRange) {
  EXPECT_EQ(SmoothOptions::limited(-1).alpha, 0);
  EXPECT_EQ(SmoothOptions::limited(2).alpha, 1);
  EXPECT_EQ(SmoothOptions::limited(0.7f).alpha, 0.7f);
  EXPECT_FALSE(SmoothOptions::limited(NAN).validate().ok());
}

TEST(ColumnAbsmax, ChecksSizes) {
  const std::vector<float> values = {1, -5, 3, 2, 0, -4};
  EXPECT_EQ(*column_absmax(values, 2, 3), (std::vector<float>{2, 5, 4}));
  EXPECT_FALSE(column_absmax(values, 2, 2).has_value());
  EXPECT_FALSE(column_absmax(values, 3, 3).has_value());
  EXPECT_FALSE(column_absmax(values, -2, -3).has_value());
  EXPECT_EQ(*column_absmax({}, 0, 3), (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(column_absmax({}, 3, 0)->empty());
}

TEST(SmoothApply, ChecksFactorsFirstThenSizes) {
  std::vector<float> data(12, 1.0f);
  const std::vector<float> factors(3, 2.0f);
  const std::span<const float> f(factors);
  EXPECT_EQ(smooth_activations(data, 5, 3, f.first(2)).message(),
            "smooth activations: 2 factors, expected one for each of 3 features");
  EXPECT_EQ(smooth_weights(data, 5, 3, f).message(),
            "smooth weights: 12 values, expected 15 (5 x 3)");
  EXPECT_FALSE(smooth_activations({}, std::int64_t{1} << 62, 3, f).ok());
  EXPECT_FALSE(smooth_activations({}, INT64_MIN, 3, f).ok());
  for (float bad : {0.0f, -1.0f, NAN, INFINITY}) {
    const std::vector<float> with_bad = {1, bad, 1};
    EXPECT_FALSE(smooth_activations(data, 4, 3, with_bad).ok()) << bad;
    EXPECT_FALSE(smooth_weights(data, 4, 3, with_bad).ok()) << bad;
  }
  EXPECT_EQ(data, std::vector<float>(12, 1.0f));
  EXPECT_TRUE(smooth_activations({}, 0, 3, f).ok());
  EXPECT_TRUE(smooth_weights({}, 5, 0, {}).ok());
}

RC_GTEST_PROP(SmoothApply, LeavesTheProductAsItIs, (std::uint32_t seed)) {
  const auto tokens = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto in = *rc::gen::inRange<std::int64_t>(1, 80);
  const auto out = *rc::gen::inRange<std::int64_t>(1, 20);
  std::vector<float> x = normal_values(static_cast<std::size_t>(tokens * in), seed);
  std::vector<float> w = normal_values(static_cast<std::size_t>(out * in), seed + 1);
  const auto product = [&] {
    std::vector<double> y;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (std::int64_t j = 0; j < in; ++j) {
          sum += double{x[static_cast<std::size_t>(t * in + j)]} *
                 double{w[static_cast<std::size_t>(o * in + j)]};
        }
        y.push_back(sum);
      }
    }
    return y;
  };
  const std::vector<double> before = product();
  const auto factors =
      *smooth_factors(*column_absmax(x, tokens, in), *column_absmax(w, out, in));
  RC_ASSERT(smooth_activations(x, tokens, in, factors).ok());
  RC_ASSERT(smooth_weights(w, out, in, factors).ok());
  const std::vector<double> after = product();
  for (std::size_t i = 0; i < before.size(); ++i) {
    RC_ASSERT(std::fabs(before[i] - after[i]) < 1e-4);
  }
}

TEST(SmoothCalibrator, KeepsRunningMaximaPerLayer) {
  SmoothCalibrator calibrator;
  const std::vector<float> first = {1, -2, 3, 0.5f, 9};  // the last one is no whole row
  const std::vector<float> second = {-4, 1};
  ASSERT_TRUE(calibrator.record("a", first, 2).ok());
  ASSERT_TRUE(calibrator.record("b", second, 1).ok());
  ASSERT_TRUE(calibrator.record("a", second, 2).ok());
  ASSERT_TRUE(calibrator.record("c", {}, 2).ok());
  ASSERT_TRUE(calibrator.record("c", second, 0).ok());
  EXPECT_EQ(calibrator.layer_count(), 2);
  EXPECT_TRUE(calibrator.has_layer("a"));
  EXPECT_FALSE(calibrator.has_layer("c"));
  const std::vector<float> weight = {1, 2, -3, 0.5f};
  EXPECT_EQ(*calibrator.factors("a", weight, 2),
            *smooth_factors(std::vector<float>{4, 2}, std::vector<float>{3, 2}));
  EXPECT_EQ(calibrator.factors("c", weight, 2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(calibrator.factors("a", weight, 3).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(SmoothCalibrator, RefusedRecordsChangeNothing) {
  SmoothCalibrator calibrator;
  ASSERT_TRUE(calibrator.record("a", std::vector<float>{1, 2}, 2).ok());
  EXPECT_EQ(calibrator.record("a", std::vector<float>{9, 9, 9}, 3).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(calibrator.record("a", std::vector<float>{9, NAN}, 2).code(),
            StatusCode::kNotFinite);
  EXPECT_EQ(calibrator.record("new", std::vector<float>{INFINITY}, 1).code(),
            StatusCode::kNotFinite);
  EXPECT_EQ(calibrator.record("new", std::vector<float>{1}, -1).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(calibrator.layer_count(), 1);
  const std::vector<float> weight = {1, 1};
  EXPECT_EQ(*calibrator.factors("a", weight, 1),
            *smooth_factors(std::vector<float>{1, 2}, weight));
}

TEST(Smooth, DeadColumnsGetFactorOne) {
  ColumnStats input(3);
  ASSERT_TRUE(input.add(std::vector<float>{4, 0, 4}).ok());
  const auto factors = smooth_factors(input, std::vector<float>{1, 1, 0});
  ASSERT_TRUE(factors);
  EXPECT_NEAR((*factors)[0], 2, 1e-4);
  EXPECT_EQ((*factors)[1], 1);
  EXPECT_EQ((*factors)[2], 1);
  EXPECT_FALSE(smooth_factors(input, std::vector<float>{1, 1}));
}

TEST(Smooth, FactorsMoveFromTheInputToTheWeightOrIntoTheNorm) {
  const std::vector<float> factors = {2, 0.5f};
  EXPECT_EQ(inverse_factors(factors).value(), (std::vector<float>{0.5f, 2}));
  EXPECT_FALSE(inverse_factors(std::vector<float>{0}));
  std::vector<float> norm = {1, 3};
  ASSERT_TRUE(fold_factors(norm, factors).ok());
  EXPECT_EQ(norm, (std::vector<float>{0.5f, 6}));
  EXPECT_FALSE(fold_factors(norm, std::vector<float>{1}).ok());
  EXPECT_EQ(norm, (std::vector<float>{0.5f, 6}));
}

}  // namespace
}  // namespace pith
