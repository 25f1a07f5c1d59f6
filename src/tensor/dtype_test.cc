#include "pith/tensor/dtype.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

TEST(DType, NamesReadBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_from_string("f128"));
}

TEST(DType, Bits) {
  EXPECT_EQ(bits_of(DType::kI4), 4);
  EXPECT_EQ(bits_of(DType::kF6E2M3), 6);
  EXPECT_EQ(bits_of(DType::kBool), 8);
  EXPECT_EQ(bits_of(DType::kBF16), 16);
  EXPECT_EQ(bits_of(DType::kF32), 32);
  EXPECT_EQ(bits_of(DType::kC64), 64);
}

}  // namespace
}  // namespace pith
