#include "src/kernels/n_m.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

TEST(MaskNM, EveryTargetEqualsTheReference) {
  for (const std::int64_t count :
       {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000}) {
    std::vector<float> values;
    std::uint32_t state = 99;
    for (std::int64_t i = 0; i <= count; ++i) {
      state = state * 1664525u + 1013904223u;
      // Few different magnitudes, so that ties are common; zeros of both signs among them.
      values.push_back(
          std::bit_cast<float>((state & 0x80000000u) | (state >> 28 & 3) << 23));
    }
    for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 16, 700}) {
      for (std::int64_t n = 1; n <= m; n += 1 + m / 10) {
        const auto bytes = static_cast<std::size_t>((count + 7) / 8);
        std::vector<std::uint8_t> expected(bytes + 1, 0xa5);
        const std::int64_t kept =
            reference_mask_n_m(values.data() + 1, count, n, m, expected.data());
        for (const std::string& target : available_targets()) {
          SCOPED_TRACE(testing::Message()
                       << target << " " << count << " " << n << ":" << m);
          ASSERT_TRUE(set_target(target).ok());
          std::vector<std::uint8_t> mask(bytes + 1, 0xa5);
          EXPECT_EQ(mask_n_m(values.data() + 1, count, n, m, mask.data()), kept);
          EXPECT_EQ(mask, expected);
        }
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

}  // namespace
}  // namespace pith::kernels
