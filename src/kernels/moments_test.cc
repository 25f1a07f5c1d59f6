#include "src/kernels/moments.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kSizes[] = {0,  1,  2,  3,  7,   15,  16,  17,  31,   32,
                                   33, 63, 64, 65, 100, 127, 128, 129, 1023, 1024};

// Values of every kind: the full range of exponents, zeros of both signs, NaN, infinity.
std::vector<float> any_floats(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) {
    v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (random() % 16 == 0) v = std::copysign(0.0f, v);
    if (random() % 64 == 0) v = std::copysign(INFINITY, v);
    if (random() % 4 == 0) v = std::ldexp(static_cast<float>(random() % 1000), -10);
  }
  return values;
}

// Runs `check` with every instruction set this machine has.
template <typename Check>
void for_each_target(const Check& check) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    SCOPED_TRACE(target);
    check();
  }
  ASSERT_TRUE(set_target("").ok());
}

TEST(Moments, RangeEqualsTheReference) {
  for_each_target([] {
    for (std::int64_t n : kSizes) {
      for (int offset : {0, 1, 3}) {
        const std::vector<float> x =
            any_floats(n + offset, static_cast<std::uint32_t>(n));
        ChunkRange expected, got;
        reference_chunk_range(x.data() + offset, n, expected);
        chunk_range(x.data() + offset, n, got);
        ASSERT_EQ(got, expected) << n << " values from " << offset;
        // A second chunk adds to the first.
        reference_chunk_range(x.data(), n, expected);
        chunk_range(x.data(), n, got);
        ASSERT_EQ(got, expected);
      }
    }
  });
}

TEST(Moments, KeysHaveTheOrderOfValues) {
  const float values[] = {-INFINITY, -2.0f, -1e-45f, -0.0f, 0.0f, 1e-45f, 3.0f, INFINITY};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    EXPECT_EQ(key_bits(order_key(bits)), bits);
    if (i > 0) {
      EXPECT_LT(order_key(std::bit_cast<std::uint32_t>(values[i - 1])), order_key(bits));
    }
  }
}

TEST(Moments, WindowSumsEqualTheReferenceInEveryWindow) {
  for_each_target([] {
    for (std::int64_t n : kSizes) {
      const std::vector<float> x = any_floats(n + 1, 7 + static_cast<std::uint32_t>(n));
      std::uint32_t largest = 0x7f7fffffu;
      int windows = 0;
      for (;;) {
        const Window window = window_below(largest);
        ASSERT_EQ(window_sums(x.data() + 1, n, window),
                  reference_window_sums(x.data() + 1, n, window))
            << n << " values, window from " << window.low;
        ++windows;
        if (window.low <= 1) break;
        largest = window.low - 1;
      }
      EXPECT_EQ(windows, 13);  // 254 exponents in windows of 20
    }
  });
}

TEST(Moments, ColumnsEqualTheReference) {
  for_each_target([] {
    for (std::int64_t cols : kSizes) {
      for (std::int64_t rows : {0, 1, 3, 4, 5, 9}) {
        const std::int64_t stride = cols + 3;
        const std::vector<float> x =
            any_floats(rows * stride + 1, static_cast<std::uint32_t>(cols * 10 + rows));
        const auto size = static_cast<std::size_t>(cols);
        std::vector<float> absmax(size, 0.5f), expected_absmax(size, 0.5f);
        column_absmax(x.data() + 1, rows, cols, stride, absmax.data());
        reference_column_absmax(x.data() + 1, rows, cols, stride, expected_absmax.data());
        ASSERT_EQ(absmax, expected_absmax) << rows << " x " << cols;

        const Window window = window_below(std::bit_cast<std::uint32_t>(1000.0f));
        std::vector<double> high(size), low(size), expected_high(size),
            expected_low(size);
        column_squares(x.data() + 1, rows, cols, stride, window, high.data(), low.data());
        reference_column_squares(x.data() + 1, rows, cols, stride, window,
                                 expected_high.data(), expected_low.data());
        ASSERT_EQ(high, expected_high) << rows << " x " << cols;
        ASSERT_EQ(low, expected_low) << rows << " x " << cols;
      }
    }
  });
}

}  // namespace
}  // namespace pith::kernels
