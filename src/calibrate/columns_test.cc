#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "pith/calibrate/observer.h"
#include "pith/calibrate/stats.h"

namespace pith {
namespace {

std::vector<float> any_values(std::size_t n, std::uint32_t seed, bool wide) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) {
    v = normal(random);
    if (!wide) continue;
    do {
      v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    } while (!std::isfinite(v));
  }
  return values;
}

TEST(ColumnStats, AbsmaxAndSquaresPerColumn) {
  ColumnStats stats(3);
  const float rows[] = {1, -2, 0, -3, 0.5f, 0};
  ASSERT_TRUE(stats.add(rows).ok());
  EXPECT_EQ(stats.rows(), 2);
  EXPECT_EQ(std::vector<float>(stats.absmax().begin(), stats.absmax().end()),
            (std::vector<float>{3, 2, 0}));
  EXPECT_EQ(stats.sum_squares(), (std::vector<double>{10, 4.25, 0}));
  EXPECT_EQ(stats.sum(), (std::vector<double>{-2, -1.5, 0}));
  EXPECT_EQ(stats.mean(), (std::vector<double>{-1, -0.75, 0}));
  EXPECT_EQ(std::vector<float>(stats.min().begin(), stats.min().end()),
            (std::vector<float>{-3, -2, 0}));
  EXPECT_EQ(std::vector<float>(stats.max().begin(), stats.max().end()),
            (std::vector<float>{1, 0.5f, 0}));
}

TEST(ColumnStats, RaggedAndNonfiniteRowsAreRefused) {
  ColumnStats stats(3);
  const float ragged[] = {1, 2, 3, 4};
  EXPECT_EQ(stats.add(ragged).code(), StatusCode::kInvalidArgument);
  const float infinite[] = {1, 2, INFINITY};
  EXPECT_EQ(stats.add(infinite).code(), StatusCode::kNotFinite);
  EXPECT_EQ(stats, ColumnStats(3));
  EXPECT_EQ(ColumnStats().add(ragged).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stats.merge(ColumnStats(4)).code(), StatusCode::kInvalidArgument);
}

TEST(ColumnStats, CountedNonfiniteValuesArePassedOver) {
  ColumnStats stats(2);
  const float rows[] = {1, NAN, -INFINITY, 2};
  ASSERT_TRUE(stats.add(rows, NonFinite::kCount).ok());
  EXPECT_EQ(stats.nonfinite(), 2);
  EXPECT_EQ(stats.absmax()[0], 1);
  EXPECT_EQ(stats.sum_squares(), (std::vector<double>{1, 4}));
  EXPECT_EQ(stats.sum(), (std::vector<double>{1, 2}));
  EXPECT_EQ(stats.min()[0], 1);
}

RC_GTEST_PROP(ColumnStats, AnyBatchingAndMergeGivesTheSameBits, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  const auto cols = *rc::gen::element<std::size_t>(1, 5, 16, 33, 513, 600);
  const auto rows = *rc::gen::inRange<std::size_t>(0, 150);
  const std::vector<float> values =
      any_values(rows * cols, seed, *rc::gen::arbitrary<bool>());
  ColumnStats whole(static_cast<std::int64_t>(cols));
  RC_ASSERT(whole.add(values).ok());
  ColumnStats parts[2] = {ColumnStats(whole.cols()), ColumnStats(whole.cols())};
  for (std::size_t row = 0; row < rows;) {
    const std::size_t count = std::min<std::size_t>(rows - row, 1 + random() % 70);
    RC_ASSERT(parts[random() % 2]
                  .add(std::span(values).subspan(row * cols, count * cols))
                  .ok());
    row += count;
  }
  RC_ASSERT(parts[1].merge(parts[0]).ok());
  RC_ASSERT(parts[1] == whole);
  // And they are the sums of each column by itself.
  for (std::size_t j = 0; j < cols; ++j) {
    ExactSum squares;
    float absmax = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const float v = values[r * cols + j];
      squares.add(double{v} * v);
      absmax = std::max(absmax, std::fabs(v));
    }
    RC_ASSERT(whole.state().sum_squares[j] == squares);
    RC_ASSERT(whole.absmax()[j] == absmax);
  }
}

TEST(ColumnStats, DoNotDependOnTheNumberOfThreads) {
  const std::vector<float> values = any_values(100 * 2000, 3, true);
  ColumnStats one(2000), many(2000);
  {
    const ThreadLimit limit(1);
    ASSERT_TRUE(one.add(values).ok());
  }
  ASSERT_TRUE(many.add(values).ok());
  EXPECT_EQ(one, many);
}

TEST(ColumnStats, StateRoundTripsAndIsChecked) {
  ColumnStats stats(40);
  ASSERT_TRUE(stats.add(any_values(400, 5, true)).ok());
  EXPECT_EQ(*ColumnStats::from_state(stats.state()), stats);
  const auto refuses = [&](auto change) {
    ColumnState state = stats.state();
    change(state);
    return ColumnStats::from_state(state).status().code() == StatusCode::kCorrupt;
  };
  EXPECT_TRUE(refuses([](ColumnState& s) { s.rows = -1; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.nonfinite = -1; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.absmax.pop_back(); }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.absmax[3] = NAN; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.absmax[3] = INFINITY; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.absmax[3] = -1; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.absmax[3] = 0; }));
  EXPECT_TRUE(refuses([](ColumnState& s) { s.sum_squares[3] = ExactSum(); }));
}

TEST(Observer, KeepsLayersApartAndSortedByName) {
  Observer observer;
  const float a[] = {1, 2, 3, 4};
  const float b[] = {-5, 0};
  ASSERT_TRUE(observer.record("b", a, 2).ok());
  ASSERT_TRUE(observer.record("a", b).ok());
  ASSERT_TRUE(observer.record("b", b, 2).ok());
  ASSERT_TRUE(observer.record("empty", {}, 2).ok());
  ASSERT_EQ(observer.layers().size(), 2u);
  EXPECT_EQ(observer.layers().begin()->first, "a");
  EXPECT_EQ(observer.find("a")->columns.cols(), 0);
  EXPECT_EQ(observer.find("b")->columns.absmax()[0], 5);
  EXPECT_EQ(observer.find("b")->columns.rows(), 3);
  EXPECT_EQ(observer.find("b")->values.count(), 6);
  EXPECT_EQ(observer.find("empty"), nullptr);
}

TEST(Observer, RefusedRecordsChangeNothing) {
  Observer observer;
  const float rows[] = {1, 2, 3, 4};
  ASSERT_TRUE(observer.record("l", rows, 2).ok());
  const LayerStats before = *observer.find("l");
  const Status other_columns = observer.record("l", rows, 4);
  EXPECT_EQ(other_columns.message(),
            "layer 'l': 4 columns, expected 2 as recorded before");
  const float bad[] = {1, NAN};
  EXPECT_EQ(observer.record("l", bad, 2).code(), StatusCode::kNotFinite);
  EXPECT_EQ(observer.record("l", std::span(rows).first(3), 2).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(observer.record("new", bad, 2).code(), StatusCode::kNotFinite);
  EXPECT_EQ(observer.record("new", rows, -1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*observer.find("l"), before);
  EXPECT_EQ(observer.find("new"), nullptr);
}

TEST(Observer, MergeEqualsRecordingEverything) {
  const std::vector<float> values = any_values(40, 4, false);
  Observer one, two, all;
  const std::span<const float> v(values);
  ASSERT_TRUE(one.record("x", v.first(20), 4).ok());
  ASSERT_TRUE(two.record("x", v.subspan(20), 4).ok());
  ASSERT_TRUE(two.record("y", v.first(8), 2).ok());
  ASSERT_TRUE(all.record("x", v, 4).ok());
  ASSERT_TRUE(all.record("y", v.first(8), 2).ok());
  ASSERT_TRUE(one.merge(two).ok());
  EXPECT_EQ(one.layers(), all.layers());

  Observer different;
  ASSERT_TRUE(different.record("a", v, 4).ok());
  ASSERT_TRUE(different.record("y", v, 5).ok());
  EXPECT_EQ(one.merge(different).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(one.layers(), all.layers());
}

}  // namespace
}  // namespace pith
