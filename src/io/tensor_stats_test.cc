#include "pith/io/tensor_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "pith/base/threads.h"
#include "pith/io/writer.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::TempFolder;

class StatsOf {
 public:
  explicit StatsOf(const std::vector<float>& values, const StatsOptions& options = {}) {
    CheckpointLayout layout;
    const auto count = static_cast<std::int64_t>(values.size());
    layout.tensors.push_back(TensorSpec::plain("w", DType::kF32, *Shape::make({count})));
    auto writer = CheckpointWriter::create(folder_ / "a.safetensors", layout);
    EXPECT_TRUE(writer && (*writer)->write(0, 0, std::as_bytes(std::span(values))).ok() &&
                (*writer)->commit().ok());
    const auto model = Checkpoint::open(folder_ / "a.safetensors");
    EXPECT_TRUE(model);
    const std::vector<std::size_t> tensors = {0};
    auto stats = tensor_stats(**model, tensors, options);
    EXPECT_TRUE(stats);
    stats_ = (*stats)[0];
  }
  const TensorStats* operator->() const { return &stats_; }

 private:
  TempFolder folder_;
  TensorStats stats_;
};

TEST(TensorStats, SmallNumbersByHand) {
  const StatsOf stats({1, 2, 3, 4, 0, -10});
  EXPECT_EQ(stats->elements, 6);
  EXPECT_EQ(stats->min, -10);
  EXPECT_EQ(stats->max, 4);
  EXPECT_EQ(stats->absmax, 10);
  EXPECT_EQ(stats->mean, 0);
  EXPECT_NEAR(stats->deviation, std::sqrt(130.0 / 6), 1e-12);
  EXPECT_NEAR(stats->kurtosis, 6.0 * (1 + 16 + 81 + 256 + 10000) / (130.0 * 130.0),
              1e-12);
  EXPECT_EQ(stats->zeros, 1);
  EXPECT_EQ(stats->sampled, 6);
  EXPECT_EQ(stats->histogram[0], 1);
  EXPECT_EQ(stats->histogram[8], 2);  // 0 and 1
}

TEST(TensorStats, NothingAndConstants) {
  const StatsOf none({});
  EXPECT_EQ(none->elements, 0);
  EXPECT_EQ(none->sampled, 0);
  const StatsOf zeros(std::vector<float>(100, 0.0F));
  EXPECT_EQ(zeros->zeros, 100);
  EXPECT_EQ(zeros->deviation, 0);
  EXPECT_EQ(zeros->histogram[8], 100);
  const StatsOf constant(std::vector<float>(1000, 0.1F));
  EXPECT_EQ(constant->mean, static_cast<double>(0.1F));
  EXPECT_EQ(constant->deviation, 0);
  EXPECT_EQ(constant->kurtosis, 0);
}

TEST(TensorStats, NanAndInfinityAreCountedApart) {
  const float infinity = std::numeric_limits<float>::infinity();
  const StatsOf stats({1, std::nanf(""), infinity, -infinity, 3});
  EXPECT_EQ(stats->nan, 1);
  EXPECT_EQ(stats->infinite, 2);
  EXPECT_EQ(stats->finite(), 2);
  EXPECT_EQ(stats->mean, 2);
  EXPECT_EQ(stats->max, 3);
  EXPECT_EQ(stats->sampled, 2);
  const StatsOf nothing(std::vector<float>(3, std::nanf("")));
  EXPECT_EQ(nothing->finite(), 0);
  EXPECT_EQ(nothing->max, 0);
}

TEST(TensorStats, ManyValues) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  std::vector<float> values(1'000'003);
  double sum = 0;
  for (float& v : values) sum += v = normal(random);
  const double mean = sum / static_cast<double>(values.size());
  double second = 0;
  double fourth = 0;
  for (const float v : values) {
    const double d = v - mean;
    second += d * d;
    fourth += d * d * d * d;
  }
  const auto n = static_cast<double>(values.size());
  const StatsOf stats(values);
  EXPECT_NEAR(stats->mean, mean, 1e-8);
  EXPECT_NEAR(stats->deviation, std::sqrt(second / n), 1e-7);
  EXPECT_NEAR(stats->kurtosis, n * fourth / (second * second), 1e-6);
  EXPECT_GT(stats->sampled, 30000);
  EXPECT_EQ(
      std::accumulate(stats->histogram.begin(), stats->histogram.end(), std::int64_t{0}),
      stats->sampled);
}

TEST(TensorStats, AMeanFarFromZeroDoesNotDrownTheDeviation) {
  std::vector<float> values(100000, 1000.0F);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = 1000.0F + 0x1p-13F;
  const StatsOf stats(values);
  EXPECT_NEAR(stats->deviation, 0x1p-14, 1e-12);
  EXPECT_NEAR(stats->kurtosis, 1.0, 1e-6);
}

TEST(TensorStats, TheSameForEveryNumberOfThreads) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(500'001);
  for (float& v : values) v = normal(random);
  const StatsOf first(values);
  for (const int threads : {1, 2, 7}) {
    const ThreadLimit limit(threads);
    const StatsOf stats(values);
    EXPECT_EQ(stats->mean, first->mean);
    EXPECT_EQ(stats->deviation, first->deviation);
    EXPECT_EQ(stats->kurtosis, first->kurtosis);
    EXPECT_EQ(stats->histogram, first->histogram);
  }
}

}  // namespace
}  // namespace pith
