#include "pith/run/matvec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "pith/run/cpu.h"

namespace pith {
namespace {

using Codes = std::vector<std::int8_t>;

TEST(W8a8Matvec, RoundsTheTwoProductsOneAfterTheOther) {
  const Codes weight = {1, 2, 3, -4};
  const std::vector<float> scales = {0.1f, 0.2f};
  const std::vector<float> x = {1.0f, 2.0f};
  std::vector<float> y(2);
  MatvecScratch scratch;
  ASSERT_TRUE(w8a8_matvec(weight, scales, 2, 2, x, y, scratch).ok());
  EXPECT_EQ(scratch.codes, (Codes{64, 127}));
  EXPECT_EQ(scratch.scale, 2.0f / 127);
  EXPECT_EQ(y[0], (318.0f * 0.1f) * (2.0f / 127));
  EXPECT_EQ(y[1], (-316.0f * 0.2f) * (2.0f / 127));
}

TEST(W8a8Matvec, LongRowsDoNotOverflow) {
  constexpr std::int64_t kCols = 140000;
  const Codes weight(kCols, 127);
  const std::vector<float> x(kCols, 1.0f);
  const std::vector<float> scale = {1.0f / 127};
  std::vector<float> y(1);
  MatvecScratch scratch;
  ASSERT_TRUE(w8a8_matvec(weight, scale, 1, kCols, x, y, scratch).ok());
  EXPECT_NEAR(y[0], 140000, 140);
}

TEST(W8a8Matvec, ErrorsComeInAFixedOrder) {
  const Codes weight(6);
  const std::vector<float> scales(2);
  const std::vector<float> x(3, 1.0f);
  std::vector<float> y(2);
  MatvecScratch scratch;
  const auto message = [&](auto... args) {
    return w8a8_matvec(args..., y, scratch).message();
  };
  const std::span<const std::int8_t> w(weight);
  const std::span<const float> s(scales), v(x);
  EXPECT_EQ(message(w.first(1), s, 2, 3, v.first(0)),
            "matvec: x is empty, expected at least one value");
  EXPECT_EQ(message(w.first(5), s.first(1), 2, 3, v.first(2)),
            "matvec: 2 values of x, expected 3");
  EXPECT_EQ(message(w.first(5), s.first(1), 2, 3, v), "matvec: 5 weights, expected 6");
  EXPECT_EQ(message(w, s.first(1), 2, 3, v), "matvec: 1 row scales, expected 2");
  EXPECT_EQ(message(w, s, std::int64_t{1} << 62, 3, v),
            "matvec: 6 weights, but rows times columns is no valid size");
  EXPECT_EQ(message(w, s, -2, 3, v),
            "matvec: 6 weights, but rows times columns is no valid size");
  std::vector<float> bad = {1, NAN, 2};
  EXPECT_EQ(w8a8_matvec(w, s, 2, 3, bad, y, scratch).code(), StatusCode::kNotFinite);
}

TEST(W8a8Matvec, WithoutRowsGivesNothing) {
  const std::vector<float> x = {1, 2};
  MatvecScratch scratch;
  EXPECT_TRUE(w8a8_matvec({}, {}, 0, 2, x, {}, scratch).ok());
  EXPECT_EQ(scratch.codes, (Codes{64, 127}));
}

TEST(Int8Matvec, OneScaleOrOnePerRow) {
  const Codes codes = {1, -2, 3, 4, 0, -6};
  const std::vector<float> x = {0.5f, 1, 2};
  std::vector<float> y(2);
  ASSERT_TRUE(int8_matvec(codes, std::vector<float>{2.0f}, 2, 3, x, y).ok());
  EXPECT_EQ(y, (std::vector<float>{9, -20}));
  ASSERT_TRUE(int8_matvec(codes, std::vector<float>{2.0f, 0.5f}, 2, 3, x, y).ok());
  EXPECT_EQ(y, (std::vector<float>{9, -5}));
  EXPECT_EQ(int8_matvec(codes, std::vector<float>(3), 2, 3, x, y).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(int8_matvec(codes, {}, 2, 3, x, y).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(int8_matvec(codes, std::vector<float>{2.0f}, 2, 3, std::span(x).first(2), y)
                .message(),
            "matvec: 2 values of x, expected 3");
}

TEST(Matvec, DoesNotDependOnTheNumberOfThreads) {
  std::mt19937 random(1);
  constexpr std::int64_t kRows = 1000, kCols = 300;
  Codes weight(kRows * kCols);
  for (std::int8_t& code : weight) code = static_cast<std::int8_t>(random());
  std::vector<float> scales(kRows), x(kCols);
  for (float& s : scales) s = static_cast<float>(random() % 100) / 100;
  for (float& v : x) v = static_cast<float>(random() % 2000) / 1000 - 1;
  std::vector<float> y[2], z[2];
  MatvecScratch scratch;
  for (int i = 0; i < 2; ++i) {
    const ThreadLimit limit(i == 0 ? 1 : 4);
    y[i].resize(kRows);
    z[i].resize(kRows);
    ASSERT_TRUE(w8a8_matvec(weight, scales, kRows, kCols, x, y[i], scratch).ok());
    ASSERT_TRUE(int8_matvec(weight, scales, kRows, kCols, x, z[i]).ok());
  }
  EXPECT_EQ(y[0], y[1]);
  EXPECT_EQ(z[0], z[1]);
}

TEST(Cpu, ActiveIsaIsAvailable) {
  const Result<std::string> active = active_isa();
  ASSERT_TRUE(active.has_value()) << active.status().message();
  const std::vector<std::string> all = available_isas();
  EXPECT_NE(std::find(all.begin(), all.end(), *active), all.end());
}

}  // namespace
}  // namespace pith
