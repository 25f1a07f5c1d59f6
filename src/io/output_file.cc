#include "src/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/checked.h"
#include "src/io/file.h"

namespace pith {
namespace {

// A call that a signal interrupted is made again; the flag its handler set is seen later.
template <typename Call>
auto retry(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

iovec memory_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // which is only read
}

}  // namespace

Status output_error(int error, std::string_view name, std::string_view action) {
  const Status status = system_error(error, name, action);
  if (status.code() != StatusCode::kNotFound) return status;
  return {StatusCode::kIo, status.message()};
}

Status check_free_space(int folder, std::uint64_t bytes, std::string_view name) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return {StatusCode::kNoSpace,
            fmt::format("{}: needs {} bytes, but files are limited to {} (ulimit -f)",
                        name, bytes, limit.rlim_cur)};
  }
  struct statvfs volume {};
  if (fstatvfs(folder, &volume) != 0 || volume.f_blocks == 0) return {};  // not known
  const CheckedSize free = CheckedSize(volume.f_bavail) * volume.f_frsize;
  if (!free.valid() || bytes <= free.value()) return {};
  return {StatusCode::kNoSpace,
          fmt::format("{}: needs {} bytes, but the disk has {} free", name, bytes,
                      free.value())};
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), shown_(std::move(other.shown_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(shown_, other.shown_);
  return *this;
}

Result<OutputFile> OutputFile::create(int folder, const char* name, std::string shown) {
  OutputFile file;
  file.shown_ = std::move(shown);
  file.fd_ = retry([&] {
    return ::openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0666);
  });
  if (file.fd_ >= 0) return file;
  const int error = errno;
  if (error == EEXIST) {
    return Status(StatusCode::kAlreadyExists, fmt::format("{}: exists", file.shown_));
  }
  return output_error(error, file.shown_, "cannot be created");
}

Result<OutputFile> OutputFile::open(int folder, const char* name, std::string shown,
                                    bool keep) {
  OutputFile file;
  file.shown_ = std::move(shown);
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (keep ? 0 : O_TRUNC);
  file.fd_ = retry([&] { return ::openat(folder, name, flags, 0666); });
  if (file.fd_ >= 0) return file;
  return output_error(errno, file.shown_, "cannot be created");
}

Status OutputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = retry(
        [&] { return ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (got <= 0) {
      return output_error(got == 0 ? EIO : errno, shown_,
                          fmt::format("cannot be read back at byte {}", offset));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status OutputFile::reserve(std::uint64_t bytes) const {
  if (bytes > INT64_MAX) return output_error(EFBIG, shown_, "cannot be made that long");
  const auto length = static_cast<off_t>(bytes);
  if (length == 0) return {};
  if (retry([&] { return ::fallocate(fd_, 0, 0, length); }) == 0) return {};
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    return output_error(errno, shown_, fmt::format("cannot set aside {} bytes", bytes));
  }
  // Such a file system tells only on writing that it is full.
  if (retry([&] { return ::ftruncate(fd_, length); }) == 0) return {};
  return output_error(errno, shown_, fmt::format("cannot be made {} bytes long", bytes));
}

Status OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> first,
                            std::span<const std::byte> second) const {
  while (!first.empty() || !second.empty()) {
    if (first.empty()) std::swap(first, second);
    const ssize_t written = retry([&] {
      const auto at = static_cast<off_t>(offset);
      if (second.empty()) return ::pwrite(fd_, first.data(), first.size(), at);
      const iovec both[] = {memory_of(first), memory_of(second)};
      return ::pwritev(fd_, both, 2, at);
    });
    if (written <= 0) {
      return output_error(written == 0 ? ENOSPC : errno, shown_,
                          fmt::format("cannot write at byte {}", offset));
    }
    const auto bytes = static_cast<std::size_t>(written);
    const std::size_t of_first = std::min(bytes, first.size());
    first = first.subspan(of_first);
    second = second.subspan(bytes - of_first);
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status OutputFile::finish(bool sync) {
  if (sync && retry([&] { return ::fsync(fd_); }) != 0) {
    return output_error(errno, shown_, "cannot be flushed to the disk");
  }
  // Some file systems report a failed write only here. After EINTR it is closed all the
  // same.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    return output_error(errno, shown_, "cannot be closed");
  }
  return {};
}

Status sync_folder(int folder, std::string_view name) {
  if (retry([&] { return ::fsync(folder); }) == 0) return {};
  if (errno == EINVAL || errno == EOPNOTSUPP) return {};
  return output_error(errno, name, "folder cannot be flushed to the disk");
}

}  // namespace pith
