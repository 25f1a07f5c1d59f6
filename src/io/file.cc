#include "src/io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"

namespace pith {
namespace {

// Long enough for real paths, short enough that a message stays under 400 bytes.
constexpr std::size_t kShownPath = 160;

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Status system_error(int error, std::string_view name, std::string_view action) {
  StatusCode code = StatusCode::kIo;
  if (error == ENOENT || error == ENOTDIR) code = StatusCode::kNotFound;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM) {
    code = StatusCode::kNoSpace;
  }
  return {code, fmt::format("{}: {}: {}", name, action,
                            std::generic_category().message(error))};
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\\\0", 3);
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  return open_at(AT_FDCWD, path.c_str(), path);
}

Result<InputFile> InputFile::open_at(int folder, const char* name,
                                     std::filesystem::path path) {
  InputFile file;
  file.name_ = printable(path.native(), kShownPath);
  file.path_ = std::move(path);
  // O_NONBLOCK: opening a pipe would wait for a writer. It does not change how regular
  // files are read.
  file.descriptor_ =
      Descriptor(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.descriptor_.valid()) {
    if (errno == ENXIO) {  // a socket, or a device that is not there
      return Status::unsupported(file.name_ +
                                 ": not a regular file, and only those are read");
    }
    return system_error(errno, file.name_, "cannot open");
  }
  struct stat info = {};
  if (::fstat(file.descriptor_.get(), &info) != 0) {
    return system_error(errno, file.name_, "cannot stat");
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::unsupported(fmt::format("{}: {}, and only regular files are read",
                                           file.name_, kind_of(info.st_mode)));
  }
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  file.id_ = {info.st_dev, info.st_ino};
  return file;
}

Status InputFile::read_exact(std::uint64_t offset, std::span<std::byte> out) const {
  const CheckedSize end = CheckedSize(offset) + out.size();
  if (!end.at_most(size_)) {
    return Status::corrupt(
        fmt::format("{}: {} bytes at byte {} are beyond the end, the file has {}", name_,
                    out.size(), offset, size_));
  }
  while (!out.empty()) {
    const ssize_t got =
        ::pread(descriptor_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, name_, "cannot read");
    }
    if (got == 0) {
      return Status::corrupt(
          fmt::format("{}: shrank while it was read: it had {} bytes and ends at or "
                      "before byte {} now",
                      name_, size_, offset));
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<InputFolder> InputFolder::open(const std::filesystem::path& path) {
  InputFolder folder;
  folder.path_ = path;
  folder.name_ = printable(path.native(), kShownPath);
  folder.descriptor_ =
      Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.descriptor_.valid())
    return system_error(errno, folder.name_, "cannot open");
  return folder;
}

Result<std::vector<std::string>> InputFolder::entries() const {
  // A descriptor of its own: fdopendir takes it over, and its position is not shared.
  const int fd = ::openat(descriptor_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(errno, name_, "cannot list");
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(::fdopendir(fd));
  if (stream == nullptr) {
    const int error = errno;
    ::close(fd);
    return system_error(error, name_, "cannot list");
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return system_error(errno, name_, "cannot list");
  std::sort(names.begin(), names.end());
  return names;
}

Result<InputFile> InputFolder::open_file(std::string_view name) const {
  if (!is_plain_file_name(name)) {
    return Status::corrupt(fmt::format(
        "{}: '{}' is not a plain file name: it must name a file of this folder", name_,
        printable(name)));
  }
  const std::string plain(name);
  return InputFile::open_at(descriptor_.get(), plain.c_str(), path_ / plain);
}

Result<MappedFile> MappedFile::map(const InputFile& file, std::uint64_t offset,
                                   std::uint64_t bytes) {
  MappedFile mapped;
  if (!(CheckedSize(offset) + bytes).at_most(file.size())) {
    return Status::corrupt(
        fmt::format("{}: {} bytes at byte {} are beyond the end, the file has {}",
                    file.name(), bytes, offset, file.size()));
  }
  if (bytes == 0) return mapped;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t before = offset % page;
  mapped.length_ = static_cast<std::size_t>(before + bytes);
  void* base = ::mmap(nullptr, mapped.length_, PROT_READ, MAP_SHARED, file.descriptor(),
                      static_cast<off_t>(offset - before));
  if (base == MAP_FAILED) return system_error(errno, file.name(), "cannot map");
  mapped.base_ = base;
  mapped.bytes_ = {static_cast<const std::byte*>(base) + before,
                   static_cast<std::size_t>(bytes)};
  return mapped;
}

MappedFile::~MappedFile() {
  if (base_ != nullptr) ::munmap(base_, length_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(length_, other.length_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace pith
