#include "src/io/plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/byte_builder.h"

namespace pith {
namespace {

using testing::ByteBuilder;

std::vector<float> decode(DType dtype, const ByteBuilder& bytes, std::size_t count) {
  std::vector<float> out(count);
  decode_plain(dtype, bytes.bytes(), out);
  return out;
}

TEST(Plain, Numbers) {
  using V = std::vector<float>;
  EXPECT_EQ(decode(DType::kBool, ByteBuilder().u8(0).u8(1), 2), (V{0, 1}));
  EXPECT_EQ(decode(DType::kU8, ByteBuilder().u8(255), 1), (V{255}));
  EXPECT_EQ(decode(DType::kI8, ByteBuilder().u8(0x80), 1), (V{-128}));
  EXPECT_EQ(decode(DType::kI16, ByteBuilder().u16(0xffff), 1), (V{-1}));
  EXPECT_EQ(decode(DType::kU16, ByteBuilder().u16(0xffff), 1), (V{65535}));
  EXPECT_EQ(decode(DType::kF16, ByteBuilder().u16(0x3c00), 1), (V{1}));
  EXPECT_EQ(decode(DType::kBF16, ByteBuilder().u16(0xbf80), 1), (V{-1}));
  EXPECT_EQ(decode(DType::kI32, ByteBuilder().u32(0xfffffffe), 1), (V{-2}));
  EXPECT_EQ(decode(DType::kU32, ByteBuilder().u32(0xffffffff), 1), (V{4294967296.0F}));
  EXPECT_EQ(decode(DType::kF32, ByteBuilder().f32(0.1F), 1), (V{0.1F}));
  EXPECT_EQ(decode(DType::kF64, ByteBuilder().f64(0.1), 1), (V{0.1F}));
  EXPECT_EQ(decode(DType::kI64, ByteBuilder().u64(UINT64_MAX), 1), (V{-1}));
  EXPECT_EQ(decode(DType::kU64, ByteBuilder().u64(UINT64_MAX), 1),
            (V{18446744073709551616.0F}));
  EXPECT_EQ(decode(DType::kI4, ByteBuilder().u8(0x8f).u8(0x07), 3), (V{-1, -8, 7}));
}

TEST(Plain, EightBitFloats) {
  using V = std::vector<float>;
  EXPECT_EQ(decode(DType::kF8E4M3, ByteBuilder().u8(0x38).u8(0x7e).u8(0x81), 3),
            (V{1, 448, -0.001953125F}));
  EXPECT_EQ(decode(DType::kF8E5M2, ByteBuilder().u8(0x3c).u8(0x7b), 2), (V{1, 57344}));
  EXPECT_EQ(decode(DType::kF8E4M3Fnuz, ByteBuilder().u8(0).u8(0x40).u8(0x7f).u8(0x81), 4),
            (V{0, 1, 240, -0.0009765625F}));
  EXPECT_EQ(decode(DType::kF8E5M2Fnuz, ByteBuilder().u8(0x40).u8(0x7f).u8(0x01), 3),
            (V{1, 57344, std::ldexp(1.0F, -17)}));
  EXPECT_TRUE(std::isnan(decode(DType::kF8E4M3Fnuz, ByteBuilder().u8(0x80), 1)[0]));
  EXPECT_TRUE(std::isnan(decode(DType::kF8E5M2Fnuz, ByteBuilder().u8(0x80), 1)[0]));
  EXPECT_EQ(decode(DType::kF8E8M0, ByteBuilder().u8(127).u8(0).u8(254), 3),
            (V{1, std::ldexp(1.0F, -127), std::ldexp(1.0F, 127)}));
  EXPECT_TRUE(std::isnan(decode(DType::kF8E8M0, ByteBuilder().u8(255), 1)[0]));
}

TEST(Plain, EveryTypeIsDecodedOrSaysSo) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Encoding encoding = plain_encoding(dtype, "x");
    EXPECT_EQ(encoding.block_bytes * 8, encoding.block * bits_of(dtype));
    EXPECT_EQ(encoding.decodable, is_decodable(dtype));
    if (is_decodable(dtype)) {
      const ByteBuilder zeros =
          ByteBuilder().zeros(static_cast<std::size_t>(4 * bits_of(dtype) / 8));
      EXPECT_EQ(decode(dtype, zeros, 4).size(), 4u);
    }
  }
  EXPECT_FALSE(is_decodable(DType::kF4));
  EXPECT_FALSE(is_decodable(DType::kC64));
}

}  // namespace
}  // namespace pith
