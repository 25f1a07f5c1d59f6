#include "src/io/reader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::TempFolder;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(ByteReader, NumbersAreLittleEndian) {
  const std::string text("\x01\x02\x03\x04\x05\x06\x07\x08\xff\xfe\xff\x00\x00\x80\x3f",
                         15);
  ByteReader in(as_bytes(text));
  EXPECT_EQ(*in.u64("a"), 0x0807060504030201u);
  EXPECT_EQ(*in.i8("b"), -1);
  EXPECT_EQ(*in.u16("c"), 0xfffeu);
  EXPECT_EQ(*in.f32("d"), 1.0F);
  EXPECT_EQ(in.remaining(), 0u);
}

TEST(ByteReader, ShortReadsAreRefusedAndReadNothing) {
  const std::string text = "abc";
  ByteReader in(as_bytes(text), 100);
  ASSERT_TRUE(in.u8("first"));
  const auto number = in.u32("tensor count");
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().code(), StatusCode::kCorrupt);
  EXPECT_EQ(number.error().message(),
            "byte 101: tensor count needs 4 bytes, but only 2 are left");
  EXPECT_EQ(in.remaining(), 2u);
  EXPECT_EQ(*in.u16("rest"), 0x6362u);
}

TEST(ByteReader, StringsAreCheckedBeforeTheyAreAllocated) {
  const std::string text = "abc";
  ByteReader in(as_bytes(text));
  EXPECT_FALSE(in.string(std::uint64_t{1} << 40, UINT64_MAX, "key"));
  EXPECT_FALSE(in.string(UINT64_MAX, UINT64_MAX, "key"));
  EXPECT_FALSE(in.string(3, 2, "key"));
  EXPECT_EQ(*in.string(3, 3, "key"), "abc");
}

TEST(ByteReader, CountsMustFitTheRest) {
  const std::string text(100, 'x');
  const ByteReader in(as_bytes(text));
  EXPECT_TRUE(in.count(25, 4, "array"));
  EXPECT_FALSE(in.count(26, 4, "array"));
  EXPECT_FALSE(in.count(std::uint64_t{1} << 62, 4, "array"));  // wraps to 0
  EXPECT_FALSE(in.count(UINT64_MAX, 1, "array"));
}

TEST(ByteReader, SkipAndAlignStayInside) {
  const std::string text(10, 'x');
  ByteReader in(as_bytes(text));
  EXPECT_TRUE(in.skip(3, "gap").ok());
  EXPECT_TRUE(in.align(8, "padding").ok());
  EXPECT_EQ(in.position(), 8u);
  EXPECT_TRUE(in.align(8, "padding").ok());
  EXPECT_EQ(in.position(), 8u);
  EXPECT_FALSE(in.skip(3, "gap").ok());
  EXPECT_FALSE(in.skip(UINT64_MAX, "gap").ok());
  EXPECT_TRUE(in.skip(1, "gap").ok());
  EXPECT_FALSE(in.align(8, "padding").ok());
  EXPECT_EQ(in.position(), 9u);
}

TEST(ByteReader, AWindowOfAFileEndsWhereItIsTold) {
  const TempFolder folder;
  const auto file = InputFile::open(folder.write("a", "0123456789"));
  ASSERT_TRUE(file);
  ByteReader in(*file, 2, 5);
  EXPECT_EQ(*in.string(3, 3, "part"), "234");
  EXPECT_FALSE(in.u8("more"));
  EXPECT_EQ(ByteReader(*file, 2, UINT64_MAX).remaining(), 8u);
  EXPECT_EQ(ByteReader(*file, 20, 30).remaining(), 0u);
}

// What is read from a file through the window is what is read from memory.
RC_GTEST_PROP(ByteReader, FileAndMemoryAgree, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 300000);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>(i * 2654435761u >> 13);
  const TempFolder folder;
  const auto file = InputFile::open(folder.write("a", text));
  RC_ASSERT(static_cast<bool>(file));
  ByteReader from_file(*file, 0, file->size());
  ByteReader from_memory(as_bytes(text));
  for (int step = 0; step < 20; ++step) {
    const auto n =
        *rc::gen::element<std::size_t>(1, 8, 1000, 65535, 65536, 65537, 100000);
    if (*rc::gen::arbitrary<bool>()) {
      RC_ASSERT(from_file.skip(n, "x").ok() == from_memory.skip(n, "x").ok());
    } else {
      const auto a = from_file.string(n, UINT64_MAX, "x");
      const auto b = from_memory.string(n, UINT64_MAX, "x");
      RC_ASSERT(a.has_value() == b.has_value());
      if (a) RC_ASSERT(*a == *b);
    }
    RC_ASSERT(from_file.position() == from_memory.position());
  }
}

}  // namespace
}  // namespace pith
