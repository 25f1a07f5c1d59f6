// What tests of kernels share: every instruction set, and values that are awkward.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/error.h"
#include "src/kernels/target.h"

namespace pith::kernels {

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(set_target(GetParam()).ok()); }
  void TearDown() override { ASSERT_TRUE(set_target("").ok()); }
};

// Values of many magnitudes with zeros of both signs, ties and equal ones among them.
inline std::vector<float> values_of(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) {
    const unsigned kind = random() % 16;
    v = normal(random);
    if (kind == 0) v = 0;
    if (kind == 1) v = -0.0F;
    if (kind == 2) v = std::round(v * 4) / 8;
    if (kind == 3) v = std::ldexp(v, static_cast<int>(random() % 60) - 30);
  }
  return values;
}

// Bit by bit.
inline void expect_same_sums(const ErrorSums& got, const ErrorSums& expected) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  EXPECT_EQ(bits(got.error), bits(expected.error));
  EXPECT_EQ(bits(got.error_squared), bits(expected.error_squared));
  EXPECT_EQ(bits(got.squared_before), bits(expected.squared_before));
  EXPECT_EQ(bits(got.squared_after), bits(expected.squared_after));
  EXPECT_EQ(bits(got.max_error), bits(expected.max_error));
  EXPECT_EQ(got.zeros_before, expected.zeros_before);
  EXPECT_EQ(got.zeros_after, expected.zeros_after);
}

// The same values one float off the alignment of a vector.
struct Unaligned {
  explicit Unaligned(const std::vector<float>& values) : memory(values.size() + 1) {
    std::copy(values.begin(), values.end(), memory.begin() + 1);
  }
  [[nodiscard]] const float* data() const { return memory.data() + 1; }
  std::vector<float> memory;
};

}  // namespace pith::kernels
