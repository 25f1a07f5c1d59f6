#include "src/kernels/power_sums.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_same(const PowerSums& a, const PowerSums& b) {
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.sums[power]),
              std::bit_cast<std::uint64_t>(b.sums[power]))
        << "power " << power + 1;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.min), std::bit_cast<std::uint32_t>(b.min));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.max), std::bit_cast<std::uint32_t>(b.max));
  EXPECT_EQ(a.zeros, b.zeros);
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.infinite, b.infinite);
}

void compare(const std::vector<float>& values) {
  for (const std::string& name : available_targets()) {
    ASSERT_TRUE(set_target(name).ok());
    SCOPED_TRACE(name + ", " + std::to_string(values.size()) + " values");
    const auto count = static_cast<std::int64_t>(values.size());
    expect_same(power_sums(values.data(), count),
                reference_power_sums(values.data(), count));
    if (count > 0) {  // off its alignment
      expect_same(power_sums(values.data() + 1, count - 1),
                  reference_power_sums(values.data() + 1, count - 1));
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

std::vector<float> normal_values(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal(0.1F, 3.0F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(PowerSums, EverySetEqualsTheReference) {
  for (const std::size_t count :
       {0,  1,  7,   8,   9,   15,  16,  17,  31,   32,   33,   63,
        64, 65, 127, 128, 129, 511, 512, 513, 1000, 1024, 1025, 65536}) {
    compare(normal_values(count));
  }
}

TEST(PowerSums, ZerosNanAndInfinityAreCountedAndLeftOut) {
  std::vector<float> values = normal_values(100);
  values[3] = 0.0F;
  values[40] = -0.0F;
  compare(values);
  values[17] = kNan;
  values[18] = kInfinity;
  values[99] = -kInfinity;
  compare(values);
  const PowerSums m = power_sums(values.data(), 100);
  EXPECT_EQ(m.zeros, 2);
  EXPECT_EQ(m.nan, 1);
  EXPECT_EQ(m.infinite, 2);
  for (const double sum : m.sums) EXPECT_TRUE(std::isfinite(sum));
}

TEST(PowerSums, ValuesWhosePowersF32CannotHold) {
  for (const float scale : {1e-30F, 1e-8F, 1e-6F, 1e8F, 1e9F, 1e10F, 1e30F}) {
    std::vector<float> values = normal_values(2000);
    for (float& value : values) value *= scale;
    compare(values);
    const auto count = static_cast<std::int64_t>(values.size());
    const PowerSums sums = power_sums(values.data(), count);
    double fourth = 0;
    for (const float x : values) fourth += std::pow(double{x}, 4);
    EXPECT_NEAR(sums.sums[3] / fourth, 1, 1e-6) << scale;
  }
  compare(std::vector<float>(1024, 0.0F));
  std::vector<float> one = normal_values(1100);
  one[1090] = kNan;  // behind the last block
  compare(one);
  one[100] = kNan;  // in the first
  compare(one);
}

TEST(PowerSums, NothingFinite) {
  compare(std::vector<float>(50, kNan));
  compare(std::vector<float>(50, -kInfinity));
}

TEST(PowerSums, TheLargestAndSmallestValues) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  compare(std::vector<float>(33, largest));
  compare(std::vector<float>(33, smallest));
  compare(std::vector<float>(33, -0.0F));
  compare(std::vector<float>(600, largest));
  compare(std::vector<float>(600, smallest));
  std::vector<float> mixed(40, -largest);
  mixed[20] = smallest;
  compare(mixed);
  EXPECT_GT(power_sums(mixed.data(), 40).sums[3], 1e154);
}

TEST(PowerSums, SmallNumbersByHand) {
  const std::vector<float> values = {1, -2, 3};
  const PowerSums m = power_sums(values.data(), 3);
  EXPECT_EQ(m.sums[0], 2);
  EXPECT_EQ(m.sums[1], 14);
  EXPECT_EQ(m.sums[2], 20);
  EXPECT_EQ(m.sums[3], 98);
  EXPECT_EQ(m.min, -2);
  EXPECT_EQ(m.max, 3);
}

}  // namespace
}  // namespace pith::kernels
