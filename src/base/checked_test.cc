#include "src/base/checked.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

TEST(CheckedSize, OverflowSticks) {
  const CheckedSize big(std::uint64_t{1} << 32);
  const CheckedSize wrapped = big * big;
  EXPECT_FALSE(wrapped.valid());
  EXPECT_FALSE((wrapped * 0).valid());
  EXPECT_FALSE(CheckedSize::array(std::uint64_t{1} << 61, 8).valid());
  EXPECT_EQ(CheckedSize::array(3, 8).value(), 24u);
  EXPECT_FALSE((CheckedSize(UINT64_MAX) + 1).valid());
  EXPECT_FALSE((CheckedSize(3) - 4).valid());
  EXPECT_FALSE(CheckedSize::from_signed(-1).valid());
}

TEST(CheckedSize, PlainArithmetic) {
  EXPECT_EQ((CheckedSize(6) * 7 + 1 - 3).value(), 40u);
  EXPECT_TRUE(CheckedSize(INT64_MAX).fits_int64());
  EXPECT_FALSE((CheckedSize(INT64_MAX) + 1).fits_int64());
}

TEST(CheckedSize, RoundUp) {
  EXPECT_EQ(CheckedSize(0).round_up(32).value(), 0u);
  EXPECT_EQ(CheckedSize(33).round_up(32).value(), 64u);
  EXPECT_FALSE(CheckedSize(UINT64_MAX).round_up(32).valid());
}

}  // namespace
}  // namespace pith
