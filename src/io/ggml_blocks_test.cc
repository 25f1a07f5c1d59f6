#include "src/io/ggml_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "pith/tensor/half.h"

namespace pith {
namespace {

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 3) {
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> decode(std::string_view type_name,
                          const std::vector<std::byte>& bytes) {
  const GgmlType* type = find_ggml_type(type_name);
  const std::size_t blocks =
      bytes.size() / static_cast<std::size_t>(type->encoding.block_bytes);
  std::vector<float> out(blocks * static_cast<std::size_t>(type->encoding.block), NAN);
  EXPECT_FALSE(decode_blocks(*type, bytes, out).has_value());
  return out;
}

// The blocks that the format's own quantizers make of x_j = j - 16.
TEST(GgmlBlocks, GoldenQ8_0) {
  const auto bytes = from_hex(
      "08 30 81 89 91 99 a1 a9 b1 b9 c0 c8 d0 d8 e0 e8 f0 f8 00 08 10 18 20 28 30 38 40 "
      "47 "
      "4f 57 5f 67 6f 77");
  const std::vector<float> values = decode("Q8_0", bytes);
  EXPECT_EQ(values[0], f16_to_f32(0x3008) * -127.0F);
  EXPECT_EQ(values[16], 0.0F);
  EXPECT_EQ(values[31], f16_to_f32(0x3008) * 119.0F);
  for (int j = 0; j < 32; ++j)
    EXPECT_NEAR(values[static_cast<std::size_t>(j)], j - 16, 0.07);
}

TEST(GgmlBlocks, GoldenQ4_0) {
  const std::vector<float> values =
      decode("Q4_0", from_hex("00 40 80 91 91 a2 a2 b3 b3 c4 c4 d5 d5 e6 e6 f7 f7 f8"));
  const std::vector<float> expected = {-16, -14, -14, -12, -12, -10, -10, -8, -8, -6, -6,
                                       -4,  -4,  -2,  -2,  0,   0,   2,   2,  4,  4,  6,
                                       6,   8,   8,   10,  10,  12,  12,  14, 14, 14};
  EXPECT_EQ(values, expected);
}

TEST(GgmlBlocks, GoldenQ4_1) {
  const std::vector<float> values = decode(
      "Q4_1", from_hex("22 40 00 cc 80 80 91 91 a2 a2 b3 b3 c4 c4 d5 d5 e6 e6 f7 f7"));
  for (int j = 0; j < 32; ++j) {
    EXPECT_EQ(values[static_cast<std::size_t>(j)],
              f16_to_f32(0x4022) * static_cast<float>(j / 2) - 16.0F);
  }
}

TEST(GgmlBlocks, GoldenQ5_0) {
  const std::vector<float> values = decode(
      "Q5_0",
      from_hex("00 3c 00 00 ff ff 00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff"));
  for (int j = 0; j < 32; ++j) EXPECT_EQ(values[static_cast<std::size_t>(j)], j - 16);
}

// Q5_1 with d = 0.5, m = -3: element j has the code j.
TEST(GgmlBlocks, Q5_1HasAMinimum) {
  const std::vector<float> values = decode(
      "Q5_1",
      from_hex(
          "00 38 00 c2 00 00 ff ff 00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff"));
  for (int j = 0; j < 32; ++j) {
    EXPECT_EQ(values[static_cast<std::size_t>(j)], 0.5F * static_cast<float>(j) - 3.0F);
  }
}

// Sub-block s has scale s + 1 (up to 8) and minimum 60 - s, so that all six bits of both
// halves of the table matter.
TEST(GgmlBlocks, Q4_KUnpacksSixBitScales) {
  std::vector<std::byte> block(144);
  const auto put = [&](std::size_t at, unsigned value) {
    block[at] = static_cast<std::byte>(value);
  };
  put(1, 0x3c);  // d = 1
  put(3, 0x38);  // dmin = 0.5
  std::vector<unsigned> scale(8);
  std::vector<unsigned> minimum(8);
  for (unsigned s = 0; s < 8; ++s) {
    scale[s] = 5 + 7 * s;
    minimum[s] = 60 - 7 * s;
  }
  for (unsigned j = 0; j < 4; ++j) {
    put(4 + j, scale[j] | (scale[j + 4] >> 4) << 6);
    put(8 + j, minimum[j] | (minimum[j + 4] >> 4) << 6);
    put(12 + j, (scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4);
  }
  for (unsigned i = 0; i < 128; ++i) put(16 + i, (i % 16) | (15 - i % 16) << 4);
  const std::vector<float> values = decode("Q4_K", block);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned s = i / 32;
    const unsigned low = i % 32 % 16;
    const unsigned q = s % 2 == 0 ? low : 15 - low;
    EXPECT_EQ(values[i], static_cast<float>(scale[s]) * static_cast<float>(q) -
                             0.5F * static_cast<float>(minimum[s]))
        << i;
  }
}

TEST(GgmlBlocks, Q6_KPlacesItsBits) {
  // Element i holds the code i % 64; scales run from -8 to 7.
  std::vector<unsigned> bytes(210);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned n = i / 128;
    const unsigned k = i % 128 / 32;
    const unsigned l = i % 32;
    const unsigned q = i % 64;
    bytes[64 * n + 32 * (k & 1) + l] |= (q & 15) << (k < 2 ? 0 : 4);
    bytes[128 + 32 * n + l] |= (q >> 4) << (2 * k);
  }
  for (unsigned s = 0; s < 16; ++s) bytes[192 + s] = (s - 8) & 255;
  bytes[209] = 0x40;  // d = 2
  std::vector<std::byte> block(210);
  std::transform(bytes.begin(), bytes.end(), block.begin(),
                 [](unsigned b) { return static_cast<std::byte>(b); });
  const std::vector<float> values = decode("Q6_K", block);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)],
              2.0F * static_cast<float>(i / 16 - 8) * static_cast<float>(i % 64 - 32))
        << i;
  }
}

TEST(GgmlBlocks, NonFiniteScalesAreFound) {
  struct Case {
    std::string_view type;
    std::vector<std::size_t> halves;  // where the high bytes of its f16 fields are
  };
  const std::vector<Case> cases = {{"Q8_0", {1}},  {"Q4_0", {1}},    {"Q4_1", {1, 3}},
                                   {"Q5_0", {1}},  {"Q5_1", {1, 3}}, {"Q4_K", {1, 3}},
                                   {"Q6_K", {209}}};
  for (const Case& c : cases) {
    const GgmlType* type = find_ggml_type(c.type);
    const auto bytes = static_cast<std::size_t>(type->encoding.block_bytes);
    for (const std::size_t half : c.halves) {
      for (const unsigned high : {0x7cu, 0xfcu, 0x7eu}) {  // +inf, -inf, NaN
        std::vector<std::byte> blocks(3 * bytes);
        blocks[2 * bytes + half] = static_cast<std::byte>(high);
        std::vector<float> out(3 * static_cast<std::size_t>(type->encoding.block));
        EXPECT_EQ(decode_blocks(*type, blocks, out), 2) << c.type;
      }
    }
  }
}

TEST(GgmlBlocks, TableIsSortedAndNamesAreUnique) {
  std::set<std::string_view> names;
  std::int64_t last = -1;
  for (const GgmlType& type : ggml_types()) {
    EXPECT_GT(static_cast<std::int64_t>(type.id), last);
    last = type.id;
    EXPECT_TRUE(names.insert(type.encoding.name).second) << type.encoding.name;
    EXPECT_EQ(find_ggml_type(type.id), &type);
    EXPECT_EQ(find_ggml_type(type.encoding.name), &type);
    if (type.encoding.dtype) {
      EXPECT_EQ(type.encoding.block_bytes * 8, bits_of(*type.encoding.dtype));
    }
  }
  EXPECT_EQ(names.size(), 35u);
  for (const std::uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, ~0u}) {
    EXPECT_EQ(find_ggml_type(removed), nullptr) << removed;
  }
}

}  // namespace
}  // namespace pith
