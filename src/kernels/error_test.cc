#include "src/kernels/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "src/kernels/target.h"
#include "src/kernels/test_values.h"

namespace pith::kernels {
namespace {

TEST(ErrorSums, EverySetAddsInTheSameOrder) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int n : {0,  1,  7,  8,   9,   15,  16,  17,  31,  32,   33,
                63, 64, 65, 127, 128, 129, 255, 256, 257, 2048, 2049}) {
    std::vector<float> before(static_cast<std::size_t>(n) + 1);
    std::vector<float> after(before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      before[i] =
          random() % 9 == 0 ? -0.0F : std::ldexp(normal(random), int(random() % 80) - 40);
      after[i] = random() % 9 == 0 ? 0.0F : before[i] * (1 + 0.01F * normal(random));
    }
    const ErrorSums expected =
        reference_error_sums(before.data() + 1, after.data() + 1, n);
    for (const std::string& target : available_targets()) {
      ASSERT_TRUE(set_target(target).ok());
      SCOPED_TRACE(target + " " + std::to_string(n));
      expect_same_sums(error_sums(before.data() + 1, after.data() + 1, n), expected);
      for (std::size_t i = 1; i < before.size(); i += 1 + before.size() / 50) {
        const double error = std::fabs(double{before[i]} - double{after[i]});
        EXPECT_EQ(first_error(before.data() + 1, after.data() + 1, n, error),
                  reference_first_error(before.data() + 1, after.data() + 1, n, error));
      }
      EXPECT_EQ(first_error(before.data() + 1, after.data() + 1, n, -1.0), -1);
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

// Sums from codes are those of their values.
TEST(ErrorSums, CodesAddLikeTheirValues) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  struct Case {
    std::int64_t size;
    std::int64_t stride;
  };
  for (const Case& c : {Case{32, 32}, Case{32, 34}, Case{64, 64}, Case{96, 96},
                        Case{2048, 2048}, Case{4096, 4096}}) {
    for (std::int64_t groups : {1, 2, 3, 8, 9, 21, 64, 128}) {
      if (groups * c.size > 4096) continue;
      const auto n = static_cast<std::size_t>(groups * c.size);
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups * c.stride));
      for (auto& byte : codes) byte = static_cast<std::uint8_t>(random());
      std::vector<float> scales(static_cast<std::size_t>(groups));
      for (float& scale : scales) scale = std::ldexp(normal(random), int(random() % 9));
      std::vector<float> before(n);
      std::vector<float> after(n);
      for (bool one_scale : {false, true}) {
        const DecodeGroups args = {.codes = codes.data(),
                                   .stride = c.stride,
                                   .packing = Packing::kInt8,
                                   .scales = scales.data(),
                                   .zero_points = nullptr,
                                   .one_scale = one_scale,
                                   .out = after.data(),
                                   .groups = groups,
                                   .size = c.size,
                                   .last = c.size};
        ASSERT_GT(code_error_scale(args), 0);
        reference_decode_groups(args);
        for (std::size_t i = 0; i < n; ++i) {
          before[i] = random() % 9 == 0 ? 0.0F : after[i] + 0.1F * normal(random);
        }
        const ErrorSums expected =
            reference_error_sums(before.data(), after.data(), std::ssize(before));
        for (const std::string& target : available_targets()) {
          ASSERT_TRUE(set_target(target).ok());
          SCOPED_TRACE(target + " " + std::to_string(n));
          expect_same_sums(code_error_sums(args, before.data()), expected);
          ErrorSums without = expected;
          without.max_error = -1;
          expect_same_sums(code_error_sums(args, before.data(), false), without);
        }
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

// As many zeros as there can be: one counter for several codes must not overflow.
TEST(ErrorSums, ZerosOfAllCodes) {
  const std::vector<std::uint8_t> codes(4096);
  const std::vector<float> before(4096, 0.25F);
  const float scale = 0.5F;
  for (const std::int64_t n : {2048, 4064, 4096}) {
    const DecodeGroups args = {.codes = codes.data(),
                               .stride = n,
                               .packing = Packing::kInt8,
                               .scales = &scale,
                               .zero_points = nullptr,
                               .one_scale = true,
                               .out = nullptr,
                               .groups = 1,
                               .size = n,
                               .last = n};
    ASSERT_GT(code_error_scale(args), 0);
    for (const std::string& target : available_targets()) {
      ASSERT_TRUE(set_target(target).ok());
      EXPECT_EQ(code_error_sums(args, before.data()).zeros_after, n) << target;
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

// Where errors cannot be had from codes alone, they are not.
TEST(ErrorSums, CodesWithoutSums) {
  const std::vector<std::uint8_t> codes(8192);
  std::vector<float> scales(256, 0.5F);
  const float zero_point = 0;
  const DecodeGroups usual = {.codes = codes.data(),
                              .stride = 32,
                              .packing = Packing::kInt8,
                              .scales = scales.data(),
                              .zero_points = nullptr,
                              .one_scale = false,
                              .out = nullptr,
                              .groups = 8,
                              .size = 32,
                              .last = 32};
  EXPECT_GT(code_error_scale(usual), 0);
  for (float scale : {0.0F, 1e-40F, -1e-40F}) {
    scales[7] = scale;
    EXPECT_EQ(code_error_scale(usual), 0) << scale;
  }
  scales[7] = 0.5F;
  DecodeGroups args = usual;
  args.packing = Packing::kInt4;
  EXPECT_EQ(code_error_scale(args), 0);
  args = usual;
  args.groups = 256;  // more zeros than a byte counts
  EXPECT_EQ(code_error_scale(args), 0);
  args = usual;
  args.last = 31;
  EXPECT_EQ(code_error_scale(args), 0);
  args = usual;
  args.zero_points = &zero_point;
  EXPECT_EQ(code_error_scale(args), 0);
  args = usual;
  args.size = args.last = 40;
  EXPECT_EQ(code_error_scale(args), 0);
}

// The plain sums in double that error_sums stands for.
ErrorSums in_double(const std::vector<float>& before, const std::vector<float>& after) {
  ErrorSums sums;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double x = before[i];
    const double y = after[i];
    sums.error += std::fabs(x - y);
    sums.error_squared += (x - y) * (x - y);
    sums.squared_before += x * x;
    sums.squared_after += y * y;
    sums.max_error = std::max(sums.max_error, std::fabs(x - y));
  }
  return sums;
}

TEST(ErrorSums, AreThoseInDoubleAtAnyScale) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const int exponent : {-140, -100, -64, -40, -20, 0, 20, 40, 64, 100, 120}) {
    std::vector<float> before(2000);
    std::vector<float> after(before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      before[i] = std::ldexp(normal(random), exponent);
      after[i] =
          std::ldexp(std::nearbyint(std::ldexp(before[i], 5 - exponent)), exponent - 5);
    }
    const ErrorSums expected = in_double(before, after);
    const ErrorSums got = error_sums(before.data(), after.data(), 2000);
    SCOPED_TRACE(exponent);
    EXPECT_NEAR(got.error / expected.error, 1, 1e-7);
    EXPECT_NEAR(got.error_squared / expected.error_squared, 1, 1e-7);
    EXPECT_NEAR(got.squared_before / expected.squared_before, 1, 1e-7);
    EXPECT_NEAR(got.squared_after / expected.squared_after, 1, 1e-7);
    EXPECT_NEAR(got.max_error / expected.max_error, 1, 1e-7);
  }
}

TEST(ErrorSums, NanAndInfinityShowInTheSums) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    for (std::size_t at = 0; at < 37; ++at) {
      std::vector<float> before(37, 1);
      const std::vector<float> after(37, 1.5F);
      before[at] = NAN;
      EXPECT_TRUE(std::isnan(error_sums(before.data(), after.data(), 37).error));
      before[at] = -INFINITY;
      EXPECT_TRUE(std::isinf(error_sums(before.data(), after.data(), 37).error));
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

}  // namespace
}  // namespace pith::kernels
