#include "pith/quantize/dynamic.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "src/kernels/target.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

using Codes = std::vector<std::int8_t>;

TEST(DynamicQuantize, RoundsTiesAwayFromZero) {
  const std::vector<float> x = {127, 0.5f, 1.5f, -2.5f, 0.49999997f, -126.5f};
  const Result<DynamicCodes> q = dynamic_quantize(x);
  ASSERT_TRUE(q.has_value());
  EXPECT_EQ(q->scales, (std::vector<float>{1}));
  EXPECT_EQ(q->codes, (Codes{127, 1, 2, -3, 0, -127}));
  const Result<DynamicCodes> four =
      dynamic_quantize(std::vector<float>{7, 2.5f, -6.6f}, {.bits = 4});
  EXPECT_EQ(four->codes, (Codes{7, 3, -7}));
  EXPECT_EQ(four->memory_bytes(), 7);
}

TEST(DynamicQuantize, PercentileLimitsWhatLiesBeyond) {
  std::vector<float> x(100);
  for (int i = 0; i < 100; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  const DynamicOptions options{.rule = ScaleRule::kPercentile, .percentile = 0.5};
  const Result<DynamicCodes> q = dynamic_quantize(x, options);
  ASSERT_TRUE(q.has_value());
  EXPECT_EQ(q->scales[0], 50.0f / 127);
  EXPECT_EQ(q->codes[99], 127);
  EXPECT_EQ(q->codes[24], 64);  // 25 / (50 / 127) = 63.5
}

TEST(DynamicQuantize, PercentileOfMostlyZerosFallsBackToTheLargest) {
  std::vector<float> x(100);
  x[3] = -2;
  const DynamicOptions options{.rule = ScaleRule::kPercentile, .percentile = 0.9};
  EXPECT_EQ(dynamic_quantize(x, options)->codes[3], -127);
}

TEST(DynamicQuantize, SubnormalScalesSaturateAndVanishToZero) {
  const float unit = std::numeric_limits<float>::denorm_min();
  const Result<DynamicCodes> vanished =
      dynamic_quantize(std::vector<float>{unit, -60 * unit, 30 * unit});
  EXPECT_EQ(vanished->scales[0], 0);
  EXPECT_EQ(vanished->codes, (Codes{0, 0, 0}));
  const Result<DynamicCodes> coarse =
      dynamic_quantize(std::vector<float>{200 * unit, -190 * unit, 3 * unit});
  EXPECT_EQ(coarse->scales[0], 2 * unit);
  EXPECT_EQ(coarse->codes, (Codes{100, -95, 2}));
  const Result<DynamicCodes> beyond =
      dynamic_quantize(std::vector<float>{190 * unit, unit});
  EXPECT_EQ(beyond->scales[0], unit);
  EXPECT_EQ(beyond->codes, (Codes{127, 1}));
}

TEST(DynamicQuantize, RowsHaveTheirOwnScales) {
  const std::vector<float> x = {1, -2, 0, 0, 0.5f, 127};
  Codes codes(6);
  std::vector<float> scales(3);
  ASSERT_TRUE(dynamic_quantize_rows(x, 3, 2, {}, codes, scales).ok());
  EXPECT_EQ(scales, (std::vector<float>{2.0f / 127, 0, 1}));
  EXPECT_EQ(codes, (Codes{64, -127, 0, 0, 1, 127}));
}

TEST(DynamicQuantize, RaggedInputIsRefused) {
  const std::vector<float> x(5, 1.0f);
  Codes codes(5);
  std::vector<float> scales(2);
  const Status status = dynamic_quantize_rows(x, 2, 3, {}, codes, scales);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "dynamic: 5 values are not 2 rows of 3");
  EXPECT_FALSE(dynamic_quantize_rows(x, 2, 3).has_value());
  EXPECT_FALSE(dynamic_quantize_rows(x, 2, 2).has_value());
  EXPECT_FALSE(dynamic_quantize_rows(x, std::int64_t{1} << 62, 4).has_value());
  EXPECT_FALSE(dynamic_quantize_rows(x, -5, -1).has_value());
  EXPECT_EQ(dynamic_quantize_rows(x, 5, 1, {}, std::span(codes).first(4), scales).code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(dynamic_quantize(x, {}, std::span(codes).first(4)).has_value());
}

TEST(DynamicQuantize, OfNothingIsEmpty) {
  EXPECT_EQ(dynamic_quantize(std::vector<float>())->scales, (std::vector<float>{0}));
  const std::vector<float> x(4, 1.0f);
  for (auto [rows, cols] : {std::pair{0, 4}, std::pair{4, 0}}) {
    const Result<DynamicCodes> q = dynamic_quantize_rows(x, rows, cols);
    ASSERT_TRUE(q.has_value());
    EXPECT_TRUE(q->codes.empty());
    EXPECT_TRUE(q->scales.empty());
    EXPECT_EQ(q->compression_ratio(), 1);
  }
  EXPECT_TRUE(dynamic_quantize_rows({}, 3, 4)->codes.empty());
}

TEST(DynamicQuantize, NonfiniteValuesAreRefusedWithTheirIndex) {
  for (float bad : {NAN, INFINITY}) {
    std::vector<float> x = normal_values(1000, 1);
    x[777] = bad;
    for (ScaleRule rule : {ScaleRule::kAbsmax, ScaleRule::kPercentile}) {
      const DynamicOptions options{.rule = rule, .percentile = 0.5};
      const Status whole = dynamic_quantize(x, options).status();
      const Status rows = dynamic_quantize_rows(x, 10, 100, options).status();
      EXPECT_EQ(whole.code(), StatusCode::kNotFinite);
      EXPECT_EQ(rows.code(), StatusCode::kNotFinite);
      EXPECT_NE(rows.message().find("777"), std::string::npos);
    }
  }
}

TEST(DynamicQuantize, OptionsOutOfRangeAreRefused) {
  const std::vector<float> x = {1, 2};
  EXPECT_FALSE(dynamic_quantize(x, {.bits = 3}).has_value());
  EXPECT_FALSE(dynamic_quantize(x, {.rule = ScaleRule::kGiven}).has_value());
  for (double p : {-0.1, 1.1, static_cast<double>(NAN)}) {
    EXPECT_FALSE(dynamic_quantize(x, {.rule = ScaleRule::kPercentile, .percentile = p})
                     .has_value());
  }
}

TEST(DynamicQuantize, DequantizeChecksItsRows) {
  DynamicCodes q;
  q.codes = {1, -2, 127};
  EXPECT_EQ(*dequantize(q), (std::vector<float>{0, -0.0f, 0}));  // no scale counts as 0
  q.scales = {0.5f};
  EXPECT_EQ(*dequantize(q), (std::vector<float>{0.5f, -1, 63.5f}));
  q.per_row = true;
  q.scales = {1, 2, 3};
  EXPECT_EQ(*dequantize(q), (std::vector<float>{1, -4, 381}));
  q.scales = {1, 2};
  EXPECT_EQ(dequantize(q).status().code(), StatusCode::kInvalidArgument);
  q.scales = {1, 2, 3, 4};
  EXPECT_EQ(dequantize(q).status().code(), StatusCode::kInvalidArgument);
  q.scales = {};
  EXPECT_TRUE(dequantize(q)->empty());
}

RC_GTEST_PROP(DynamicQuantize, ErrorIsAtMostHalfAStep, (std::uint32_t seed)) {
  const auto rows = *rc::gen::inRange<std::size_t>(1, 200);
  const auto cols = *rc::gen::inRange<std::size_t>(1, 300);
  const int bits = *rc::gen::element(8, 4);
  const std::vector<float> x = normal_values(rows * cols, seed);
  const Result<DynamicCodes> q =
      dynamic_quantize_rows(x, static_cast<std::int64_t>(rows),
                            static_cast<std::int64_t>(cols), {.bits = bits});
  const std::vector<float> back = *dequantize(*q);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float scale = q->scales[i / cols];
    RC_ASSERT(std::fabs(x[i] - back[i]) <= scale * 0.5f * (1 + 1e-5f));
    RC_ASSERT(std::abs(q->codes[i]) <= (bits == 8 ? 127 : 7));
  }
}

TEST(DynamicQuantize, IsTheSameForEveryInstructionSetAndThreadCount) {
  const std::vector<float> x = normal_values(500 * 700, 2);
  const Result<DynamicCodes> expected = dynamic_quantize_rows(x, 500, 700);
  for (const std::string& target : kernels::available_targets()) {
    ASSERT_TRUE(kernels::set_target(target).ok());
    const ThreadLimit limit(1);
    const Result<DynamicCodes> q = dynamic_quantize_rows(x, 500, 700);
    EXPECT_EQ(q->codes, expected->codes) << target;
    EXPECT_EQ(q->scales, expected->scales) << target;
  }
  ASSERT_TRUE(kernels::set_target("").ok());
}

}  // namespace
}  // namespace pith
