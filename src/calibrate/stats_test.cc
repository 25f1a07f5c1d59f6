#include "pith/calibrate/stats.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
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

// Of every exponent, with zeros of both signs.
std::vector<float> wide_values(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) {
    do {
      v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    } while (!std::isfinite(v));
    if (random() % 5 == 0) v = std::copysign(0.0f, v);
  }
  return values;
}

ValueStats stats_of(std::span<const float> values, NonFinite policy = NonFinite::kError) {
  ValueStats stats;
  EXPECT_TRUE(stats.add(values, policy).ok());
  return stats;
}

float percentile(const ValueStats& stats, double p) {
  const Result<float> value = stats.percentile(p);
  EXPECT_TRUE(value.has_value());
  return *value;
}

// Feeds `values` in random batches to several statistics and merges them in random order.
ValueStats in_random_batches(std::span<const float> values, std::mt19937& random,
                             NonFinite policy = NonFinite::kError) {
  std::vector<ValueStats> parts(1 + random() % 4);
  while (!values.empty()) {
    const std::size_t size = std::min<std::size_t>(values.size(), random() % 5000);
    EXPECT_TRUE(parts[random() % parts.size()].add(values.first(size), policy).ok());
    values = values.subspan(size);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  ValueStats all;
  for (const ValueStats& part : parts) all.merge(part);
  return all;
}

TEST(ValueStats, OfNothingAreZero) {
  const ValueStats stats;
  EXPECT_EQ(stats.count(), 0);
  EXPECT_EQ(stats.min(), 0);
  EXPECT_EQ(stats.max(), 0);
  EXPECT_EQ(stats.mean(), 0);
  EXPECT_EQ(stats.std_dev(), 0);
  EXPECT_EQ(percentile(stats, 0.5), 0);
  EXPECT_TRUE(stats.magnitudes().empty());
}

TEST(ValueStats, OfTheFirstHundredNumbers) {
  std::vector<float> values(100);
  for (int i = 0; i < 100; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  const ValueStats stats = stats_of(values);
  EXPECT_EQ(stats.count(), 100);
  EXPECT_EQ(stats.min(), 1);
  EXPECT_EQ(stats.max(), 100);
  EXPECT_EQ(stats.mean(), 50.5);
  EXPECT_DOUBLE_EQ(stats.std_dev(), std::sqrt(833.25));
  EXPECT_DOUBLE_EQ(stats.squared_deviations(), 83325.0);
  EXPECT_DOUBLE_EQ(stats.rms(), std::sqrt(3383.5));
  EXPECT_EQ(percentile(stats, 0.99), 99);
  EXPECT_EQ(percentile(stats, 0), 1);
  EXPECT_EQ(percentile(stats, 1), 100);
}

TEST(ValueStats, NegativeZeroIsBelowZero) {
  const float negative[] = {-0.0f};
  EXPECT_TRUE(std::signbit(stats_of(negative).max()));
  const float both[] = {0.0f, -0.0f};
  const ValueStats stats = stats_of(both);
  EXPECT_TRUE(std::signbit(stats.min()));
  EXPECT_FALSE(std::signbit(stats.max()));
  EXPECT_EQ(stats.zeros(), 2);
}

TEST(ValueStats, MeanOfManyOnesIsOne) {
  const std::vector<float> ones(1000000, 1.0f);
  ValueStats stats;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stats.add(ones).ok());
  EXPECT_EQ(stats.count(), 20000000);
  EXPECT_EQ(stats.mean(), 1);
  EXPECT_EQ(stats.std_dev(), 0);
  EXPECT_EQ(percentile(stats, 0.5), 1);
}

TEST(ValueStats, LargestValuesDoNotOverflow) {
  const float values[] = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(stats_of(values).mean(), 1e38, 1e32);
  EXPECT_NEAR(stats_of(values).std_dev(), 2.8284e38, 1e34);
  const float two[] = {3e38f, -3e38f};
  EXPECT_EQ(stats_of(two).mean(), 0);
  EXPECT_DOUBLE_EQ(stats_of(two).std_dev(), double{3e38f});
}

TEST(ValueStats, RefusedBatchChangesNothing) {
  const std::vector<float> good = normal_values(100, 1);
  ValueStats stats = stats_of(good);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> batch = normal_values(70000, 2);
    batch[66001] = bad;
    const Status status = stats.add(batch);
    EXPECT_EQ(status.code(), StatusCode::kNotFinite);
    EXPECT_NE(status.message().find("value 66001"), std::string::npos)
        << status.message();
    EXPECT_EQ(stats, stats_of(good));
  }
}

TEST(ValueStats, CountedNonfiniteValuesArePassedOver) {
  for (std::size_t n : {10u, 20000u, 70000u}) {
    std::vector<float> values = normal_values(n, 3);
    std::vector<float> mixed = values;
    std::mt19937 random(4);
    for (int i = 0; i < 7; ++i) {
      mixed.insert(mixed.begin() + random() % mixed.size(), i % 2 == 0 ? NAN : -INFINITY);
    }
    ValueStats stats;
    ASSERT_TRUE(stats.add(mixed, NonFinite::kCount).ok());
    EXPECT_EQ(stats.nonfinite(), 7);
    EXPECT_EQ(stats.count(), static_cast<std::int64_t>(n));
    EXPECT_EQ(stats.magnitudes(), stats_of(values).magnitudes());
    EXPECT_EQ(stats.state().sum, stats_of(values).state().sum);
  }
}

// A large batch with few finite values is as exact as those values alone.
TEST(ValueStats, ExactnessDependsOnFiniteValuesAlone) {
  std::vector<float> batch(100000, NAN);
  batch[5] = 3;
  batch[99999] = -7;
  ValueStats stats;
  ASSERT_TRUE(stats.add(batch, NonFinite::kCount).ok());
  EXPECT_EQ(stats.nonfinite(), 99998);
  EXPECT_EQ(percentile(stats, 0.5), 3);
  EXPECT_EQ(percentile(stats, 1), 7);
}

TEST(ValueStats, PercentilesAreExactUpToTheLimitAndCloseBeyond) {
  for (std::size_t n : {std::size_t{1}, std::size_t{ValueStats::kExactValues},
                        std::size_t{ValueStats::kExactValues + 1}, std::size_t{300000}}) {
    const std::vector<float> values = normal_values(n, 5, 0.1f);
    std::vector<float> sorted(n);
    std::transform(values.begin(), values.end(), sorted.begin(),
                   [](float v) { return std::fabs(v); });
    std::sort(sorted.begin(), sorted.end());
    const ValueStats stats = stats_of(values);
    for (double p : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.9999, 1.0}) {
      const auto product = static_cast<float>(p) * static_cast<float>(n);
      const auto rank = static_cast<std::size_t>(std::max(1.0f, std::ceil(product)));
      const float expected = sorted[std::min(rank, n) - 1];
      const float got = percentile(stats, p);
      if (n <= ValueStats::kExactValues) {
        EXPECT_EQ(got, expected) << n << " " << p;
      } else {
        EXPECT_GE(got, expected) << n << " " << p;
        EXPECT_LE(got, expected * (1 + 1.0f / 256)) << n << " " << p;
      }
    }
    EXPECT_EQ(percentile(stats, 1), stats.absmax());
  }
}

TEST(ValueStats, PercentileOfMostlyZerosIsZeroHoweverMany) {
  for (std::size_t n : {100u, 100000u}) {
    std::vector<float> values(n);
    values[n / 2] = 1e-42f;  // shares its bin with zero
    EXPECT_EQ(percentile(stats_of(values), 0.5), 0) << n;
    EXPECT_EQ(percentile(stats_of(values), 1), 1e-42f) << n;
  }
}

TEST(ValueStats, PercentileOutsideItsRangeIsRefused) {
  const ValueStats stats = stats_of(normal_values(10, 6));
  for (double p : {-0.1, 1.1, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_EQ(stats.percentile(p).status().code(), StatusCode::kInvalidArgument) << p;
    EXPECT_EQ(stats.percentile_256(p).status().code(), StatusCode::kInvalidArgument) << p;
  }
}

TEST(ValueStats, Percentile256IsTheUpperEndOfItsBin) {
  const float values[] = {0.5f, 256.0f, 3.25f, -7.0f};
  const ValueStats stats = stats_of(values);
  EXPECT_EQ(*stats.percentile_256(0.25), 1);
  EXPECT_EQ(*stats.percentile_256(0.5), 4);
  EXPECT_EQ(*stats.percentile_256(0.75), 8);
  EXPECT_EQ(*stats.percentile_256(1), 256);
}

// 99 zeros, then a one: the first histogram of the reference forgot the zeros.
TEST(ValueStats, MedianDoesNotDependOnBatching) {
  const std::vector<float> zeros(99);
  const float one[] = {1.0f};
  ValueStats stats = stats_of(zeros);
  ASSERT_TRUE(stats.add(one).ok());
  EXPECT_EQ(percentile(stats, 0.5), 0);
  EXPECT_EQ(*stats.percentile_256(0.5), 1.0f / 256);
}

RC_GTEST_PROP(ValueStats, AnyBatchingAndMergeGivesTheSameBits, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  const auto n = *rc::gen::element<std::size_t>(0, 1, 100, 5000, 16384, 16385, 40000);
  const bool wide = *rc::gen::arbitrary<bool>();
  std::vector<float> values = wide ? wide_values(n, seed) : normal_values(n, seed, 3);
  if (!values.empty() && random() % 2 != 0) values[random() % n] = NAN;
  const ValueStats whole = stats_of(values, NonFinite::kCount);
  const ValueStats parts = in_random_batches(values, random, NonFinite::kCount);
  RC_ASSERT(parts == whole);
  RC_ASSERT(parts.mean() == whole.mean() || n == 0);
  RC_ASSERT(parts.std_dev() == whole.std_dev());
  for (double p : {0.0, 0.5, 0.99, 1.0})
    RC_ASSERT(*parts.percentile(p) == *whole.percentile(p));
  // The order of the values does not matter either.
  std::shuffle(values.begin(), values.end(), random);
  RC_ASSERT(stats_of(values, NonFinite::kCount) == whole);
}

RC_GTEST_PROP(ValueStats, MomentsAreThoseOfLongDoubles, (std::uint32_t seed)) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 20000);
  const auto mean = static_cast<float>(*rc::gen::inRange(-100, 100));
  const std::vector<float> values = normal_values(n, seed, mean);
  long double sum = 0, squares = 0;
  for (float v : values) sum += v;
  for (float v : values) {
    const long double d = v - sum / static_cast<long double>(n);
    squares += d * d;
  }
  const ValueStats stats = stats_of(values);
  const auto count = static_cast<long double>(n);
  RC_ASSERT(std::fabs(stats.mean() - static_cast<double>(sum / count)) < 1e-13);
  RC_ASSERT(std::fabs(stats.std_dev() - static_cast<double>(std::sqrt(squares / count))) <
            1e-13);
}

TEST(ValueStats, AreTheSameForEveryInstructionSetAndThreadCount) {
  const std::vector<float> values = wide_values(300000, 8);
  const ValueStats expected = stats_of(values);
  for (const std::string& target : kernels::available_targets()) {
    ASSERT_TRUE(kernels::set_target(target).ok());
    for (int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      EXPECT_EQ(stats_of(values), expected) << target << ", threads: " << threads;
    }
  }
  ASSERT_TRUE(kernels::set_target("").ok());
}

TEST(ValueStats, StateRoundTripsAndMergesOn) {
  for (std::size_t n : {0u, 1u, 500u, 40000u}) {
    const std::vector<float> values = wide_values(n, 10);
    const ValueStats stats = stats_of(values);
    Result<ValueStats> back = ValueStats::from_state(stats.state());
    ASSERT_TRUE(back.has_value()) << back.status().message();
    EXPECT_EQ(*back, stats);
    const std::vector<float> more = normal_values(20000, 11);
    ValueStats both = stats;
    ASSERT_TRUE(both.add(more).ok());
    ASSERT_TRUE(back->add(more).ok());
    EXPECT_EQ(*back, both);
  }
}

TEST(ValueStats, StatesThatNoValuesHaveAreCorrupt) {
  const ValueState good = stats_of(std::vector<float>{-3, 0, 1, 1, 2}).state();
  ASSERT_TRUE(ValueStats::from_state(good).has_value());
  const auto refuses = [&](auto change) {
    ValueState state = good;
    change(state);
    return ValueStats::from_state(state).status().code() == StatusCode::kCorrupt;
  };
  EXPECT_TRUE(refuses([](ValueState& s) { s.nonfinite = -1; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.min = NAN; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.max = INFINITY; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.min = -2.5f; }));
  EXPECT_TRUE(refuses([](ValueState& s) { std::swap(s.min, s.max); }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes[1].count = 0; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes[1].count = INT64_MAX; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes[1].magnitude = 2; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes[0].magnitude = -1; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes.back().magnitude = INFINITY; }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.magnitudes.clear(); }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.sum_abs.add(-100.0); }));
  EXPECT_TRUE(refuses([](ValueState& s) { s.sum_squares.add(-100.0); }));
}

TEST(ValueStats, CopiesAndSelfMergesAreValues) {
  for (std::size_t n : {10u, 20000u}) {
    const std::vector<float> values = normal_values(n, 9);
    const ValueStats stats = stats_of(values);
    ValueStats copy = stats;
    EXPECT_EQ(copy, stats);
    copy.merge(copy);
    ValueStats twice = stats_of(values);
    ASSERT_TRUE(twice.add(values).ok());
    EXPECT_EQ(copy, twice);
    EXPECT_FALSE(copy == stats);
    copy = stats;
    EXPECT_EQ(copy, stats);
  }
}

}  // namespace
}  // namespace pith
