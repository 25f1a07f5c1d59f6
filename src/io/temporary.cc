#include "src/io/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace pith {
namespace {

constexpr std::string_view kTemporaryPrefix = ".pith-";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr int kAttempts = 100;  // names tried before something else must be wrong

std::string next_name() {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}{}-{}{}", kTemporaryPrefix, ::getpid(), count++,
                     kTemporarySuffix);
}

bool is_temporary_name(std::string_view name) {
  return name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix);
}

/// Names in an open folder that `keep` wants; none if it cannot be read.
template <typename Keep>
std::vector<std::string> names_in(int folder, const Keep& keep) {
  std::vector<std::string> names;
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return names;
  struct Close {
    void operator()(DIR* list) const { ::closedir(list); }
  };
  const std::unique_ptr<DIR, Close> list(::fdopendir(fd));
  if (list == nullptr) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && keep(name)) names.emplace_back(name);
  }
  return names;
}

void remove_if_dead(int folder, const char* name) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int fd = ::openat(folder, name, O_RDWR | kFlags);
  if (fd < 0 && errno == EISDIR) fd = ::openat(folder, name, O_RDONLY | kFlags);
  const Descriptor descriptor(fd);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) return;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return;  // its owner lives
  if (S_ISDIR(status.st_mode)) {
    remove_folder(folder, name, {});
  } else {
    ::unlinkat(folder, name, 0);
  }
}

}  // namespace

void remove_leftovers(int folder) noexcept {
  try {
    for (const std::string& name : names_in(folder, is_temporary_name)) {
      remove_if_dead(folder, name.c_str());
    }
  } catch (const std::bad_alloc&) {  // the next run has more memory
  }
}

void remove_folder(int folder, const char* name,
                   std::span<const std::string> files) noexcept {
  const Descriptor inner(
      ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (inner.valid()) {
    for (const std::string& file : files) ::unlinkat(inner.get(), file.c_str(), 0);
  }
  if (::unlinkat(folder, name, AT_REMOVEDIR) == 0 || !inner.valid()) return;
  try {
    for (const std::string& file :
         names_in(inner.get(), [](std::string_view) { return true; })) {
      ::unlinkat(inner.get(), file.c_str(), 0);
    }
  } catch (const std::bad_alloc&) {
  }
  ::unlinkat(folder, name, AT_REMOVEDIR);
}

Temporary::~Temporary() {
  if (name_.empty()) return;
  if (is_folder_) {
    remove_folder(folder_, name_.c_str(), files_);
  } else {
    ::unlinkat(folder_, name_.c_str(), 0);
  }
}

Temporary::Temporary(Temporary&& other) noexcept
    : folder_(other.folder_),
      name_(std::exchange(other.name_, {})),
      is_folder_(other.is_folder_),
      files_(std::move(other.files_)),
      lock_(std::move(other.lock_)) {}

Temporary& Temporary::operator=(Temporary&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  std::swap(is_folder_, other.is_folder_);
  std::swap(files_, other.files_);
  std::swap(lock_, other.lock_);
  return *this;
}

namespace {

// Locks what was just made. False if another run took it for a leftover in the moment
// before: then it is gone, and the next name is tried. Where there are no locks nobody
// can tell a leftover either, so nothing is lost without one.
bool lock_new(int fd) {
  while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat status {};
  return ::fstat(fd, &status) != 0 || status.st_nlink > 0;
}

}  // namespace

namespace {

Status is_being_written(const std::string& shown) {
  return {StatusCode::kIo, fmt::format("{}: another run is writing it just now", shown)};
}

}  // namespace

Result<Temporary> Temporary::make_file(int folder, const std::string& shown,
                                       OutputFile& file) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Temporary temporary;
    temporary.folder_ = folder;
    std::string name = next_name();
    Result<OutputFile> made = OutputFile::create(folder, name.c_str(), shown);
    if (!made && made.error().code() == StatusCode::kAlreadyExists) continue;
    if (!made) return made.error();
    temporary.name_ = std::move(name);
    temporary.lock_ = Descriptor(::fcntl(made->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!temporary.lock_.valid()) {
      return output_error(errno, shown, "cannot be opened twice");
    }
    if (!lock_new(temporary.lock_.get())) continue;
    file = *std::move(made);
    return temporary;
  }
  return output_error(EEXIST, shown, "no temporary name is free");
}

Result<Temporary> Temporary::take_file(int folder, const std::string& name, bool keep,
                                       const std::string& shown, OutputFile& file) {
  // Not truncated before it is known that nobody else writes it.
  PITH_TRY(OutputFile made, OutputFile::open(folder, name.c_str(), shown, true));
  Temporary temporary;
  temporary.folder_ = folder;
  temporary.lock_ = Descriptor(::fcntl(made.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!temporary.lock_.valid())
    return output_error(errno, shown, "cannot be opened twice");
  if (::flock(temporary.lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return is_being_written(shown);
  }
  if (!keep && ::ftruncate(made.descriptor(), 0) != 0) {
    return output_error(errno, shown, "what a killed run left cannot be cleared");
  }
  temporary.name_ = name;
  file = std::move(made);
  return temporary;
}

Result<Temporary> Temporary::take_folder(int folder, const std::string& name, bool keep,
                                         const std::string& shown,
                                         Descriptor& descriptor) {
  if (::mkdirat(folder, name.c_str(), 0777) != 0 && errno != EEXIST) {
    return output_error(errno, shown, "folder cannot be created");
  }
  Temporary temporary;
  temporary.folder_ = folder;
  temporary.is_folder_ = true;
  Descriptor opened(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) return output_error(errno, shown, "folder cannot be opened");
  temporary.lock_ = Descriptor(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 0));
  if (!temporary.lock_.valid()) {
    return output_error(errno, shown, "folder cannot be opened twice");
  }
  if (::flock(temporary.lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return is_being_written(shown);
  }
  if (!keep) {
    for (const std::string& file :
         names_in(opened.get(), [](std::string_view) { return true; })) {
      ::unlinkat(opened.get(), file.c_str(), 0);
    }
  }
  temporary.name_ = name;
  descriptor = std::move(opened);
  return temporary;
}

Result<Temporary> Temporary::make_folder(int folder, const std::string& shown,
                                         Descriptor& descriptor) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Temporary temporary;
    temporary.folder_ = folder;
    temporary.is_folder_ = true;
    std::string name = next_name();
    if (::mkdirat(folder, name.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return output_error(errno, shown, "folder cannot be created");
    }
    temporary.name_ = std::move(name);
    Descriptor opened(::openat(folder, temporary.name_.c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened.valid()) {
      // Gone already: another run took it for a leftover.
      if (errno == ENOENT) continue;
      return output_error(errno, shown, "folder cannot be opened");
    }
    temporary.lock_ = Descriptor(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 0));
    if (!temporary.lock_.valid()) {
      return output_error(errno, shown, "folder cannot be opened twice");
    }
    if (!lock_new(temporary.lock_.get())) continue;
    descriptor = std::move(opened);
    return temporary;
  }
  return output_error(EEXIST, shown, "no temporary name is free");
}

}  // namespace pith
