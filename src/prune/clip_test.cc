#include "pith/prune/clip.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/prune/oracle_test.h"

namespace pith {
namespace {

RC_GTEST_PROP(Clip, ZeroesTheSmallestByRankTiesByIndex, ()) {
  std::vector<float> values = any_weights(*rc::gen::inRange(1, 200));
  const std::vector<float> before = values;
  const auto n = static_cast<std::int64_t>(values.size());
  const float percentile = static_cast<float>(*rc::gen::inRange(1, 101)) / 100.0f;
  const Clipped clipped = clip(values, percentile).value();
  const auto rank =
      static_cast<std::int64_t>(std::ceil(percentile * static_cast<float>(n)));
  RC_ASSERT(clipped.zeroed == std::min(std::max<std::int64_t>(rank, 1), n));
  const std::vector<bool> expected =
      oracle_choice(oracle_scores(before, {}, {}),
                    std::vector<std::int64_t>(before.size(), 1), clipped.zeroed, 0);
  for (std::size_t i = 0; i < before.size(); ++i) {
    RC_ASSERT(values[i] == (expected[i] ? 0.0f : before[i]));
  }
  RC_ASSERT(clipped.after == count_sparsity(values));
  RC_ASSERT(clipped.cleared == (clipped.after.nonzero == 0));
}

TEST(Clip, ConstantTensorLosesOnlyItsShare) {
  std::vector<float> values(10, 2.0f);
  const Clipped clipped = clip(values, 0.1f).value();
  EXPECT_EQ(clipped.zeroed, 1);
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_FALSE(clipped.cleared);
  EXPECT_TRUE(clip(values, 1.0f).value().cleared);
}

TEST(Clip, PercentileZeroClearsTheSignsOfZeros) {
  std::vector<float> values = {-0.0f, 1.0f, -0.0f, -0.0f};
  EXPECT_EQ(clip(values, 0.25f).value().threshold, 0.0f);
  const std::vector<float> expected = {0.0f, 1.0f, 0.0f, 0.0f};
  EXPECT_TRUE(same_bits(values, expected));
}

TEST(Clip, LimitDrawsOutliersBackAndKeepsSigns) {
  std::vector<float> values = {1, -2, 3, -4, 100, -200, 0.5f, 0.25f, 2, -1};
  const Limited limited = limit(values, 0.8f).value();
  EXPECT_EQ(limited.threshold, 4.0f);
  EXPECT_EQ(limited.limited, 2);
  EXPECT_EQ(values, (std::vector<float>{1, -2, 3, -4, 4, -4, 0.5f, 0.25f, 2, -1}));
  EXPECT_EQ(limit(values, 1.0f).value().limited, 0);
}

TEST(Clip, BadPercentilesAndNanAreRefused) {
  std::vector<float> values = {1, 2, std::numeric_limits<float>::quiet_NaN()};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float percentile : {0.0f, -0.5f, 1.1f, nan}) {
    EXPECT_EQ(clip(values, percentile).error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(limit(values, percentile).error().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(clip(values, 1.1f).error().message(),
            "clip: percentile is 1.1, expected a value in (0, 1]");
  EXPECT_NE(clip(values, 0.5f, "w")
                .error()
                .message()
                .find("clip: tensor 'w': element 2 is NaN"),
            std::string::npos);
  EXPECT_EQ(limit(values, 0.5f).error().code(), StatusCode::kNotFinite);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(clip({}, 0.5f).value().zeroed, 0);
}

}  // namespace
}  // namespace pith
