#include "src/io/atomic_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::file_bytes;

namespace fs = std::filesystem;
using testing::TempFolder;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

Status write_file(const fs::path& path, std::string_view text, OutputRules rules = {}) {
  PITH_TRY(AtomicFile out, AtomicFile::create(path, rules));
  PITH_OK(out.file().write_at(0, text));
  return out.publish(true, nullptr);
}

Status write_folder(const fs::path& path, const std::vector<std::string>& names,
                    OutputRules rules = {}) {
  PITH_TRY(AtomicFolder out, AtomicFolder::create(path, rules));
  for (const std::string& name : names) {
    PITH_TRY(OutputFile file, out.add_file(name));
    PITH_OK(file.write_at(0, name));
    PITH_OK(file.finish(true));
  }
  return out.publish(true, nullptr);
}

TEST(AtomicFile, AppearsOnlyWhenPublished) {
  const TempFolder folder;
  {
    auto out = AtomicFile::create(folder / "a", {});
    ASSERT_TRUE(out);
    ASSERT_TRUE(out->file().reserve(1000).ok());
    ASSERT_TRUE(out->file().write_at(0, "new").ok());
    ASSERT_EQ(names_in(folder.path()).size(), 1u);
    EXPECT_NE(names_in(folder.path())[0], "a");
    EXPECT_TRUE(names_in(folder.path())[0].starts_with(".pith-"));
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
  EXPECT_TRUE(write_file(folder / "a", "new").ok());
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  EXPECT_EQ(file_bytes(folder / "a"), "new");
}

TEST(AtomicFile, ReservedBytesThatAreNotWrittenAreZero) {
  const TempFolder folder;
  auto out = AtomicFile::create(folder / "a", {});
  ASSERT_TRUE(out);
  ASSERT_TRUE(out->file().reserve(5).ok());
  ASSERT_TRUE(out->file().write_at(1, "xy").ok());
  ASSERT_TRUE(out->publish(false, nullptr).ok());
  EXPECT_EQ(file_bytes(folder / "a"), std::string("\0xy\0\0", 5));
}

TEST(AtomicFile, ReplacesOnlyIfToldTo) {
  const TempFolder folder;
  folder.write("a", "old");
  EXPECT_EQ(write_file(folder / "a", "new").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(file_bytes(folder / "a"), "old");
  EXPECT_TRUE(write_file(folder / "a", "new", {.overwrite = true}).ok());
  EXPECT_EQ(file_bytes(folder / "a"), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFileThatAppearsMeanwhileStays) {
  const TempFolder folder;
  auto out = AtomicFile::create(folder / "a", {});
  ASSERT_TRUE(out);
  folder.write("a", "somebody else's");
  EXPECT_EQ(out->publish(true, nullptr).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(file_bytes(folder / "a"), "somebody else's");
}

TEST(AtomicFile, PermissionsAreTheUmaskOrThoseOfTheOldFile) {
  const TempFolder folder;
  const mode_t old_mask = ::umask(027);
  EXPECT_TRUE(write_file(folder / "new", "x").ok());
  folder.write("old", "x");
  fs::permissions(folder / "old", static_cast<fs::perms>(0604));
  EXPECT_TRUE(write_file(folder / "old", "y", {.overwrite = true}).ok());
  ::umask(old_mask);
  EXPECT_EQ(mode_of(folder / "new"), 0640u);
  EXPECT_EQ(mode_of(folder / "old"), 0604u);
}

TEST(AtomicFile, TheInputIsRefusedByAnyName) {
  const TempFolder folder;
  folder.write("in", "data");
  folder.write("sub/x", "");
  fs::create_symlink("in", folder / "link");
  fs::create_hard_link(folder / "in", folder / "hard");
  const std::vector<fs::path> inputs = {folder / "in"};
  for (const char* name : {"in", "link", "hard", "sub/../in"}) {
    const Status s =
        write_file(folder / name, "new", {.overwrite = true, .inputs = inputs});
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(file_bytes(folder / "in"), "data");
}

TEST(AtomicFile, ALinkIsReplacedNotWhatItPointsTo) {
  const TempFolder folder;
  folder.write("blob", "shared");
  fs::create_symlink("blob", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  EXPECT_EQ(write_file(folder / "dangling", "x").code(), StatusCode::kAlreadyExists);
  const OutputRules rules{.overwrite = true};
  EXPECT_TRUE(write_file(folder / "link", "new", rules).ok());
  EXPECT_TRUE(write_file(folder / "dangling", "new", rules).ok());
  EXPECT_EQ(file_bytes(folder / "blob"), "shared");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "link")));
  EXPECT_EQ(file_bytes(folder / "dangling"), "new");
}

TEST(AtomicFile, WhatIsNoFileIsNotReplaced) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  fs::create_symlink("folder", folder / "link");
  const OutputRules rules{.overwrite = true};
  for (const fs::path& path :
       {folder / "pipe", folder / "folder", folder / "link", fs::path("/dev/null"),
        folder / "missing/file", folder / "..", fs::path(""), fs::path("/")}) {
    EXPECT_EQ(write_file(path, "x", rules).code(), StatusCode::kInvalidArgument) << path;
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(AtomicFile, StopsBeforeItAppears) {
  const TempFolder folder;
  folder.write("a", "old");
  CancelToken stop;
  stop.request();
  {
    auto out = AtomicFile::create(folder / "a", {.overwrite = true});
    ASSERT_TRUE(out);
    EXPECT_EQ(out->publish(true, &stop).code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(file_bytes(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()).size(), 1u);
}

TEST(AtomicFile, TooLittleSpaceIsSaidBefore) {
  const TempFolder folder;
  auto out = AtomicFile::create(folder / "a", {});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->check_space(1000).ok());
  const Status s = out->check_space(std::uint64_t{1} << 60);
  EXPECT_EQ(s.code(), StatusCode::kNoSpace);
  EXPECT_NE(s.message().find("free"), std::string::npos) << s.message();
}

TEST(Leftovers, OfTheDeadGoOfTheLivingStay) {
  const TempFolder folder;
  folder.write(".pith-1-0.tmp", "left by a killed run");
  folder.write(".pith-1-1.tmp/model.safetensors", "a folder left by one");
  folder.write("my.pith-1.tmp", "mine");
  folder.write(".pith-note", "mine");
  auto living = AtomicFile::create(folder / "a", {});
  auto living_folder = AtomicFolder::create(folder / "b", {});
  ASSERT_TRUE(living && living_folder);
  EXPECT_EQ(names_in(folder.path()).size(), 4u);
  EXPECT_TRUE(write_file(folder / "c", "x").ok());
  EXPECT_TRUE(living->publish(true, nullptr).ok());
  EXPECT_TRUE(living_folder->publish(true, nullptr).ok());
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{".pith-note", "a", "b", "c", "my.pith-1.tmp"}));
}

TEST(AtomicFolder, AppearsOnlyWhenPublished) {
  const TempFolder folder;
  {
    auto out = AtomicFolder::create(folder / "out/", {});
    ASSERT_TRUE(out);
    ASSERT_TRUE(out->add_file("model.safetensors"));
    EXPECT_EQ(out->add_file("model.safetensors").error().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(out->add_file("../escape").error().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
  EXPECT_TRUE(write_folder(folder / "out", {"model.safetensors", "config.json"}).ok());
  EXPECT_EQ(names_in(folder / "out"),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
}

TEST(AtomicFolder, ReplacesAWholeCheckpoint) {
  const TempFolder folder;
  folder.write("out/model-00001-of-00002.safetensors", "old");
  folder.write("out/tokenizer.json", "old");
  fs::permissions(folder / "out", static_cast<fs::perms>(0751));
  EXPECT_EQ(write_folder(folder / "out", {"model.safetensors"}).code(),
            StatusCode::kAlreadyExists);
  const std::vector<std::string> files = {"tokenizer.json"};
  const OutputRules rules{.overwrite = true, .files = files};
  EXPECT_TRUE(write_folder(folder / "out", {"model.safetensors"}, rules).ok());
  EXPECT_EQ(names_in(folder / "out"), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
  EXPECT_EQ(mode_of(folder / "out"), 0751u);
}

TEST(AtomicFolder, DoesNotReplaceWhatIsNoCheckpoint) {
  const TempFolder folder;
  folder.write("home/letter.txt", "dear");
  folder.write("repository/model.safetensors", "x");
  folder.write("repository/.git/HEAD", "x");
  folder.write("results/model.safetensors", "x");
  folder.write("results/notes.txt", "measured");
  folder.write("file", "x");
  fs::create_directory(folder / "empty");
  const OutputRules rules{.overwrite = true};
  for (const char* name : {"home", "repository", "results", "file", "."}) {
    EXPECT_EQ(write_folder(folder / name, {"model.safetensors"}, rules).code(),
              StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(file_bytes(folder / "home/letter.txt"), "dear");
  EXPECT_EQ(file_bytes(folder / "results/notes.txt"), "measured");
  EXPECT_TRUE(write_folder(folder / "empty", {"model.safetensors"}, rules).ok());
}

TEST(AtomicFolder, DoesNotReplaceTheFolderOfAnInput) {
  const TempFolder folder;
  folder.write("m/model.safetensors", "data");
  fs::create_directory_symlink("m", folder / "link");
  const std::vector<fs::path> file = {folder / "m/model.safetensors"};
  const std::vector<fs::path> whole = {folder / "m"};
  const std::vector<fs::path> link = {folder / "link/"};
  for (const auto& inputs : {file, whole, link}) {
    EXPECT_EQ(write_folder(folder / "m", {"a.safetensors"},
                           {.overwrite = true, .inputs = inputs})
                  .code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(file_bytes(folder / "m/model.safetensors"), "data");
}

}  // namespace
}  // namespace pith
