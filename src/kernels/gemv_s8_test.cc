#include "src/kernels/gemv_s8.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kCols[] = {0,  1,  2,  15,  16,  17,  31,   32,    33,
                                  63, 64, 65, 127, 128, 129, 1000, 65536, 65537};

std::vector<std::int8_t> codes_of(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int8_t> codes(static_cast<std::size_t>(n));
  for (std::int8_t& code : codes) code = static_cast<std::int8_t>(random());
  return codes;
}

TEST(GemvS8, EveryTargetEqualsTheReference) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    for (std::int64_t cols : kCols) {
      for (std::int64_t rows : {0, 1, 3}) {
        const auto weight = codes_of(rows * cols + 1, 1);
        const auto x = codes_of(cols + 3, 2);
        const std::vector<float> scales = {0.25f, 3.0f, 1e-3f};
        std::vector<float> y(3, -1), expected(3, -1);
        GemvS8 args{weight.data() + 1, x.data() + 3, scales.data(), 0.7f, rows, cols,
                    y.data()};
        gemv_s8(args);
        args.y = expected.data();
        reference_gemv_s8(args);
        ASSERT_EQ(y, expected) << target << " " << rows << " x " << cols;
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

TEST(GemvS8, SumsBeyondAnInt32AreExact) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    constexpr std::int64_t kLong = 300001;
    const std::vector<std::int8_t> lowest(kLong, -128);
    const float one = 1;
    float y = 0;
    gemv_s8({lowest.data(), lowest.data(), &one, 1.0f, 1, kLong, &y});
    EXPECT_EQ(y, static_cast<float>(kLong * 16384)) << target;
  }
  ASSERT_TRUE(set_target("").ok());
}

TEST(GemvS8F32, EveryTargetEqualsTheReference) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    for (std::int64_t cols : kCols) {
      for (bool one_scale : {false, true}) {
        const auto weight = codes_of(3 * cols + 1, 4);
        std::vector<float> x(static_cast<std::size_t>(cols) + 1);
        for (float& v : x) v = normal(random);
        const std::vector<float> scales = {0.25f, 3.0f, 1e-3f};
        std::vector<float> y(3), expected(3);
        GemvS8F32 args{weight.data() + 1, x.data() + 1, scales.data(), one_scale, 3, cols,
                       y.data()};
        gemv_s8_f32(args);
        args.y = expected.data();
        reference_gemv_s8_f32(args);
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), 3 * sizeof(float)), 0)
            << target << " " << cols;
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

}  // namespace
}  // namespace pith::kernels
