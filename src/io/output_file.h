// Files for writing, by system calls whose every failure is seen: no stdio, no mapping.
//
//   PITH_TRY(OutputFile file, OutputFile::create(folder_fd, "model.safetensors",
//   "out/model")); PITH_OK(file.reserve(size));         // space first: a full disk shows
//   before the work PITH_OK(file.write_at(4096, bytes));  // any order, any thread
//   PITH_OK(file.finish(true));          // flushed and closed
//
// The file is where it was created; atomic_file.h and atomic_folder.h make it appear
// under its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pith/base/result.h"

namespace pith {

/// Bytes that are free for this user where `folder` is; kNoSpace if `bytes` are more.
/// `name` is for messages.
Status check_free_space(int folder, std::uint64_t bytes, std::string_view name);

class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  /// A new file in an open folder; kIo or kNoSpace if it cannot be made, kAlreadyExists
  /// if the name is taken. `shown` is its name in messages.
  static Result<OutputFile> create(int folder, const char* name, std::string shown);
  /// The same, or one that is there already: its bytes stay if `keep`.
  static Result<OutputFile> open(int folder, const char* name, std::string shown,
                                 bool keep);

  /// Makes it `bytes` long, with the space set aside where the file system can do that.
  /// What is not written reads as zeros. kNoSpace or kIo.
  Status reserve(std::uint64_t bytes) const;

  /// Two stretches of memory, one behind the other. Thread-safe. kNoSpace or kIo.
  Status write_at(std::uint64_t offset, std::span<const std::byte> first,
                  std::span<const std::byte> second) const;
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    return write_at(offset, {}, bytes);
  }
  Status write_at(std::uint64_t offset, std::string_view text) const {
    return write_at(offset, std::as_bytes(std::span(text.data(), text.size())));
  }

  /// Bytes that were written before; kIo if there are fewer.
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// Flushes to the disk if `sync`, and closes. kNoSpace or kIo: the content is then not
  /// to be trusted.
  Status finish(bool sync);

  [[nodiscard]] int descriptor() const { return fd_; }
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  int fd_ = -1;
  std::string shown_;
};

/// system_error for an output: a name that is not there is kIo, not a missing input.
[[nodiscard]] Status output_error(int error, std::string_view name,
                                  std::string_view action);

/// fsync of a folder, so that names in it last. File systems that cannot do it are left
/// alone. `name` is for messages.
Status sync_folder(int folder, std::string_view name);

}  // namespace pith
