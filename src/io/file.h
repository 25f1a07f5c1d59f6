// Files for reading. The only place of io/ that opens an input.
//
//   PITH_TRY(InputFile file, InputFile::open("model.safetensors"));
//   PITH_OK(file.read_exact(0, header));
//
// Data is read by pread into the caller's memory: a file that shrinks meanwhile is an
// error, never a signal. Only regular files are read, and a link to one is one (the
// caches of model hubs are made of links); pipes, devices and folders are refused without
// blocking.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"

namespace pith {

/// A file descriptor that is closed at the end of its life.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What makes two names the same file.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FileId&, const FileId&) = default;
};

/// A regular file, open for reading. Thread-safe once it is open.
class InputFile {
 public:
  /// kNotFound; kIo if a system call fails; kUnsupported if it is no regular file.
  static Result<InputFile> open(const std::filesystem::path& path);

  /// The path it was opened by; name() is that path for messages.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// In bytes, asked once: every offset of the file is checked against this number.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] FileId id() const { return id_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// Fills `out` with the bytes from `offset` on. kCorrupt if the file has fewer: it is
  /// truncated, or shrank since it was opened; kIo if a system call fails.
  Status read_exact(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  friend class InputFolder;
  static Result<InputFile> open_at(int folder, const char* name,
                                   std::filesystem::path path);

  Descriptor descriptor_;
  std::filesystem::path path_;
  std::string name_;
  std::uint64_t size_ = 0;
  FileId id_;
};

/// A folder whose files are opened by plain names only, relative to the open folder: a
/// name that comes from a file can never lead out of it.
class InputFolder {
 public:
  /// kNotFound; kIo if a system call fails or it is no folder.
  static Result<InputFolder> open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Names of all entries but "." and "..", sorted.
  [[nodiscard]] Result<std::vector<std::string>> entries() const;
  /// kCorrupt if `name` is no plain file name; otherwise as InputFile::open.
  [[nodiscard]] Result<InputFile> open_file(std::string_view name) const;

 private:
  Descriptor descriptor_;
  std::filesystem::path path_;
  std::string name_;
};

/// True for a name that can only mean a file in its own folder: not empty, at most 255
/// bytes, no '/', '\' or NUL, no leading '.'.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

/// A file, or a part of it, in memory. Only for running kernels on weights in place, on
/// files that nobody shortens meanwhile: touching a page that is gone ends the process
/// with SIGBUS. Everything that rewrites a checkpoint reads by InputFile.
class MappedFile {
 public:
  MappedFile() = default;
  /// kCorrupt if the part is not inside the file; kIo or kNoSpace if it cannot be mapped.
  static Result<MappedFile> map(const InputFile& file, std::uint64_t offset,
                                std::uint64_t bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;  // of the first page
  std::size_t length_ = 0;
  std::span<const std::byte> bytes_;
};

/// A Status for a system call that failed: `name: action: reason`. ENOENT is kNotFound;
/// ENOSPC, EDQUOT, EFBIG and ENOMEM are kNoSpace; all else is kIo.
[[nodiscard]] Status system_error(int error, std::string_view name,
                                  std::string_view action);

}  // namespace pith
