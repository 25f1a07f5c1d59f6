#include "src/kernels/select_pass.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "src/kernels/select.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(SelectPass, EveryTargetEqualsTheReference) {
  for (const std::int64_t n :
       {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4096, 10001}) {
    std::vector<float> storage;
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < n + 1; ++i) {
      state = state * 1664525u + 1013904223u;
      storage.push_back(
          std::bit_cast<float>(state & (i % 3 == 0 ? 0xffc00000u : 0xffffffffu)));
    }
    for (const std::int64_t offset : {0, 1}) {
      const float* values = storage.data() + offset;
      for (const Bracket bracket :
           {Bracket{-1, INT32_MAX, true}, Bracket{0, 0, true},
            Bracket{0x3f800000, 0x40000000, false}, Bracket{0x3f800000, 0x40000000, true},
            Bracket{0x20000000, 0x60000000, true}}) {
        std::vector<float> expected_out(static_cast<std::size_t>(n));
        std::vector<float> out(static_cast<std::size_t>(n));
        const BracketCounts expected =
            reference_bracket_pass(values, n, bracket, expected_out.data());
        for (const std::string& target : available_targets()) {
          SCOPED_TRACE(testing::Message()
                       << target << " n " << n << " lo " << bracket.lo);
          ASSERT_TRUE(set_target(target).ok());
          const BracketCounts counts = bracket_pass(values, n, bracket, out.data());
          EXPECT_EQ(counts.up_to_lo, expected.up_to_lo);
          EXPECT_EQ(counts.equal_lo, expected.equal_lo);
          EXPECT_EQ(counts.equal_hi, expected.equal_hi);
          EXPECT_EQ(counts.largest, expected.largest);
          ASSERT_EQ(counts.inside, expected.inside);
          for (std::int64_t i = 0; i < counts.inside; ++i) {
            const auto at = static_cast<std::size_t>(i);
            EXPECT_EQ(bits_of(out[at]), bits_of(expected_out[at]));
          }
        }
        ASSERT_TRUE(set_target("").ok());
      }
    }
  }
}

}  // namespace
}  // namespace pith::kernels
