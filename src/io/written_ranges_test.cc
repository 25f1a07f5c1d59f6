#include "src/io/written_ranges.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace pith {
namespace {

std::uint32_t crc_of(const std::string& text) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

TEST(WrittenRanges, NothingCoversNothing) {
  WrittenRanges written;
  EXPECT_TRUE(written.covers(0));
  EXPECT_FALSE(written.covers(1));
  EXPECT_TRUE(written.add(5, 0, 0));
  EXPECT_TRUE(written.covers(0));
}

TEST(WrittenRanges, BytesWrittenTwiceAreSeen) {
  WrittenRanges written;
  EXPECT_TRUE(written.add(10, 10, 0));
  EXPECT_FALSE(written.add(10, 10, 0));
  EXPECT_FALSE(written.add(19, 5, 0));
  EXPECT_FALSE(written.add(5, 6, 0));
  EXPECT_FALSE(written.add(0, 100, 0));
  EXPECT_FALSE(written.add(12, 2, 0));
  EXPECT_TRUE(written.add(0, 10, 0));
  EXPECT_TRUE(written.add(20, 1, 0));
  EXPECT_TRUE(written.covers(21));
}

TEST(WrittenRanges, TheFirstGapIsNamed) {
  WrittenRanges written;
  EXPECT_EQ(written.first_gap(), 0u);
  written.add(0, 4, 0);
  written.add(8, 4, 0);
  EXPECT_EQ(written.first_gap(), 4u);
  EXPECT_FALSE(written.covers(12));
  EXPECT_FALSE(written.covers(4));
}

RC_GTEST_PROP(WrittenRanges, ChecksumDoesNotDependOnTheOrder,
              (const std::vector<std::string>& pieces)) {
  std::string all;
  std::vector<std::size_t> begins;
  for (const std::string& piece : pieces) {
    begins.push_back(all.size());
    all += piece;
  }
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  WrittenRanges written;
  for (const std::size_t i : order) {
    RC_ASSERT(written.add(begins[i], pieces[i].size(), crc_of(pieces[i])));
  }
  RC_ASSERT(written.covers(all.size()));
  RC_ASSERT(written.crc() == crc_of(all));
}

}  // namespace
}  // namespace pith
