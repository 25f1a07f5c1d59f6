#include "src/kernels/select_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "src/kernels/select.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

std::vector<std::uint32_t> sorted_bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  std::sort(bits.begin(), bits.end());
  return bits;
}

TEST(SelectPass, EveryTargetEqualsTheReference) {
  for (const std::int64_t n :
       {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1024}) {
    const std::int64_t stride = n + 5;
    std::vector<float> storage;
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < kBracketStreams * stride + 1; ++i) {
      state = state * 1664525u + 1013904223u;
      storage.push_back(
          std::bit_cast<float>(state & (i % 3 == 0 ? 0xffc00000u : 0xffffffffu)));
    }
    for (const int streams : {1, kBracketStreams}) {
      const BracketInput input{storage.data() + n % 2, n, stride, streams};
      for (const Bracket bracket :
           {Bracket{-1, INT32_MAX, true}, Bracket{0, 0, true},
            Bracket{0x3f800000, 0x40000000, false}, Bracket{0x3f800000, 0x40000000, true},
            Bracket{0x20000000, 0x60000000, true}}) {
        std::vector<float> expected_out(static_cast<std::size_t>(streams * n) + 1, -1.0f);
        const BracketCounts expected =
            reference_bracket_pass(input, bracket, expected_out.data());
        for (const std::string& target : available_targets()) {
          SCOPED_TRACE(testing::Message() << target << " n " << n << " streams "
                                          << streams << " lo " << bracket.lo);
          ASSERT_TRUE(set_target(target).ok());
          std::vector<float> out(static_cast<std::size_t>(streams * n) + 1, -1.0f);
          const BracketCounts counts = bracket_pass(input, bracket, out.data());
          EXPECT_EQ(counts.up_to_lo, expected.up_to_lo);
          EXPECT_EQ(counts.equal_lo, expected.equal_lo);
          EXPECT_EQ(counts.equal_hi, expected.equal_hi);
          EXPECT_EQ(counts.largest, expected.largest);
          ASSERT_EQ(counts.inside, expected.inside);
          EXPECT_EQ(sorted_bits(out), sorted_bits(expected_out));
        }
        ASSERT_TRUE(set_target("").ok());
      }
    }
  }
}

TEST(BracketPass, ARankOutsideIsNotGuessed) {
  const auto one = std::bit_cast<std::int32_t>(1.0F);
  const auto two = std::bit_cast<std::int32_t>(2.0F);
  const BracketCounts counts = {
      .up_to_lo = 5, .equal_lo = 3, .equal_hi = 4, .inside = 2, .largest = two};
  const std::vector<float> values = {1.25F, 1.5F};
  const FloatSpan inside[] = {FloatSpan(values)};
  const auto bits = [&](std::int64_t k) {
    const auto rank = rank_in({one, two, true}, counts, inside, k);
    return rank ? std::bit_cast<float>(rank->bits) : -1;
  };
  EXPECT_EQ(bits(1), -1);
  EXPECT_EQ(bits(2), 1);
  EXPECT_EQ(bits(4), 1);
  EXPECT_EQ(bits(5), 1.25F);
  EXPECT_EQ(bits(6), 1.5F);
  EXPECT_EQ(bits(7), 2);
  EXPECT_EQ(bits(10), 2);
  EXPECT_EQ(bits(11), -1);
  // Both ends are one value, which is counted once.
  const BracketCounts same = {
      .up_to_lo = 4, .equal_lo = 4, .equal_hi = 4, .inside = 0, .largest = two};
  EXPECT_TRUE(rank_in({one, one, true}, same, {}, 3));
  EXPECT_FALSE(rank_in({one, one, true}, same, {}, 4));
}

}  // namespace
}  // namespace pith::kernels
