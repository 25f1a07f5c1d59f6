#include "src/kernels/mask.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "src/kernels/select.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kSizes[] = {0,  1,  7,  8,  9,   15,  16,  17,   31,   32,
                                   33, 63, 64, 65, 127, 128, 129, 1000, 4096, 100001};

// Zeros of both signs, subnormals, infinities, NaN, ties, and numbers.
std::vector<float> some_values(std::int64_t n, std::uint64_t state) {
  constexpr float kSpecial[] = {0.0f,
                                -0.0f,
                                1.0f,
                                -1.0f,
                                1e-45f,
                                -1e-40f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(state >> 63 == 0
                         ? kSpecial[state >> 40 & 7]
                         : static_cast<float>(state >> 32 & 0xffff) / 32768.0f - 1);
  }
  return values;
}

template <typename Test>
void on_every_target(const Test& test) {
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    SCOPED_TRACE(target);
    for (const std::int64_t n : kSizes) {
      for (const std::int64_t offset : {0, 1, 3}) {
        std::vector<float> values =
            some_values(n + offset, static_cast<std::uint64_t>(n));
        SCOPED_TRACE(testing::Message() << "n " << n << " offset " << offset);
        test(std::vector<float>(values), values.data() + offset, n, offset);
      }
    }
  }
  ASSERT_TRUE(set_target("").ok());
}

bool same_bits(const float* a, const float* b, std::int64_t n) {
  return n == 0 || std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}

TEST(Mask, PruneUpToEqualsTheReference) {
  on_every_target(
      [](std::vector<float> copy, float* values, std::int64_t n, std::int64_t offset) {
        for (const std::uint32_t limit :
             {0u, 1u, std::bit_cast<std::uint32_t>(0.5f),
              std::bit_cast<std::uint32_t>(1.0f), kInfinityBits, kMagnitudeMask}) {
          std::vector<float> expected = copy;
          std::vector<float> plain(values, values + n);
          std::vector<float> masked(values, values + n);
          const auto bytes = static_cast<std::size_t>((n + 7) / 8);
          std::vector<std::uint8_t> expected_mask(bytes + 1, 0xab);
          std::vector<std::uint8_t> mask(bytes + 1, 0xab);
          float* const at = expected.data() + offset;
          const std::int64_t kept =
              reference_prune_up_to(at, n, limit, at, expected_mask.data());
          EXPECT_EQ(prune_up_to(values, n, limit, masked.data(), mask.data()), kept);
          EXPECT_EQ(prune_up_to(plain.data(), n, limit, plain.data(), nullptr), kept);
          EXPECT_TRUE(same_bits(masked.data(), expected.data() + offset, n));
          EXPECT_TRUE(same_bits(plain.data(), expected.data() + offset, n));
          EXPECT_EQ(mask, expected_mask);  // and the byte behind it
        }
      });
}

TEST(Mask, ApplyMaskEqualsTheReference) {
  on_every_target(
      [](std::vector<float> copy, float* values, std::int64_t n, std::int64_t offset) {
        std::vector<std::uint8_t> mask(static_cast<std::size_t>((n + 7) / 8));
        for (std::size_t i = 0; i < mask.size(); ++i) {
          mask[i] = static_cast<std::uint8_t>(i * 0x9d + 0x35);
        }
        const std::int64_t nonzero =
            reference_apply_mask(copy.data() + offset, n, mask.data());
        EXPECT_EQ(apply_mask(values, n, mask.data()), nonzero);
        EXPECT_TRUE(same_bits(values, copy.data() + offset, n));
      });
}

TEST(Mask, CountsEqualTheReference) {
  on_every_target(
      [](const std::vector<float>&, const float* values, std::int64_t n, std::int64_t) {
        EXPECT_EQ(count_nonzero(values, n), reference_count_nonzero(values, n));
        for (const std::uint32_t bits : {0u, std::bit_cast<std::uint32_t>(1.0f), 1u}) {
          EXPECT_EQ(count_magnitude(values, n, bits),
                    reference_count_magnitude(values, n, bits));
        }
      });
}

TEST(Mask, LimitMagnitudeEqualsTheReference) {
  on_every_target([](std::vector<float> copy, float* values, std::int64_t n,
                     std::int64_t offset) {
    const std::int64_t limited = reference_limit_magnitude(copy.data() + offset, n, 0.5f);
    EXPECT_EQ(limit_magnitude(values, n, 0.5f), limited);
    EXPECT_TRUE(same_bits(values, copy.data() + offset, n));
  });
}

}  // namespace
}  // namespace pith::kernels
