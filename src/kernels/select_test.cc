#include "src/kernels/select.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

// Any bits but NaN, with many zeros, ties and subnormals.
std::vector<float> some_values(std::int64_t n, std::uint64_t seed,
                               std::uint32_t keep_bits) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::uint64_t state = seed;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::uint32_t bits = static_cast<std::uint32_t>(state >> 32) & keep_bits;
    if ((bits & kMagnitudeMask) > kInfinityBits) bits &= 0x807fffffu;  // a subnormal
    value = std::bit_cast<float>(bits);
  }
  return values;
}

constexpr std::uint32_t kAllBits = 0xffffffffu;
constexpr std::uint32_t kFewValues = 0xc1800000u;

void expect_reference_everywhere(const std::vector<float>& storage, std::int64_t offset) {
  const float* values = storage.data() + offset;
  const auto n = static_cast<std::int64_t>(storage.size()) - offset;
  for (const std::int64_t k : {std::int64_t{0}, n / 7, n / 2, n - 1 - n / 10, n - 1}) {
    if (k >= n || k < 0) continue;
    const MagnitudeRank expected = reference_select_magnitude(values, n, k);
    for (const std::string& target : available_targets()) {
      ASSERT_TRUE(set_target(target).ok());
      EXPECT_EQ(select_magnitude(values, n, k), expected)
          << target << " n " << n << " k " << k << " offset " << offset;
    }
    ASSERT_TRUE(set_target("").ok());
  }
}

TEST(Select, EveryTargetEqualsTheReferenceAtEverySize) {
  for (const std::int64_t n :
       {1,  2,   15,  16,  17,   31,   32,   33,   63,    64,
        65, 127, 128, 129, 1000, 4095, 4096, 4097, 70000, 300001}) {
    for (const std::uint32_t bits : {kAllBits, kFewValues}) {
      expect_reference_everywhere(
          some_values(n + 3, 7 + static_cast<std::uint64_t>(n), bits), n % 4);
    }
  }
}

TEST(Select, SortedConstantAndHalfZeroData) {
  const std::int64_t n = 200000;
  std::vector<float> rising(n);
  std::vector<float> falling(n);
  std::vector<float> half_zero(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    rising[at] = static_cast<float>(i) * 0.25f;
    falling[at] = -static_cast<float>(n - i);
    half_zero[at] = i % 2 == 0 ? -0.0f : static_cast<float>(i % 1000) + 1;
  }
  expect_reference_everywhere(rising, 0);
  expect_reference_everywhere(falling, 0);
  expect_reference_everywhere(half_zero, 0);
  expect_reference_everywhere(std::vector<float>(n, -1.5f), 0);
}

TEST(Select, NanRanksAboveInfinityAndIsReported) {
  std::vector<float> values(1000, std::bit_cast<float>(kInfinityBits));
  EXPECT_FALSE(select_magnitude(values.data(), 1000, 999).has_nan);
  EXPECT_EQ(first_nan(values.data(), 1000), -1);
  values[321] = std::bit_cast<float>(0xff800001u);
  const MagnitudeRank rank = select_magnitude(values.data(), 1000, 998);
  EXPECT_TRUE(rank.has_nan);
  EXPECT_EQ(rank.bits, kInfinityBits);
  EXPECT_EQ(rank.equal, 999);
  EXPECT_EQ(first_nan(values.data(), 1000), 321);
}

TEST(Select, SharesAreF32ProductsUpTo24BitsAndExactAbove) {
  EXPECT_EQ(share_floor(0.41f, 100), 41);  // exactly 40.9999996
  EXPECT_EQ(share_ceil(0.1f, 10), 1);      // exactly 1.00000001
  EXPECT_EQ(share_floor(0.75f, 16777219), 12582914);
  EXPECT_EQ(share_ceil(0.75f, 16777219), 12582915);
  EXPECT_EQ(share_floor(0.1f, std::int64_t{1} << 40), 109951164416);
  EXPECT_EQ(share_ceil(1e-45f, INT64_MAX), 1);
  EXPECT_EQ(share_floor(1.0f, INT64_MAX), INT64_MAX);
  EXPECT_EQ(share_ceil(0.0f, INT64_MAX), 0);
  EXPECT_EQ(percentile_rank(0.0f, 5), 0);
  EXPECT_EQ(percentile_rank(1.0f, 5), 4);
}

// Values in lines of equal ones defeat the estimate of how far a sample may be off; the
// wider tries and the histogram must still be exact.
TEST(Select, CorrelatedAndAdversarialDataIsExact) {
  const std::int64_t n = 1 << 18;
  std::vector<float> lines(n);
  std::vector<float> rare(n, 1.0f);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::uint32_t>(i / 4096);
    lines[static_cast<std::size_t>(i)] =
        static_cast<float>(row * 2654435761u >> 8) + static_cast<float>(i % 2);
  }
  rare[77777] = 0.5f;
  rare[5] = 2.0f;
  expect_reference_everywhere(lines, 0);
  expect_reference_everywhere(rare, 0);
}

TEST(Select, SeveralArraysAreOneAndThreadsDoNotMatter) {
  const std::vector<float> values = some_values(3000000, 5, kAllBits);
  const FloatSpan all(values);
  const FloatSpan parts[] = {all.subspan(0, 1), all.subspan(1, 0),
                             all.subspan(1, 1999999), all.subspan(2000000)};
  const MagnitudeRank expected =
      reference_select_magnitude(values.data(), 3000000, 1234567);
  EXPECT_EQ(select_magnitude(parts, 1234567), expected);
  const ThreadLimit limit(1);
  EXPECT_EQ(select_magnitude(parts, 1234567), expected);
  EXPECT_EQ(select_magnitude(values.data(), 3000000, 1234567), expected);
}

RC_GTEST_PROP(Select, HistogramInAnyChunksEqualsTheReference,
              (const std::vector<std::uint32_t>& bits, std::uint32_t at,
               std::uint32_t cut)) {
  RC_PRE(!bits.empty());
  std::vector<float> values;
  for (const std::uint32_t b : bits) values.push_back(std::bit_cast<float>(b));
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t k = at % n;
  const std::int64_t first = cut % (n + 1);
  MagnitudeHistogram histogram(k);
  int passes = 0;
  do {
    histogram.add(values.data() + first, n - first);
    histogram.add(values.data(), first);
    RC_ASSERT(histogram.seen() == n);
    ++passes;
  } while (histogram.next_pass());
  RC_ASSERT(passes == 2);
  const MagnitudeRank expected = reference_select_magnitude(values.data(), n, k);
  RC_ASSERT(histogram.result() == expected);
  RC_ASSERT(select_magnitude(values.data(), n, k) == expected);
}

// Runs of 64 neighbours, one from each part of the values.
std::vector<float> runs_of(const std::vector<float>& values) {
  std::vector<float> sample;
  const std::size_t stretch = values.size() / 256;
  for (std::size_t run = 0; run < 256; ++run) {
    const std::size_t at = run * stretch + run * 7919 % (stretch - 64);
    sample.insert(sample.end(), values.begin() + static_cast<std::ptrdiff_t>(at),
                  values.begin() + static_cast<std::ptrdiff_t>(at) + 64);
  }
  return sample;
}

// Passes that a histogram needs after a preview; its result must be that of the reference.
int passes_after(const std::vector<float>& sample, const std::vector<float>& values,
                 std::int64_t k) {
  const auto n = static_cast<std::int64_t>(values.size());
  MagnitudeHistogram histogram(k);
  histogram.preview(sample, 64, n);
  int passes = 0;
  do {
    for (std::int64_t at = 0; at < n; at += 100000) {
      histogram.add(values.data() + at, std::min<std::int64_t>(100000, n - at));
    }
    EXPECT_EQ(histogram.seen(), n);
    ++passes;
  } while (histogram.next_pass());
  EXPECT_EQ(histogram.result(), reference_select_magnitude(values.data(), n, k));
  return passes;
}

TEST(Select, APreviewSavesAPass) {
  const std::int64_t n = 1 << 20;
  std::vector<float> values(n);
  std::vector<float> rows(n);  // whose sizes differ
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    values[at] = normal(random);
    rows[at] = normal(random) * std::exp(0.3F * static_cast<float>(i / 4096 % 7));
  }
  std::vector<float> ties(n, 0.5F);
  std::fill(ties.begin() + n / 3, ties.end(), -2.0F);
  for (const std::int64_t k : {std::int64_t{0}, n / 100, n / 2, n * 9 / 10, n - 1}) {
    SCOPED_TRACE(k);
    EXPECT_EQ(passes_after(runs_of(values), values, k), 1);
    EXPECT_EQ(passes_after(runs_of(rows), rows, k), 1);
    EXPECT_EQ(passes_after(runs_of(ties), ties, k), 1);
  }
}

TEST(Select, APreviewThatMisleadsCostsAPassOnly) {
  std::vector<float> values(1 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  values[12345] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> beginning(values.begin(), values.begin() + 16384);
  EXPECT_EQ(passes_after(beginning, values, 1 << 19), 3);
  EXPECT_EQ(passes_after({}, values, 1 << 19), 2);
  // More values in the bracket than are collected.
  std::vector<float> many(std::size_t{5} << 20);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = 49.0F + 2.0F * static_cast<float>(i * 7919 % many.size()) /
                          static_cast<float>(many.size());
  }
  std::vector<float> wide(16384);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i) / 163.84F;
  EXPECT_EQ(passes_after(wide, many, std::ssize(many) / 2), 3);
  // Ties tell nothing of what lies above them.
  std::fill(values.begin(), values.end(), 2.0F);
  std::fill(values.begin(), values.begin() + (1 << 19), 1.0F);
  EXPECT_EQ(passes_after(std::vector<float>(16384, 1.0F), values, 3 << 18), 1);
}

}  // namespace
}  // namespace pith::kernels
