#include "pith/quantize/convert.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "pith/base/threads.h"

namespace pith {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
TensorView view(DType dtype, const std::vector<T>& values) {
  return TensorView::make(dtype,
                          Shape::make({static_cast<std::int64_t>(values.size())}).value(),
                          std::as_bytes(std::span(values)), "w")
      .value();
}

template <typename Out, typename In>
std::vector<Out> converted(DType from, const std::vector<In>& values, DType to,
                           ConvertCounts* counts = nullptr,
                           Overflow overflow = Overflow::kSaturate) {
  std::vector<Out> out(values.size());
  const Result<ConvertCounts> result =
      convert(view(from, values), to, std::as_writable_bytes(std::span(out)), overflow);
  EXPECT_TRUE(result.has_value()) << result.status().message();
  if (counts != nullptr && result) *counts = *result;
  return out;
}

TEST(Convert, CountsWhatDoesNotFit) {
  std::vector<float> values(700000, 1.5f);
  values[3] = -65504;
  values[600001] = 65520;
  values[600002] = -1e10f;
  values[5] = kNan;
  values[699999] = -kInfinity;
  ConvertCounts counts;
  const auto half = converted<std::uint16_t>(DType::kF32, values, DType::kF16, &counts);
  EXPECT_EQ(counts, (ConvertCounts{2, 600001, 1, 1, 5}));
  EXPECT_EQ(half[600001], 0x7c00);
  EXPECT_EQ(half[600002], 0xfc00);
  EXPECT_EQ(half[3], 0xfbff);
  EXPECT_EQ(half[699999], 0xfc00);
  EXPECT_EQ(half[699998], 0x3e00);
  converted<std::uint16_t>(DType::kF32, values, DType::kBF16, &counts);
  EXPECT_EQ(counts, (ConvertCounts{0, -1, 1, 1, 5}));
}

TEST(Convert, EightBitsSaturateUnlessAskedNotTo) {
  const std::vector<float> values = {500, -1e30f, 448, 464, kInfinity, kNan};
  ConvertCounts counts;
  EXPECT_EQ(converted<std::uint8_t>(DType::kF32, values, DType::kF8E4M3, &counts),
            (std::vector<std::uint8_t>{0x7e, 0xfe, 0x7e, 0x7e, 0x7e, 0x7f}));
  EXPECT_EQ(counts, (ConvertCounts{2, 0, 1, 1, 4}));
  EXPECT_EQ(converted<std::uint8_t>(DType::kF32, values, DType::kF8E4M3, &counts,
                                    Overflow::kInfinity),
            (std::vector<std::uint8_t>{0x7f, 0xff, 0x7e, 0x7e, 0x7f, 0x7f}));
  EXPECT_EQ(counts, (ConvertCounts{2, 0, 1, 1, 4}));
}

TEST(Convert, F64IsRoundedOnce) {
  const double above = 1 + std::exp2(-11) + std::exp2(-40);
  EXPECT_EQ(
      converted<std::uint16_t>(DType::kF64, std::vector<double>{above}, DType::kF16),
      std::vector<std::uint16_t>{0x3c01});
  // 1.0625 is a tie of f8e4m3.
  const double near_tie = 1.0625 + std::exp2(-40);
  EXPECT_EQ(
      converted<std::uint8_t>(DType::kF64, std::vector<double>{near_tie}, DType::kF8E4M3),
      std::vector<std::uint8_t>{0x39});
}

TEST(Convert, LargeF64OverflowsF32FromHalfAStepOn) {
  const double border = 0x1.ffffffp127;
  const std::vector<double> values = {std::nextafter(border, 0), border, -1e300,
                                      std::numeric_limits<double>::infinity()};
  ConvertCounts counts;
  const auto f32 = converted<float>(DType::kF64, values, DType::kF32, &counts);
  EXPECT_EQ(f32, (std::vector<float>{std::numeric_limits<float>::max(), kInfinity,
                                     -kInfinity, kInfinity}));
  EXPECT_EQ(counts, (ConvertCounts{2, 1, 1, 0, 3}));
}

TEST(Convert, WholeNumbersOf64BitsAreRoundedOnce) {
  // Just above a tie of bfloat16, which f32 rounds to the tie.
  const std::vector<std::int64_t> values = {(std::int64_t{0x101} << 40) + 1, -7};
  EXPECT_EQ(converted<std::uint16_t>(DType::kI64, values, DType::kBF16),
            (std::vector<std::uint16_t>{0x5781, 0xc0e0}));
}

TEST(Convert, SameTypeIsCopied) {
  const std::vector<std::uint16_t> signaling = {0x7c01, 0x3c00, 0xfc00};
  ConvertCounts counts;
  EXPECT_EQ(converted<std::uint16_t>(DType::kF16, signaling, DType::kF16, &counts),
            signaling);
  EXPECT_EQ(counts, (ConvertCounts{0, -1, 1, 1, 0}));
}

TEST(Convert, WrongSizesAndTypesAreRefused) {
  const std::vector<float> values(4);
  std::vector<std::byte> out(7);
  const Result<ConvertCounts> size = convert(view(DType::kF32, values), DType::kF16, out);
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(size.error().message().find("7 bytes, expected 8"), std::string::npos);
  const Result<ConvertCounts> type = convert(view(DType::kF32, values), DType::kI8, out);
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().code(), StatusCode::kUnsupported);
}

RC_GTEST_PROP(Convert, ValuesAndCountsAreThoseOfTheDefinition,
              (std::vector<std::uint32_t> bits)) {
  std::vector<float> values(bits.size());
  if (!bits.empty()) std::memcpy(values.data(), bits.data(), bits.size() * 4);
  ConvertCounts counts;
  const auto half = converted<std::uint16_t>(DType::kF32, values, DType::kF16, &counts);
  ConvertCounts expected;
  for (std::size_t i = 0; i < values.size(); ++i) {
    RC_ASSERT(half[i] == f32_to_f16(values[i]));
    const auto index = static_cast<std::int64_t>(i);
    if (!std::isfinite(values[i])) {
      ++(std::isnan(values[i]) ? expected.nan : expected.infinite);
      if (expected.first_not_finite < 0) expected.first_not_finite = index;
    } else if (std::isinf(f16_to_f32(half[i]))) {
      ++expected.overflowed;
      if (expected.first_overflowed < 0) expected.first_overflowed = index;
    }
  }
  RC_ASSERT(counts == expected);
}

// Large enough for several pieces and for streaming stores.
TEST(Convert, ThreadsDoNotChangeTheResult) {
  std::vector<float> values(5000003);
  std::uint32_t seed = 1;
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    std::memcpy(&value, &seed, 4);
  }
  ConvertCounts with_many;
  const auto many =
      converted<std::uint16_t>(DType::kF32, values, DType::kBF16, &with_many);
  const ThreadLimit limit(1);
  ConvertCounts with_one;
  const auto one = converted<std::uint16_t>(DType::kF32, values, DType::kBF16, &with_one);
  EXPECT_EQ(one, many);
  EXPECT_EQ(with_one, with_many);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(one[i], f32_to_bf16(values[i])) << i;
  }
}

}  // namespace
}  // namespace pith
