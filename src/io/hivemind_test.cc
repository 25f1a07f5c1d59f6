#include "src/io/hivemind.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/byte_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::TempFolder;

void varint(ByteBuilder& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.u8((value & 0x7f) | 0x80);
  out.u8(value);
}

void field(ByteBuilder& out, std::uint64_t tag, std::string_view bytes) {
  varint(out, tag);
  varint(out, bytes.size());
  out.text(bytes);
}

struct Fields {
  std::string buffer;
  std::vector<std::uint64_t> size;
  std::string dtype = "float32";
  std::uint64_t compression = 0;
  std::uint64_t chunks = 0;
};

std::string message(const Fields& fields) {
  ByteBuilder out;
  field(out, 0x0a, fields.buffer);
  ByteBuilder size;
  for (const std::uint64_t extent : fields.size) varint(size, extent);
  field(out, 0x12, size.str());
  field(out, 0x22, fields.dtype);
  varint(out, 0x28);
  varint(out, fields.compression);
  if (fields.chunks != 0) {
    varint(out, 0x30);
    varint(out, fields.chunks);
  }
  return out.str();
}

// Codes are q - 128, so that values are easy to say.
ByteBuilder tables(std::int64_t maxima, std::uint64_t codes, std::size_t absmax) {
  ByteBuilder buffer;
  buffer.u64(static_cast<std::uint64_t>(maxima)).u64(codes);
  for (std::size_t i = 0; i < absmax; ++i) buffer.f32(static_cast<float>(i + 1));
  for (std::uint64_t i = 0; i < codes; ++i) buffer.f32(static_cast<float>(i) - 128.0F);
  return buffer;
}

Result<HivemindTensor> parse(const std::string& bytes) {
  return parse_hivemind(ByteReader(testing::bytes_of(bytes)),
                        ByteReader(testing::bytes_of(bytes)));
}

std::string refusal(const std::string& bytes) {
  const auto result = parse(bytes);
  return result ? "accepted" : result.error().message();
}

#define EXPECT_REFUSAL(bytes, part) \
  EXPECT_NE(refusal(bytes).find(part), std::string::npos) << refusal(bytes)

std::vector<float> values_of(const std::string& bytes) {
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("a.pb", bytes));
  EXPECT_TRUE(model) << model.error().message();
  return model ? testing::read_values(**model, 0) : std::vector<float>();
}

TEST(Hivemind, Samples) { testing::check_samples("hivemind"); }

TEST(Hivemind, BlocksAreFlat) {
  // Two rows of 2500: the second block begins in row 1.
  ByteBuilder buffer = tables(2, 256, 2);
  for (int i = 0; i < 5000; ++i) buffer.u8(129);
  const std::vector<float> values =
      values_of(message({.buffer = buffer.str(), .size = {2, 2500}, .compression = 5}));
  ASSERT_EQ(values.size(), 5000u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], i < 4096 ? 1.0F : 2.0F) << i;
  }
}

TEST(Hivemind, UniformAndQuantileHaveNoMaxima) {
  ByteBuilder buffer;
  buffer.u64(256);
  for (int i = 0; i < 256; ++i) buffer.f32(static_cast<float>(i) / 4);
  buffer.u8(4).u8(255);
  for (const std::uint64_t compression : {3u, 4u}) {
    EXPECT_EQ(values_of(message({buffer.str(), {2}, "float32", compression, 0})),
              (std::vector<float>{1, 63.75}));
  }
}

TEST(Hivemind, PlainNumbers) {
  EXPECT_EQ(values_of(message({ByteBuilder().f32(1).f32(-2).str(), {2}})),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(values_of(message({ByteBuilder().u16(0x3c00).str(), {1}, "float32", 2})),
            (std::vector<float>{1}));
  EXPECT_EQ(values_of(message({ByteBuilder().u16(0x3f80).str(), {1}, "bfloat16"})),
            (std::vector<float>{1}));
  EXPECT_EQ(values_of(message({ByteBuilder().f32(3).str(), {1}, "bfloat16"})),
            (std::vector<float>{3}));
  EXPECT_EQ(values_of(message({ByteBuilder().f32(3).str(), {}})),
            (std::vector<float>{3}));
}

TEST(Hivemind, SizesMustAgree) {
  EXPECT_REFUSAL(message({ByteBuilder().f32(1).str(), {2}}), "a buffer of 4 bytes");
  const auto blockwise = [](ByteBuilder buffer, std::vector<std::uint64_t> size) {
    return message({buffer.str(), std::move(size), "float32", 5, 0});
  };
  EXPECT_REFUSAL(blockwise(tables(-1, 256, 1).zeros(7), {7}), "-1 block maxima");
  EXPECT_REFUSAL(blockwise(tables(2, 256, 2).zeros(7), {7}), "2 block maxima");
  EXPECT_REFUSAL(blockwise(tables(1, 255, 1).zeros(7), {7}), "255 codes, expected 256");
  EXPECT_REFUSAL(blockwise(tables(1, 256, 1).zeros(6), {7}),
                 "elements with their tables");
  EXPECT_REFUSAL(blockwise(tables(1, 256, 1).zeros(8), {7}),
                 "elements with their tables");
  EXPECT_EQ(refusal(blockwise(tables(1, 256, 1).zeros(7), {7})), "accepted");
  EXPECT_REFUSAL(blockwise(ByteBuilder().zeros(15), {7}), "no room for its tables");
  EXPECT_REFUSAL(blockwise(ByteBuilder().u64(1).f32(NAN).zeros(2000), {7}), "codes");
}

TEST(Hivemind, TablesMustBeFinite) {
  ByteBuilder buffer;
  buffer.u64(1).u64(256).f32(INFINITY).zeros(1024).u8(0);
  EXPECT_REFUSAL(message({buffer.str(), {1}, "float32", 5, 0}),
                 "block maxima has a value that is not finite");
}

TEST(Hivemind, ShapesThatOverflow) {
  EXPECT_REFUSAL(message({"", {UINT32_MAX, UINT32_MAX, UINT32_MAX}}), "exceeds 2^63-1");
  EXPECT_REFUSAL(message({"", {std::uint64_t{1} << 32}}), "exceeds 2^32-1");
  EXPECT_REFUSAL(message({"", {UINT32_MAX, UINT32_MAX / 4}}), "a buffer of 0 bytes");
}

TEST(Hivemind, MessagesThatBreakTheFormat) {
  EXPECT_REFUSAL("", "no field 'dtype'");
  EXPECT_REFUSAL("\x0a\x7f", "field of 127 items");
  EXPECT_REFUSAL("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                 "field of 18446744073709551615");
  EXPECT_REFUSAL("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "more than 64 bits");
  EXPECT_REFUSAL(std::string("\x0b\x00", 2), "field 1 of wire type 3");
  EXPECT_REFUSAL("\x3b", "wire type 3");
  EXPECT_REFUSAL("\x12\x01\x80", "size");
  const std::string good = message({ByteBuilder().f32(1).str(), {1}});
  EXPECT_REFUSAL(good + std::string("\x0a\x00", 2), "field 'buffer' is there twice");
  EXPECT_REFUSAL(good + "\x22\x01x", "field 'dtype' is there twice");
  EXPECT_REFUSAL(good + std::string("\x28\x00", 2), "field 'compression' is there twice");
  EXPECT_REFUSAL(message({"", {0}, "float128"}), "dtype 'float128' is not known");
  EXPECT_REFUSAL(message({"", {0}, "float32", 1}), "compression 1, expected");
  EXPECT_REFUSAL(message({"", {0}, "float32", 6}), "compression 6, expected");
  EXPECT_REFUSAL(message({"", {0}, "float32", 0, 3}), "the first of 3 parts");
  EXPECT_REFUSAL(message({"", std::vector<std::uint64_t>(65, 1)}),
                 "more than 64 dimensions");
}

TEST(Hivemind, UnknownFieldsGiveAWarning) {
  ByteBuilder more;
  more.text(message({ByteBuilder().f32(1).str(), {1}}));
  more.u8(0x78).u8(1).u8(0x7a).u8(2).text("ab").u8(0x7d).u32(0).u8(0x79).u64(0);
  const auto result = parse(more.str());
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->warnings.size(), 1u);
  EXPECT_TRUE(parse(message({ByteBuilder().f32(1).str(), {1}}))->warnings.empty());
}

}  // namespace
}  // namespace pith
