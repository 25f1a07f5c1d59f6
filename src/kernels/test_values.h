// What tests of kernels share: every instruction set, and values that are awkward.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

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

// The same values one float off the alignment of a vector.
struct Unaligned {
  explicit Unaligned(const std::vector<float>& values) : memory(values.size() + 1) {
    std::copy(values.begin(), values.end(), memory.begin() + 1);
  }
  [[nodiscard]] const float* data() const { return memory.data() + 1; }
  std::vector<float> memory;
};

}  // namespace pith::kernels
