#include "src/io/file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::TempFolder;

std::string read(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '?');
  const Status s = file.read_exact(offset, std::as_writable_bytes(std::span(out)));
  return s.ok() ? out : s.message();
}

TEST(InputFile, ReadsAnyPart) {
  const TempFolder folder;
  const auto file = InputFile::open(folder.write("a", "0123456789"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(read(*file, 0, 10), "0123456789");
  EXPECT_EQ(read(*file, 3, 2), "34");
  EXPECT_EQ(read(*file, 10, 0), "");
}

TEST(InputFile, BeyondTheEndIsCorrupt) {
  const TempFolder folder;
  const auto file = InputFile::open(folder.write("a", "0123456789"));
  ASSERT_TRUE(file);
  std::array<std::byte, 4> out;
  EXPECT_EQ(file->read_exact(7, out).code(), StatusCode::kCorrupt);
  EXPECT_EQ(file->read_exact(UINT64_MAX - 1, out).code(), StatusCode::kCorrupt);
}

TEST(InputFile, AFileThatShrinksIsCorrupt) {
  const TempFolder folder;
  const auto path = folder.write("a", std::string(100000, 'x'));
  const auto file = InputFile::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 50000);
  std::string out(100000, '?');
  const Status s = file->read_exact(0, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(s.code(), StatusCode::kCorrupt);
  EXPECT_NE(s.message().find("shrank while it was read"), std::string::npos)
      << s.message();
}

TEST(InputFile, LinksToRegularFilesAreFine) {
  const TempFolder folder;
  const auto path = folder.write("blob", "abc");
  std::filesystem::create_symlink(path, folder / "model.safetensors");
  const auto file = InputFile::open(path);
  const auto link = InputFile::open(folder / "model.safetensors");
  ASSERT_TRUE(file && link);
  EXPECT_EQ(read(*link, 0, 3), "abc");
  EXPECT_EQ(file->id(), link->id());
}

TEST(InputFile, WhatIsNoRegularFileIsRefusedWithoutBlocking) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = folder / "socket";
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, name.c_str(), name.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::filesystem::create_symlink(folder / "pipe", folder / "link");
  for (const std::filesystem::path& path :
       {folder / "pipe", folder / "socket", folder / "link", folder.path(),
        std::filesystem::path("/dev/zero"), std::filesystem::path("/dev/null")}) {
    const auto file = InputFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code(), StatusCode::kUnsupported) << file.error().message();
  }
  ::close(fd);
}

TEST(InputFile, MissingFilesAndLoops) {
  const TempFolder folder;
  EXPECT_EQ(InputFile::open(folder / "none").error().code(), StatusCode::kNotFound);
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  EXPECT_EQ(InputFile::open(folder / "loop").error().code(), StatusCode::kIo);
}

TEST(InputFile, NamesInMessagesAreEscapedAndShort) {
  const TempFolder folder;
  const auto file = InputFile::open(folder / (std::string(200, 'a') + "\x1b[2J\n"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message().find('\x1b'), std::string::npos);
  EXPECT_EQ(file.error().message().find('\n'), std::string::npos);
  EXPECT_LT(file.error().message().size(), 400u);
}

TEST(InputFolder, OpensPlainNamesOnly) {
  const TempFolder folder;
  folder.write("in/a", "abc");
  folder.write("secret", "xyz");
  const auto in = InputFolder::open(folder / "in");
  ASSERT_TRUE(in);
  const auto file = in->open_file("a");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path(), folder / "in/a");
  for (const std::string& name :
       {std::string("../secret"), std::string("/etc/passwd"), std::string(".."),
        std::string("."), std::string(""), std::string("./a"), std::string("..\\secret"),
        std::string(".hidden"), std::string("a\0b", 3), std::string(256, 'a')}) {
    const auto bad = in->open_file(name);
    ASSERT_FALSE(bad) << name;
    EXPECT_EQ(bad.error().code(), StatusCode::kCorrupt) << name;
  }
}

TEST(InputFolder, ListsItsEntriesSorted) {
  const TempFolder folder;
  folder.write("b", "");
  folder.write("a", "");
  folder.write(".c", "");
  const auto in = InputFolder::open(folder.path());
  ASSERT_TRUE(in);
  for (int round = 0; round < 2; ++round) {
    const auto names = in->entries();
    ASSERT_TRUE(names);
    EXPECT_EQ(*names, (std::vector<std::string>{".c", "a", "b"}));
  }
  EXPECT_EQ(InputFolder::open(folder / "none").error().code(), StatusCode::kNotFound);
}

TEST(MappedFile, MapsAnyPart) {
  const TempFolder folder;
  std::string text(10000, 'x');
  text[5000] = 'y';
  const auto file = InputFile::open(folder.write("a", text));
  ASSERT_TRUE(file);
  auto mapped = MappedFile::map(*file, 5000, 100);
  ASSERT_TRUE(mapped);
  const MappedFile moved = *std::move(mapped);
  ASSERT_EQ(moved.bytes().size(), 100u);
  EXPECT_EQ(moved.bytes()[0], std::byte{'y'});
  EXPECT_EQ(moved.bytes()[99], std::byte{'x'});
  EXPECT_TRUE(MappedFile::map(*file, 10000, 0));
  EXPECT_EQ(MappedFile::map(*file, 9999, 2).error().code(), StatusCode::kCorrupt);
  EXPECT_EQ(MappedFile::map(*file, 2, UINT64_MAX).error().code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace pith
