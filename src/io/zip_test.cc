#include "src/io/zip.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/zip_builder.h"

namespace pith {
namespace {

using testing::ZipBuilder;
using testing::ZipBuilderEnd;
using testing::ZipBuilderEntry;

// Opens an archive and reads all of it.
Status read_all(const std::string& file) {
  const MemorySource source(testing::bytes_of(file));
  PITH_TRY(const ZipArchive zip, ZipArchive::open(source));
  return zip.verify(UINT64_MAX);
}

std::string refusal(const std::string& file) {
  const Status status = read_all(file);
  return status.ok() ? "accepted" : status.message();
}

std::string refusal_of(const ZipBuilderEntry& entry, const ZipBuilderEnd& end = {}) {
  return refusal(ZipBuilder().add(entry).finish(end));
}

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string content_of(const ByteSource& source) {
  std::string out(static_cast<std::size_t>(source.size()), '?');
  const Status status = source.read(0, std::as_writable_bytes(std::span(out)));
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

// Text that deflates well but not too well.
std::string long_text(std::size_t bytes) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text += std::to_string(state >> 20);
  }
  text.resize(bytes);
  return text;
}

TEST(Zip, StoredAndDeflatedEntries) {
  ZipBuilder builder;
  builder.add({.name = "a", .content = "stored"});
  builder.add({.name = "b/c", .content = long_text(100000), .deflated = true});
  builder.add({.name = "empty", .content = ""});
  builder.add({.name = "empty2", .content = "", .deflated = true});
  const std::string file = builder.finish();
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  ASSERT_EQ(zip->entries().size(), 4u);
  EXPECT_TRUE(zip->warnings().empty());
  EXPECT_TRUE(zip->verify(UINT64_MAX).ok());
  EXPECT_EQ(zip->entries()[0].name, "a");
  EXPECT_EQ(content_of(*zip->open_entry(0)), "stored");
  EXPECT_EQ(content_of(*zip->open_entry(1)), long_text(100000));
  EXPECT_EQ(content_of(*zip->open_entry(2)), "");
  EXPECT_EQ(content_of(*zip->open_entry(3)), "");
}

TEST(Zip, EmptyArchive) { EXPECT_EQ(refusal(ZipBuilder().finish()), "accepted"); }

TEST(Zip, Zip64) {
  ZipBuilder builder;
  builder.add({.name = "a", .content = "stored", .zip64 = true});
  builder.add({.name = "b", .content = long_text(1000), .deflated = true, .zip64 = true});
  const std::string file = builder.finish({.zip64 = true});
  EXPECT_EQ(refusal(file), "accepted");
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  EXPECT_EQ(content_of(*zip->open_entry(1)), long_text(1000));
}

TEST(Zip, DescriptorsAndAlignedData) {
  ZipBuilder builder;
  builder.add({.name = "a",
               .content = "x",
               .descriptor = true,
               .local_extra = std::string("FB\x04\x00ZZZZ", 8)});
  builder.add({.name = "b", .content = "yy", .descriptor = true});
  const std::string file = builder.finish({.zip64 = true});
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  EXPECT_TRUE(zip->warnings().empty());
  EXPECT_EQ(content_of(*zip->open_entry(1)), "yy");
}

TEST(Zip, EveryTruncationIsRefused) {
  ZipBuilder builder;
  builder.add({.name = "a", .content = "stored"});
  builder.add({.name = "b", .content = long_text(50), .deflated = true});
  const std::string file = builder.finish();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(refusal(file.substr(0, size)), "accepted") << size;
  }
}

TEST(Zip, BytesInFrontOrBehindAreRefused) {
  const std::string file = ZipBuilder().add({.name = "a", .content = "x"}).finish();
  EXPECT_PART(refusal("prefix" + file), "does not end at byte");
  EXPECT_PART(refusal(file + "x"), "no end of a zip archive");
  EXPECT_EQ(refusal_of({.name = "a", .content = "x"}, {.comment = "a comment"}),
            "accepted");
  // A second archive in the comment of the first.
  EXPECT_PART(refusal_of({.name = "a", .content = "x"}, {.comment = file}),
              "two ends of a zip archive");
}

TEST(Zip, EndRecords) {
  const ZipBuilderEntry entry = {.name = "a", .content = "x"};
  EXPECT_PART(refusal_of(entry, {.disk = 1}), "several disks");
  EXPECT_PART(refusal_of(entry, {.entries = 2}), "zip directory of 2 items");
  EXPECT_PART(refusal_of(entry, {.entries = 0}), "bytes behind the 0 directory entries");
  EXPECT_PART(refusal_of(entry, {.directory_size = 5}), "does not end at byte");
  EXPECT_PART(refusal_of(entry, {.directory_begin = 5}), "does not end at byte");
  EXPECT_PART(refusal_of(entry, {.behind_directory = "x"}), "does not end at byte");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .directory_begin = UINT64_MAX}),
              "does not end at byte");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .directory_size = UINT64_MAX}),
              "does not end at byte");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .entries = UINT64_MAX}),
              "zip directory of");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .record_begin = UINT64_MAX}),
              "is not before its locator");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .record_begin = 0}), "no zip64 record");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .record_size = 45}), "no zip64 record");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .record_size = UINT64_MAX}),
              "no zip64 record");
  EXPECT_PART(refusal_of(entry, {.zip64 = true, .narrow_begin = 7}), "disagree");
}

TEST(Zip, Entries) {
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .flags = 1}), "it is encrypted");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .flags = 1 << 5}), "flags 0x0020");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .method = 12}),
              "compression method 12");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .disk = 1}), "on another disk");
  EXPECT_PART(refusal_of({.name = "a", .content = "xy", .uncompressed = 1}),
              "stored, but of 2");
  EXPECT_PART(
      refusal_of({.name = "a", .content = "x", .compressed = 1000, .uncompressed = 1000}),
      "do not end before the directory");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .offset = 5000}),
              "is not before the directory");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .offset = 1}), "no local header");
}

TEST(Zip, Zip64Fields) {
  const auto with = [](const std::string& extra) {
    return refusal_of(
        {.name = "a", .content = "x", .zip64 = true, .descriptor = true, .extra = extra});
  };
  using testing::ByteBuilder;
  EXPECT_EQ(with(ByteBuilder().u16(1).u16(24).u64(1).u64(1).u64(0).str()), "accepted");
  EXPECT_PART(with(""), "not before the directory");
  EXPECT_PART(with(ByteBuilder().u16(1).u16(16).u64(1).u64(1).str()), "lacks a size");
  EXPECT_PART(with(ByteBuilder().u16(1).u16(100).u64(1).str()), "where only 8 are left");
  EXPECT_PART(with(ByteBuilder().u16(1).u16(24).u64(1).u64(1).u64(UINT64_MAX).str()),
              "is not before the directory");
  EXPECT_PART(
      with(ByteBuilder().u16(1).u16(24).u64(UINT64_MAX).u64(UINT64_MAX).u64(0).str()),
      "do not end before the directory");
  const std::string one = ByteBuilder().u16(1).u16(24).u64(1).u64(1).u64(0).str();
  EXPECT_PART(with(one + one), "two zip64 fields");
}

TEST(Zip, LocalHeadersMustAgree) {
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .local_name = "b"}), "differ");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .local_name = "aa"}), "differ");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .local_method = 8}), "differ");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .local_crc = 5}), "differ");
}

TEST(Zip, OverlappingEntries) {
  ZipBuilder same;
  same.add({.name = "a", .content = "x"}).add({.name = "b", .content = "x", .offset = 0});
  EXPECT_PART(refusal(same.finish()), "differ");  // the name in the header is another
  ZipBuilder twice;
  twice.add({.name = "a", .content = "x"})
      .add({.name = "a", .content = "x", .offset = 0});
  EXPECT_PART(refusal(twice.finish()), "overlaps");
  // An archive inside a stored entry, listed from outside.
  const std::string inner = ZipBuilder().add({.name = "in", .content = "x"}).finish();
  ZipBuilder quoted;
  quoted.add({.name = "a", .content = inner});
  quoted.add({.name = "in", .content = "x", .offset = 31});
  EXPECT_PART(refusal(quoted.finish()), "overlaps");
}

TEST(Zip, Names) {
  for (const std::string& name :
       {std::string("/a"), std::string("../a"), std::string("a/../b"),
        std::string("a/.."), std::string("a\\b"), std::string("a\0b", 3),
        std::string()}) {
    EXPECT_PART(refusal_of({.name = name, .content = "x"}), "entry name");
  }
  EXPECT_EQ(refusal_of({.name = "a..b", .content = "x"}), "accepted");
  ZipBuilder twice;
  twice.add({.name = "a", .content = "x"}).add({.name = "a", .content = "y"});
  EXPECT_PART(refusal(twice.finish()), "entry 'a' is there twice");
}

TEST(Zip, GapsGiveAWarning) {
  const std::string file = ZipBuilder()
                               .add({.name = "a", .content = "x"})
                               .finish({.before_directory = "hidden"});
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  ASSERT_EQ(zip->warnings().size(), 1u);
  EXPECT_EQ(zip->warnings()[0], "6 bytes of the zip archive belong to no entry");
}

TEST(Zip, Checksums) {
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .crc = 5}), "CRC-32 is 8cdc1683");
  EXPECT_PART(refusal_of({.name = "a", .content = "x", .deflated = true, .crc = 5}),
              "CRC-32 is");
  EXPECT_PART(refusal_of({.name = "a", .content = "", .crc = 5}), "CRC-32 is");
  EXPECT_PART(refusal_of({.name = "a", .content = "", .deflated = true, .crc = 5}),
              "CRC-32 is");
}

TEST(Zip, InflatedSizes) {
  const std::string text = long_text(1000);
  const std::string packed = testing::deflate_bytes(text);
  const ZipBuilderEntry good = {.name = "a", .content = text, .deflated = true};
  ZipBuilderEntry entry = good;
  EXPECT_EQ(refusal_of(entry), "accepted");
  entry.uncompressed = 999;
  EXPECT_PART(refusal_of(entry), "more than the 999 bytes");
  entry.uncompressed = 1001;
  EXPECT_PART(refusal_of(entry), "ends after 1000 of 1001 bytes");
  entry.uncompressed = packed.size() * 1032 + 1;
  EXPECT_PART(refusal_of(entry), "more than deflate can do");
  entry = good;
  entry.data = packed + "x";
  EXPECT_PART(refusal_of(entry), "1 bytes behind the end of the deflated data");
  entry.data = packed.substr(0, packed.size() - 1);
  EXPECT_NE(refusal_of(entry), "accepted");
  entry.data = packed.substr(0, packed.size() / 2);
  EXPECT_PART(refusal_of(entry), "ends after");
  entry.data = "\xff" + packed.substr(1);
  EXPECT_PART(refusal_of(entry), "broken");
  entry.data = "";
  entry.compressed = 0;
  EXPECT_PART(refusal_of(entry), "more than deflate can do");
}

TEST(Zip, LargeArchivesAreNotVerifiedAtOnce) {
  const std::string file =
      ZipBuilder().add({.name = "a", .content = "xyz", .crc = 5}).finish();
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  EXPECT_TRUE(zip->verify(2).ok());
  EXPECT_FALSE(zip->verify(3).ok());
  std::array<std::byte, 2> start;
  EXPECT_TRUE(zip->read_start(0, start).ok()) << "headers may be looked at";
  EXPECT_EQ(start[1], std::byte{'y'});
  const auto entry = zip->open_entry(0);
  std::array<std::byte, 1> one;
  EXPECT_FALSE(entry->read(0, one).ok()) << "but no byte is given before it is checked";
  EXPECT_FALSE(entry->read(0, one).ok());
}

TEST(Zip, DeflatedEntriesAreReadAnywhere) {
  const std::string text = long_text(3 << 20);
  ZipBuilder builder;
  for (int i = 0; i < 6; ++i) {
    builder.add({.name = std::to_string(i), .content = text, .deflated = true});
  }
  const std::string file = builder.finish();
  const MemorySource source(testing::bytes_of(file));
  const auto zip = ZipArchive::open(source);
  ASSERT_TRUE(zip) << zip.error().message();
  std::vector<std::unique_ptr<ByteSource>> entries;
  for (std::size_t i = 0; i < 6; ++i) entries.push_back(zip->open_entry(i));
  std::atomic<int> wrong = 0;
  const auto read_some = [&](std::uint32_t seed) {
    std::uint32_t state = seed;
    std::string out;
    for (int i = 0; i < 25; ++i) {
      state = state * 1664525 + 1013904223;
      const std::size_t at = (state >> 8) % text.size();
      out.resize(std::min<std::size_t>(1 + state % 5000, text.size() - at));
      const ByteSource& entry = *entries[(state >> 4) % 6];
      if (!entry.read(at, std::as_writable_bytes(std::span(out))).ok() ||
          out != text.substr(at, out.size())) {
        ++wrong;
      }
    }
  };
  std::thread other(read_some, 7);
  read_some(3);
  other.join();
  EXPECT_EQ(wrong, 0);
  for (const auto& entry : entries) EXPECT_EQ(content_of(*entry), text);
  std::array<std::byte, 1> one;
  EXPECT_FALSE(entries[0]->read(text.size(), one).ok());
}

}  // namespace
}  // namespace pith
