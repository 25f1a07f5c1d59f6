#include "pith/prune/mask.h"
#include "tests/support/values.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace pith {
namespace {

using testing::shape_of;

TEST(BitMask, RowsBeginAtBytesLowestBitFirst) {
  BitMask mask(shape_of({2, 10}), false);
  EXPECT_EQ(mask.row_bytes(), 2);
  mask.set(0, 1, true);
  mask.set(1, 8, true);
  const std::vector<std::byte> expected = {std::byte{2}, std::byte{0}, std::byte{0},
                                           std::byte{1}};
  EXPECT_TRUE(std::equal(mask.bytes().begin(), mask.bytes().end(), expected.begin()));
  EXPECT_TRUE(mask.kept(11 + 7));
  EXPECT_EQ(mask.count(), 2);
  mask.set(0, 1, false);
  EXPECT_EQ(mask.count(), 1);
}

TEST(BitMask, AllKeptLeavesUnusedBitsZero) {
  const BitMask mask(shape_of({3, 11}));
  EXPECT_EQ(mask.count(), 33);
  EXPECT_EQ(mask.row(2).back(), std::byte{7});
  EXPECT_EQ(BitMask(shape_of({5, 0})).bytes().size(), 0u);
  EXPECT_EQ(BitMask(shape_of({})).count(), 1);
}

TEST(BitMask, BytesOfWrongSizeOrWithStrayBitsAreRefused) {
  const std::vector<std::byte> bytes(4, std::byte{3});
  EXPECT_TRUE(BitMask::from_bytes(shape_of({2, 10}), bytes).has_value());
  EXPECT_EQ(
      BitMask::from_bytes(shape_of({2, 17}), bytes).error().message(),
      "mask of shape [2, 17]: 4 bytes given, expected 6: 3 for each row of 17 columns");
  EXPECT_EQ(BitMask::from_bytes(shape_of({2, 9}), bytes).error().message(),
            "mask of shape [2, 9]: row 0 has a bit set behind its last column 8");
}

RC_GTEST_PROP(BitMask, AppliesAndComesBackFromItsBytes, ()) {
  const Shape shape = shape_of({*rc::gen::inRange(0, 9), *rc::gen::inRange(1, 40)});
  BitMask mask(shape);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), 2.5f);
  std::vector<float> expected = values;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    if (*rc::gen::arbitrary<bool>()) continue;
    mask.set(i / shape.cols(), i % shape.cols(), false);
    expected[static_cast<std::size_t>(i)] = 0.0f;
  }
  RC_ASSERT(BitMask::from_bytes(shape, mask.bytes()).value() == mask);
  RC_ASSERT(apply_mask(values, mask).ok());
  RC_ASSERT(values == expected);
  values.push_back(1.0f);
  RC_ASSERT(!apply_mask(values, mask).ok());
}

}  // namespace
}  // namespace pith
