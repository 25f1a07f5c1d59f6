#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pith/io/checkpoint.h"
#include "tests/support/byte_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::TempFolder;

// One F32 vector.
std::string file_of(std::string_view name, const std::vector<float>& values,
                    std::string_view metadata = "") {
  const std::size_t bytes = 4 * values.size();
  ByteBuilder file;
  file.counted(
      fmt::format(R"({{{}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})",
                  metadata, name, values.size(), bytes));
  for (const float value : values) file.f32(value);
  return file.str();
}

std::string index_of(std::string_view map, std::uint64_t total = 20) {
  return fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", total,
                     map);
}

std::string refusal(const std::filesystem::path& path) {
  const auto opened = Checkpoint::open(path);
  if (opened) return "accepted";
  const std::string& message = opened.error().message();
  EXPECT_TRUE(message.starts_with(path.string())) << message;
  return message;
}

TEST(Safetensors, Samples) { testing::check_samples("safetensors"); }
TEST(Safetensors, ShardedSamples) { testing::check_samples("sharded"); }

TEST(Safetensors, RowsAndBytesOfAMatrix) {
  ByteBuilder file;
  file.counted(R"({"w":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]}})");
  for (int i = 0; i < 6; ++i) file.u16(0x3f80 + 0x80 * static_cast<std::uint64_t>(i));
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("m.safetensors", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->format(), Format::kSafetensors);
  EXPECT_EQ((*model)->find("w"), 0u);
  EXPECT_FALSE((*model)->find("v"));
  std::vector<float> rows(4);
  ASSERT_TRUE((*model)->read_rows(0, 1, 2, rows).ok());
  EXPECT_EQ(rows, (std::vector<float>{4, 8, 16, 32}));
  std::vector<std::byte> bytes(3);
  ASSERT_TRUE((*model)->read_bytes(0, 1, bytes).ok());
  EXPECT_EQ(bytes,
            (std::vector<std::byte>{std::byte{0x3f}, std::byte{0x00}, std::byte{0x40}}));
}

TEST(Safetensors, ArgumentsOutOfRangeAreRefused) {
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("m", file_of("w", {1, 2})));
  ASSERT_TRUE(model);
  std::vector<float> row(2);
  EXPECT_TRUE((*model)->read_rows(0, 0, 1, row).ok());
  EXPECT_TRUE((*model)->read_rows(0, 1, 0, {}).ok());
  EXPECT_EQ((*model)->read_rows(1, 0, 1, row).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_rows(0, 1, 1, row).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_rows(0, -1, 1, row).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_rows(0, 0, -1, row).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_rows(0, INT64_MAX, 1, row).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_rows(0, 0, 1, std::span(row).first(1)).code(),
            StatusCode::kInvalidArgument);
  std::vector<std::byte> bytes(4);
  EXPECT_EQ((*model)->read_bytes(0, 5, bytes).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_bytes(0, -1, bytes).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->read_bytes(0, INT64_MAX, bytes).code(),
            StatusCode::kInvalidArgument);
}

TEST(Safetensors, LongRowsAreReadInPieces) {
  constexpr std::size_t kCount = 500'001;
  ByteBuilder file;
  file.counted(
      fmt::format(R"({{"w":{{"dtype":"I16","shape":[{}],"data_offsets":[0,{}]}}}})",
                  kCount, 2 * kCount));
  for (std::size_t i = 0; i < kCount; ++i) file.u16(i % 32768);
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("m.safetensors", file.str()));
  ASSERT_TRUE(model);
  const std::vector<float> values = testing::read_values(**model, 0);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(values[i], static_cast<float>(i % 32768)) << i;
  }
}

TEST(Safetensors, AFileCutWhileItIsReadIsAnError) {
  const TempFolder folder;
  const auto path =
      folder.write("m.safetensors", file_of("w", std::vector<float>(1000, 1)));
  const auto model = Checkpoint::open(path);
  ASSERT_TRUE(model);
  std::filesystem::resize_file(path, 2000);
  std::vector<float> row(1000);
  const Status s = (*model)->read_rows(0, 0, 1, row);
  EXPECT_EQ(s.code(), StatusCode::kCorrupt);
  EXPECT_NE(s.message().find("shrank while it was read"), std::string::npos);
}

TEST(Safetensors, TypesThatAreNotDecodedCanBeCopied) {
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write(
      "m", ByteBuilder()
               .counted(R"({"w":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]}})")
               .u8(0x21)
               .str()));
  ASSERT_TRUE(model) << model.error().message();
  std::vector<float> row(1);
  EXPECT_EQ((*model)->read_rows(0, 0, 1, row).code(), StatusCode::kUnsupported);
  std::vector<std::byte> byte(1);
  ASSERT_TRUE((*model)->read_bytes(0, 0, byte).ok());
  EXPECT_EQ(byte[0], std::byte{0x21});
}

TEST(SafetensorsFolder, OneFile) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("x.safetensors", file_of("w", {1}));
  const auto model = Checkpoint::open(folder.path());
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->files().size(), 1u);
  EXPECT_TRUE((*model)->warnings().empty());
  folder.write("model.safetensors", file_of("v", {1}));
  const auto usual = Checkpoint::open(folder.path());
  ASSERT_TRUE(usual);
  EXPECT_TRUE((*usual)->find("v"));
  EXPECT_EQ((*usual)->warnings().size(), 1u);
}

TEST(SafetensorsFolder, Shards) {
  const TempFolder folder;
  const std::string same = R"("__metadata__":{"format":"pt"},)";
  folder.write("m-1.safetensors", file_of("b", {1, 2}, same));
  folder.write("m-2.safetensors", file_of("a", {3, 4, 5}, same));
  folder.write("other.safetensors", file_of("o", {1}));
  folder.write("m.safetensors.index.json",
               index_of(R"("a":"m-2.safetensors","b":"m-1.safetensors")"));
  const auto model = Checkpoint::open(folder.path());
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->files().size(), 2u);
  EXPECT_EQ((*model)->files()[0], folder / "m-1.safetensors");
  EXPECT_EQ((*model)->tensors()[0].name, "b");
  EXPECT_EQ((*model)->tensors()[1].file, 1u);
  EXPECT_EQ(testing::read_values(**model, *(*model)->find("a")),
            (std::vector<float>{3, 4, 5}));
  EXPECT_EQ((*model)->metadata().size(), 1u);
  ASSERT_EQ((*model)->warnings().size(), 1u);
  EXPECT_NE((*model)->warnings()[0].find("'other.safetensors' is not named by the index"),
            std::string::npos);
}

TEST(SafetensorsFolder, WrongTotalSizeIsAWarning) {
  const TempFolder folder;
  folder.write("s", file_of("a", {1}));
  folder.write("m.safetensors.index.json", index_of(R"("a":"s")", 5));
  const auto model = Checkpoint::open(folder.path());
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->warnings().size(), 1u);
  EXPECT_NE((*model)->warnings()[0].find("total_size is 5, but the tensors have 4 bytes"),
            std::string::npos);
}

TEST(SafetensorsFolder, IndexAndShardsMustAgree) {
  const TempFolder folder;
  folder.write("s1", file_of("a", {1}));
  folder.write("s2", file_of("b", {2}));
  const auto with = [&](std::string_view map) {
    folder.write("m.safetensors.index.json", index_of(map, 8));
    return refusal(folder.path());
  };
  EXPECT_EQ(with(R"("a":"s1","b":"s2")"), "accepted");
  EXPECT_NE(with(R"("a":"s1","b":"s2","c":"s2")").find("s2: the shard lacks tensor 'c'"),
            std::string::npos);
  EXPECT_NE(
      with(R"("a":"s1","c":"s2","b":"s1")").find("belongs to shard 's1' by the index"),
      std::string::npos);
  EXPECT_NE(with(R"("a":"s1","c":"s2")").find("s2: tensor 'b' is not in the index"),
            std::string::npos);
  EXPECT_NE(with(R"("a":"s1","b":"s3")").find("shard 's3' is missing"),
            std::string::npos);
  EXPECT_NE(with(R"("a":"s1","b":"../s2")").find("not a plain file name"),
            std::string::npos);
  // One tensor in two shards: whichever the index names, the other contradicts it.
  folder.write("s2", file_of("a", {2}));
  EXPECT_NE(with(R"("a":"s1","b":"s2")").find("s2: tensor 'a' belongs to shard 's1'"),
            std::string::npos);
}

TEST(SafetensorsFolder, ShardsMayBeLinksToFilesButNothingElse) {
  const TempFolder folder;
  folder.write("blobs/1", file_of("a", {1}));
  folder.write("snapshot/m.safetensors.index.json", index_of(R"("a":"s")", 4));
  std::filesystem::create_symlink("../blobs/1", folder / "snapshot/s");
  EXPECT_EQ(refusal(folder / "snapshot"), "accepted");
  std::filesystem::remove(folder / "snapshot/s");
  ASSERT_EQ(::mkfifo((folder / "snapshot/s").c_str(), 0600), 0);
  EXPECT_NE(refusal(folder / "snapshot").find("a pipe"), std::string::npos);
  std::filesystem::remove(folder / "snapshot/s");
  std::filesystem::create_directory(folder / "snapshot/s");
  EXPECT_NE(refusal(folder / "snapshot").find("a folder"), std::string::npos);
}

TEST(SafetensorsFolder, NothingToRead) {
  const TempFolder folder;
  EXPECT_NE(refusal(folder.path()).find("no safetensors file"), std::string::npos);
  folder.write("a.safetensors", file_of("w", {1}));
  folder.write("b.safetensors", file_of("w", {1}));
  EXPECT_NE(refusal(folder.path()).find("but no index"), std::string::npos);
}

TEST(CheckpointOpen, WhatIsNoCheckpointIsRefused) {
  const TempFolder folder;
  EXPECT_EQ(Checkpoint::open(folder / "none").error().code(), StatusCode::kNotFound);
  EXPECT_NE(refusal(folder.write("a.txt", "hello world")).find("neither safetensors"),
            std::string::npos);
  EXPECT_NE(refusal(folder.write("empty", "")).find("neither safetensors"),
            std::string::npos);
  EXPECT_NE(refusal(folder.write("m.safetensors", "hello world")).find("the header has"),
            std::string::npos);
}

}  // namespace
}  // namespace pith
