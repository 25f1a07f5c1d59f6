#include "src/io/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "pith/tensor/half.h"
#include "tests/support/byte_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::TempFolder;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ8_0 = 8;

ByteBuilder begin(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  ByteBuilder file;
  file.text("GGUF").u32(version).u64(tensors).u64(keys);
  return file;
}

ByteBuilder& tensor(ByteBuilder& file, std::string_view name,
                    std::vector<std::uint64_t> extents, std::uint32_t type,
                    std::uint64_t offset) {
  file.counted(name).u32(extents.size());
  for (const std::uint64_t extent : extents) file.u64(extent);
  return file.u32(type).u64(offset);
}

// One F32 tensor "w" of two elements: 1, -2.
ByteBuilder small_file() {
  ByteBuilder file = begin(1, 0);
  tensor(file, "w", {2}, kF32, 0).pad_to(32).f32(1).f32(-2).zeros(24);
  return file;
}

Result<GgufHeader> parse(const ByteBuilder& file) {
  return parse_gguf(ByteReader(file.bytes()));
}

std::string refusal(const ByteBuilder& file) {
  const Result<GgufHeader> header = parse(file);
  return header ? "accepted" : header.error().message();
}

#define EXPECT_REFUSAL(file, part) \
  EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file)

TEST(Gguf, Samples) { testing::check_samples("gguf"); }

TEST(Gguf, ReadsValuesFromAFile) {
  const TempFolder folder;
  const auto path = folder.write("a.gguf", small_file().str());
  const auto model = Checkpoint::open(path);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->format(), Format::kGguf);
  ASSERT_EQ((*model)->tensors().size(), 1u);
  EXPECT_EQ((*model)->tensors()[0].offset, 64u);
  EXPECT_EQ((*model)->tensors()[0].bytes, 8);
  EXPECT_EQ(testing::read_values(**model, 0), (std::vector<float>{1, -2}));
  EXPECT_TRUE((*model)->warnings().empty());
}

TEST(Gguf, ShapesAreReversed) {
  ByteBuilder file = begin(1, 0);
  tensor(file, "w", {4, 3, 2}, kF32, 0).pad_to(32).zeros(96);
  const auto header = parse(file);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors[0].shape, Shape::make({2, 3, 4}).value());
}

TEST(Gguf, ScalarsAndEmptyTensors) {
  ByteBuilder file = begin(3, 0);
  tensor(file, "scalar", {}, kF32, 0);
  tensor(file, "empty", {0, 5}, kQ8_0, 32);
  tensor(file, "last", {1}, kF32, 32).pad_to(32).f32(7).zeros(28).f32(8);
  const auto header = parse(file);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors[0].shape, Shape());
  EXPECT_EQ(header->tensors[1].shape, Shape::make({5, 0}).value());
  EXPECT_EQ(header->tensors[1].bytes, 0);
}

TEST(Gguf, MagicAndVersion) {
  ByteBuilder file;
  EXPECT_REFUSAL(file, "magic number needs 4 bytes, but only 0 are left");
  file.text("GGML").u32(3).u64(0).u64(0);
  EXPECT_REFUSAL(file, "not a GGUF file");
  EXPECT_REFUSAL(begin(0, 0, 0), "GGUF version 0, expected 2 or 3");
  EXPECT_REFUSAL(begin(0, 0, 1), "GGUF version 1, expected 2 or 3");
  EXPECT_REFUSAL(begin(0, 0, 4), "GGUF version 4, expected 2 or 3");
  EXPECT_REFUSAL(begin(0, 0, 0x03000000), "big-endian");
  EXPECT_TRUE(parse(begin(0, 0, 2)));
  EXPECT_TRUE(parse(begin(0, 0, 3)));
}

TEST(Gguf, CountsBeyondTheFileAreRefused) {
  EXPECT_REFUSAL(begin(std::uint64_t{1} << 63, 0), "list of tensors");
  EXPECT_REFUSAL(begin(0, std::uint64_t{1} << 63), "list of keys");
  EXPECT_REFUSAL(begin(1, 0), "list of tensors");
  EXPECT_REFUSAL(begin(UINT64_MAX / 24 + 1, 0), "list of tensors");
}

TEST(Gguf, Keys) {
  ByteBuilder empty = begin(0, 1);
  empty.counted("").u32(4).u32(1).zeros(8);
  EXPECT_REFUSAL(empty, "key 0 is empty");

  ByteBuilder twice = begin(0, 2);
  twice.counted("a.b").u32(4).u32(1).counted("a.b").u32(4).u32(2);
  EXPECT_REFUSAL(twice, "key 'a.b' is there twice");

  ByteBuilder type = begin(0, 1);
  type.counted("a.b").u32(13).u32(1).zeros(8);
  EXPECT_REFUSAL(type, "key 'a.b': byte 35: value type 13, expected 0 to 12");

  ByteBuilder nested = begin(0, 1);
  nested.counted("a").u32(9).u32(9).u64(1).u32(4).u64(1).u32(7);
  EXPECT_REFUSAL(nested, "key 'a': byte 49: an array of arrays");

  ByteBuilder long_key = begin(0, 1);
  long_key.counted(std::string(65536, 'k')).u32(4).u32(1);
  EXPECT_REFUSAL(long_key, "at most 65535 are allowed");
}

TEST(Gguf, Strings) {
  ByteBuilder past_end = begin(0, 1);
  past_end.counted("a").u32(8).u64(20).text("abc");
  EXPECT_REFUSAL(past_end, "string");
  ByteBuilder huge = begin(0, 1);
  huge.counted("a").u32(8).u64(std::uint64_t{1} << 40).text("abc");
  EXPECT_REFUSAL(huge, "a string of 1099511627776 bytes");
  ByteBuilder in_array = begin(0, 1);
  in_array.counted("a").u32(9).u32(8).u64(2).counted("x").u64(UINT64_MAX);
  EXPECT_REFUSAL(in_array, "a string of 18446744073709551615 bytes");
}

TEST(Gguf, Arrays) {
  ByteBuilder past_end = begin(0, 1);
  past_end.counted("a").u32(9).u32(4).u64(3).u32(1).u32(2);
  EXPECT_REFUSAL(past_end, "array of 3 items");
  ByteBuilder wraps = begin(0, 1);  // 2^62 * 4 wraps to 0
  wraps.counted("a").u32(9).u32(4).u64(std::uint64_t{1} << 62).u32(1);
  EXPECT_REFUSAL(wraps, "array of 4611686018427387904 items");
  ByteBuilder element = begin(0, 1);
  element.counted("a").u32(9).u32(77).u64(1).u32(1);
  EXPECT_REFUSAL(element, "value type 77");
}

TEST(Gguf, BoolsAreZeroOrOne) {
  ByteBuilder one = begin(0, 1);
  one.counted("a").u32(7).u8(2);
  EXPECT_REFUSAL(one, "key 'a': a bool is 2, expected 0 or 1");
  ByteBuilder many = begin(0, 1);
  many.counted("a").u32(9).u32(7).u64(3).u8(0).u8(1).u8(255);
  EXPECT_REFUSAL(many, "key 'a': a bool is 255, expected 0 or 1");
}

TEST(Gguf, Alignment) {
  const auto with = [](std::uint32_t type, std::uint64_t value) {
    ByteBuilder file = begin(1, 1);
    file.counted("general.alignment").u32(type);
    type == 10 ? file.u64(value) : file.u32(value);
    tensor(file, "w", {1}, kF32, 0);
    return file;
  };
  EXPECT_REFUSAL(with(4, 24), "key 'general.alignment': is 24, expected a power of two");
  EXPECT_REFUSAL(with(4, 0), "is 0, expected a power of two");
  EXPECT_REFUSAL(with(10, 64), "is of type u64, expected u32");
  EXPECT_REFUSAL(with(5, 64), "is of type i32, expected u32");
  ByteBuilder file = with(4, 128);
  file.pad_to(128).f32(1).zeros(124);
  const auto header = parse(file);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors[0].offset, 128u);
  EXPECT_REFUSAL(with(4, std::uint64_t{1} << 31), "truncated");
}

TEST(Gguf, TensorNames) {
  ByteBuilder longest = begin(1, 0);
  tensor(longest, std::string(63, 'n'), {1}, kF32, 0).pad_to(32).f32(1);
  EXPECT_TRUE(parse(longest));
  ByteBuilder longer = begin(1, 0);
  tensor(longer, std::string(64, 'n'), {1}, kF32, 0).pad_to(32).f32(1);
  EXPECT_REFUSAL(longer, "tensor name has 64 bytes, at most 63 are allowed");
  ByteBuilder twice = begin(2, 0);
  tensor(twice, "w", {1}, kF32, 0);
  tensor(twice, "w", {1}, kF32, 32).pad_to(32).zeros(64);
  EXPECT_REFUSAL(twice, "tensor 'w' is there twice");
}

TEST(Gguf, Dimensions) {
  const auto with = [](std::vector<std::uint64_t> extents, std::uint32_t type = kF32) {
    ByteBuilder file = begin(1, 0);
    tensor(file, "w", std::move(extents), type, 0).pad_to(32).zeros(64);
    return file;
  };
  const std::uint64_t big = std::uint64_t{1} << 32;
  EXPECT_REFUSAL(with({1, 1, 1, 1, 1}),
                 "tensor 'w': 5 dimensions, at most 4 are allowed");
  EXPECT_REFUSAL(with({UINT64_MAX}), "extent -1 is negative");
  EXPECT_REFUSAL(with({big, big}), "exceeds 2^63-1");
  EXPECT_REFUSAL(with({0, big, big}), "exceeds 2^63-1");
  EXPECT_REFUSAL(with({big, big >> 2}), "the size in bytes exceeds 2^63-1");
  EXPECT_REFUSAL(with({33}, kQ8_0), "rows of 33 elements are not a multiple of 32");
  EXPECT_REFUSAL(with({}, kQ8_0), "rows of 1 elements are not a multiple of 32");
  EXPECT_REFUSAL(with({1}, 4), "type 4 is unknown or was removed");
  EXPECT_REFUSAL(with({1}, 43), "type 43 is unknown or was removed");
  EXPECT_REFUSAL(with({1}, UINT32_MAX), "is unknown or was removed");
}

TEST(Gguf, OffsetsAreTheRunningSum) {
  const auto with = [](std::uint64_t first, std::uint64_t second) {
    ByteBuilder file = begin(2, 0);
    tensor(file, "a", {9}, kF32, first);
    tensor(file, "b", {1}, kF32, second).pad_to(32).zeros(256);
    return file;
  };
  EXPECT_TRUE(parse(with(0, 64)));
  EXPECT_REFUSAL(with(32, 96),
                 "tensor 'a' is at offset 32, but the tensors before it end at 0");
  EXPECT_REFUSAL(with(0, 32), "tensor 'b' is at offset 32");
  EXPECT_REFUSAL(with(0, 96), "tensor 'b' is at offset 96");
  EXPECT_REFUSAL(with(0, 36), "tensor 'b' is at offset 36");
}

TEST(Gguf, TruncatedData) {
  const std::string whole = small_file().str();
  const auto cut = [&](std::size_t size) {
    return parse_gguf(
        ByteReader(testing::bytes_of(std::string_view(whole).substr(0, size))));
  };
  EXPECT_TRUE(cut(72)) << "padding of the last tensor may be missing";
  for (std::size_t size = 0; size < 72; ++size) EXPECT_FALSE(cut(size)) << size;
}

TEST(Gguf, ExtraBytesGiveAWarning) {
  ByteBuilder file = small_file();
  EXPECT_TRUE(parse(file)->warnings.empty());
  file.text("extra");
  ASSERT_EQ(parse(file)->warnings.size(), 1u);
  EXPECT_EQ(parse(file)->warnings[0], "5 bytes after the last tensor are not read");
}

TEST(Gguf, PartsOfAModelGiveAWarning) {
  ByteBuilder file = begin(0, 2);
  file.counted("split.no").u32(2).u16(0).counted("split.count").u32(2).u16(3);
  ASSERT_EQ(parse(file)->warnings.size(), 1u);
  EXPECT_NE(parse(file)->warnings[0].find("one of 3 parts"), std::string::npos);
}

TEST(Gguf, KeysKeepTheirBytesAndOrder) {
  ByteBuilder file = begin(0, 4);
  file.counted("z").u32(4).u32(7).counted("a").u32(8).counted("te\nxt");
  file.counted("m").u32(9).u32(8).u64(2).counted("x").counted("yz");
  file.counted("f").u32(12).f64(0.5);
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("keys.gguf", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  const std::span<const GgufKey> keys = gguf_keys(**model);
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys[0], GgufKey::u32("z", 7));
  EXPECT_EQ(keys[0].as_u32(), 7u);
  EXPECT_EQ(keys[1], GgufKey::string("a", "te\nxt"));
  EXPECT_EQ(keys[1].as_string(), "te\nxt");
  EXPECT_EQ(keys[1].as_u32(), std::nullopt);
  EXPECT_EQ(keys[2].value, ByteBuilder().u32(8).u64(2).counted("x").counted("yz").str());
  EXPECT_EQ(keys[3].type, GgufType::kF64);
  EXPECT_EQ((*model)->metadata()[0], (std::pair<std::string, std::string>("z", "7")));
  EXPECT_EQ((*model)->metadata()[1].second, "te\\nxt");
  EXPECT_EQ((*model)->metadata()[2].second, "[x, yz]");
  EXPECT_EQ((*model)->metadata()[3].second, "0.5");
}

TEST(Gguf, LongArraysAreShortened) {
  ByteBuilder value;
  value.u32(4).u64(1000);
  for (int i = 0; i < 1000; ++i) value.u32(i);
  const GgufKey key{"k", GgufType::kArray, value.str()};
  EXPECT_EQ(key.text(), "[0, 1, 2, 3, 4, 5, 6, 7, ...] (1000 of u32)");
}

TEST(Gguf, InfiniteScaleIsFoundWhenRowsAreRead) {
  ByteBuilder file = begin(1, 0);
  tensor(file, "w", {64, 2}, kQ8_0, 0).pad_to(32);
  for (int block = 0; block < 4; ++block)
    file.u16(block == 3 ? 0x7c00 : 0x3c00).zeros(32);
  const TempFolder folder;
  const auto path = folder.write("inf.gguf", file.str());
  const auto model = Checkpoint::open(path);
  ASSERT_TRUE(model) << model.error().message();
  std::vector<float> row(64);
  EXPECT_TRUE((*model)->read_rows(0, 0, 1, row).ok());
  const Status status = (*model)->read_rows(0, 1, 1, row);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_EQ(
      status.message(),
      path.string() +
          ": tensor 'w': the scale of the Q8_0 block at element 96 is infinite or NaN");
}

TEST(Gguf, TypesThatAreNotDecodedCanBeCopied) {
  ByteBuilder file = begin(1, 0);
  tensor(file, "w", {256}, 10, 0).pad_to(32);  // Q2_K
  for (int i = 0; i < 84; ++i) file.u8(i);
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("q2.gguf", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  std::vector<float> row(256);
  EXPECT_EQ((*model)->read_rows(0, 0, 1, row).code(), StatusCode::kUnsupported);
  std::vector<std::byte> bytes(84);
  ASSERT_TRUE((*model)->read_bytes(0, 0, bytes).ok());
  for (int i = 0; i < 84; ++i)
    EXPECT_EQ(bytes[static_cast<std::size_t>(i)], std::byte(i));
}

// Rows of several blocks, pieces that begin inside the tensor, and a file that was cut.
TEST(Gguf, RowsOfBlocks) {
  ByteBuilder file = begin(1, 0);
  tensor(file, "w", {64, 100}, kQ8_0, 0).pad_to(32);
  std::vector<float> expected;
  for (int block = 0; block < 200; ++block) {
    const float scale = 0.25F + static_cast<float>(block);
    file.u16(f32_to_f16(scale));
    for (int j = 0; j < 32; ++j) {
      file.u8(static_cast<std::uint64_t>(j - 16));
      expected.push_back(f16_to_f32(f32_to_f16(scale)) * static_cast<float>(j - 16));
    }
  }
  const TempFolder folder;
  const auto path = folder.write("rows.gguf", file.str());
  const auto model = Checkpoint::open(path);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(testing::read_values(**model, 0), expected);
  std::vector<float> rows(7 * 64);
  ASSERT_TRUE((*model)->read_rows(0, 93, 7, rows).ok());
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), expected.begin() + 93 * 64));
  std::filesystem::resize_file(path, file.size() - 1);
  EXPECT_EQ((*model)->read_rows(0, 93, 7, rows).code(), StatusCode::kCorrupt);
}

TEST(Gguf, ManyTensorsAndKeysTakeLinearTime) {
  constexpr std::uint64_t kMany = 60000;
  ByteBuilder file = begin(kMany, kMany);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    file.counted("key." + std::to_string(i)).u32(4).u32(i);
  }
  for (std::uint64_t i = 0; i < kMany; ++i) {
    tensor(file, "blk." + std::to_string(i) + ".weight", {1}, kF32, 32 * i);
  }
  file.pad_to(32).zeros(32 * kMany);
  const auto start = std::chrono::steady_clock::now();
  const auto header = parse(file);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors.size(), kMany);
  EXPECT_LT(seconds.count(), 5.0) << "much less in an optimized build";
}

}  // namespace
}  // namespace pith
