#include "pith/tensor/buffer.h"

#include <gtest/gtest.h>

#include <utility>

namespace pith {
namespace {

TEST(Buffer, IsAlignedAndMovable) {
  Buffer buffer(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  buffer.as<float>()[0] = 1.5f;
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.as<float>()[0], 1.5f);
  EXPECT_EQ(moved.as<float>().size(), 25u);
}

TEST(Buffer, EmptyHasNoBytes) {
  EXPECT_EQ(Buffer().size(), 0);
  EXPECT_TRUE(Buffer(0).bytes().empty());
}

}  // namespace
}  // namespace pith
