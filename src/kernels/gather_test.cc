#include "src/kernels/gather.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

template <typename T>
void expect_gathered(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> in(static_cast<std::size_t>(n));
  std::vector<std::uint8_t> mask(static_cast<std::size_t>((n + 7) / 8));
  for (T& value : in) value = static_cast<T>(random());
  // None, all, or some.
  for (std::uint8_t& bits : mask) {
    bits = static_cast<std::uint8_t>(seed == 0 ? 0 : seed == 1 ? 255 : random());
  }
  std::vector<T> expected;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if ((mask[i / 8] >> (i % 8) & 1) != 0) expected.push_back(in[i]);
  }
  std::vector<T> out(expected.size() + 8);
  const std::int64_t kept = gather(in.data(), mask.data(), n, out.data());
  ASSERT_EQ(kept, std::ssize(expected));
  out.resize(expected.size());
  EXPECT_EQ(out, expected);
}

TEST(Gather, KeepsWhatTheMaskSays) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    for (const std::int64_t n :
         {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4096}) {
      for (unsigned seed = 0; seed < 5; ++seed) {
        SCOPED_TRACE(target + " " + std::to_string(n));
        expect_gathered<std::uint8_t>(n, seed);
        expect_gathered<std::uint16_t>(n, seed);
        expect_gathered<std::uint32_t>(n, seed);
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

}  // namespace
}  // namespace pith::kernels
