#include "src/io/atomic_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "src/base/text.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

std::string shown_path(const fs::path& path) { return printable(path.native(), 160); }

std::optional<FileId> id_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

// Where an output goes: an open folder and a name in it.
struct Place {
  Descriptor folder;
  std::string name;
  std::string shown;
  std::optional<mode_t> mode;  // of what is there: its type and permissions
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// "out/" means the folder "out".
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

Result<Place> find_place(const fs::path& given, const OutputRules& rules) {
  const fs::path path = without_slash(given);
  Place place;
  place.shown = shown_path(path);
  place.name = path.filename();
  if (place.name.empty() || place.name == "." || place.name == "..") {
    return Status::invalid_argument(
        fmt::format("output '{}': expected the name of a file or folder", place.shown));
  }
  place.folder =
      Descriptor(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.folder.valid()) {
    const int error = errno;
    const std::string action =
        fmt::format("its folder '{}' cannot be opened", shown_path(folder_of(path)));
    const Status status = system_error(error, place.shown, action);
    if (status.code() != StatusCode::kNotFound) return status;
    return Status::invalid_argument(status.message() + "; create it first");
  }
  struct stat status {};
  if (::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) ==
      0) {
    place.mode = status.st_mode;
    if (S_ISLNK(status.st_mode) &&
        ::fstatat(place.folder.get(), place.name.c_str(), &status, 0) == 0 &&
        !S_ISREG(status.st_mode)) {
      return Status::invalid_argument(
          fmt::format("{}: is a link to something else than a file; name another output",
                      place.shown));
    }
  } else if (errno != ENOENT) {
    return output_error(errno, place.shown, "cannot be looked at");
  }
  const std::optional<FileId> output = id_of(path);
  for (const fs::path& input : rules.inputs) {
    if (output && output == id_of(input)) {
      return Status::invalid_argument(
          fmt::format("{}: is the input itself ({}); name another output", place.shown,
                      shown_path(input)));
    }
  }
  if (place.mode && !rules.overwrite) {
    return Status(StatusCode::kAlreadyExists,
                  fmt::format("{}: exists already", place.shown));
  }
  return place;
}

// An input must not lie in a folder that is replaced.
Status check_holds_no_input(const fs::path& path, const OutputRules& rules) {
  const std::optional<FileId> output = id_of(path);
  for (const fs::path& input : rules.inputs) {
    std::error_code ignored;
    const fs::path real = fs::canonical(input, ignored);
    if (output && (output == id_of(folder_of(without_slash(input))) ||
                   output == id_of(real.parent_path()))) {
      return Status::invalid_argument(
          fmt::format("{}: holds the input {}; name another output", shown_path(path),
                      shown_path(input)));
    }
  }
  return {};
}

bool is_of_weights(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

// The files of a folder whose loss loses no more than a checkpoint.
Result<std::vector<std::string>> list_replaceable(const fs::path& path,
                                                  std::span<const std::string> known) {
  PITH_TRY(const InputFolder folder, InputFolder::open(path));
  PITH_TRY(std::vector<std::string> names, folder.entries());
  bool checkpoint = names.empty();
  for (const std::string& name : names) {
    struct stat status {};
    if (::lstat((path / name).c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      return Status::invalid_argument(fmt::format(
          "{}: holds the folder '{}', so it is not replaced; name another output",
          folder.name(), printable(name)));
    }
    if (!is_of_weights(name) && name != "config.json" &&
        std::ranges::find(known, name) == known.end()) {
      return Status::invalid_argument(fmt::format(
          "{}: holds '{}', which the output does not have, so it is not replaced; remove "
          "that file or name another output",
          folder.name(), printable(name)));
    }
    checkpoint = checkpoint || name.ends_with(".safetensors");
  }
  if (checkpoint) return names;
  return Status::invalid_argument(
      fmt::format("{}: holds no safetensors file, so it is not replaced; name another "
                  "output",
                  folder.name()));
}

Status appeared_meanwhile(const std::string& shown) {
  return {StatusCode::kAlreadyExists, fmt::format("{}: appeared meanwhile", shown)};
}

// Renames within a folder, only if the new name is free.
int rename_new(int folder, const char* from, const char* to) {
  if (::renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  // File systems without that flag: a link fails as well if the name is taken.
  if (::linkat(folder, from, folder, to, 0) != 0) return -1;
  return ::unlinkat(folder, from, 0);
}

Status sync_after_rename(int folder, const std::string& shown) {
  const Status status = sync_folder(folder, shown);
  if (status.ok()) return status;
  return {status.code(),
          status.message() + "; the output is complete, but may not outlast a power cut"};
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const fs::path& path, const OutputRules& rules) {
  PITH_TRY(Place place, find_place(path, rules));
  AtomicFile out;
  if (place.mode && !S_ISREG(*place.mode) && !S_ISLNK(*place.mode)) {
    return Status::invalid_argument(
        fmt::format("{}: is {}; name a file", place.shown,
                    S_ISDIR(*place.mode) ? "a folder" : "no regular file"));
  }
  if (place.mode && S_ISREG(*place.mode)) out.mode_ = *place.mode & 0777;
  out.folder_ = std::move(place.folder);
  out.name_ = std::move(place.name);
  out.shown_ = std::move(place.shown);
  out.overwrite_ = rules.overwrite;
  remove_leftovers(out.folder_.get());
  if (rules.part_name.empty()) {
    PITH_TRY(out.temporary_,
             Temporary::make_file(out.folder_.get(), out.shown_, out.file_));
  } else {
    PITH_TRY(out.temporary_,
             Temporary::take_file(out.folder_.get(), rules.part_name, rules.keep_part,
                                  out.shown_, out.file_));
  }
  return out;
}

Status AtomicFile::check_space(std::uint64_t bytes) const {
  return check_free_space(folder_.get(), bytes, shown_);
}

Status AtomicFile::publish(bool sync, const CancelToken* cancel) {
  if (mode_ && ::fchmod(file_.descriptor(), *mode_) != 0) {
    return output_error(errno, shown_, "cannot get the permissions of the old file");
  }
  PITH_OK(file_.finish(sync));
  PITH_OK(check_cancelled(cancel));
  const char* from = temporary_.name().c_str();
  const int folder = folder_.get();
  const int result = overwrite_ ? ::renameat(folder, from, folder, name_.c_str())
                                : rename_new(folder, from, name_.c_str());
  if (result != 0) {
    if (errno == EEXIST) return appeared_meanwhile(shown_);
    return output_error(errno, shown_, "the temporary file cannot be renamed");
  }
  temporary_.release();
  return sync ? sync_after_rename(folder, shown_) : Status();
}

Result<AtomicFolder> AtomicFolder::create(const fs::path& path,
                                          const OutputRules& rules) {
  PITH_TRY(Place place, find_place(path, rules));
  AtomicFolder out;
  if (place.mode) {
    if (!S_ISDIR(*place.mode)) {
      return Status::invalid_argument(fmt::format(
          "{}: is no folder, but the output is one; name another", place.shown));
    }
    PITH_OK(check_holds_no_input(path, rules));
    PITH_TRY(out.old_files_, list_replaceable(path, rules.files));
    out.replaces_ = true;
  }
  out.folder_ = std::move(place.folder);
  out.name_ = std::move(place.name);
  out.shown_ = std::move(place.shown);
  remove_leftovers(out.folder_.get());
  if (rules.part_name.empty()) {
    PITH_TRY(out.temporary_,
             Temporary::make_folder(out.folder_.get(), out.shown_, out.inner_));
  } else {
    PITH_TRY(out.temporary_,
             Temporary::take_folder(out.folder_.get(), rules.part_name, rules.keep_part,
                                    out.shown_, out.inner_));
    out.may_be_there_ = true;
    out.keep_ = rules.keep_part;
  }
  if (out.replaces_ && ::fchmod(out.inner_.get(), *place.mode & 0777) != 0) {
    return output_error(errno, out.shown_,
                        "cannot get the permissions of the old folder");
  }
  return out;
}

Result<OutputFile> AtomicFolder::add_file(const std::string& name) {
  if (!is_plain_file_name(name)) {
    return Status::invalid_argument(
        fmt::format("{}: '{}' is not a plain file name", shown_, printable(name)));
  }
  temporary_.add_file(name);
  const std::string shown = fmt::format("{}/{}", shown_, name);
  if (may_be_there_) {
    const bool weights = keep_ && name.ends_with(".safetensors");
    return OutputFile::open(inner_.get(), name.c_str(), shown, weights);
  }
  Result<OutputFile> file = OutputFile::create(inner_.get(), name.c_str(), shown);
  if (!file && file.error().code() == StatusCode::kAlreadyExists) {
    return Status::invalid_argument(
        fmt::format("{}: two files of the name '{}'", shown_, printable(name)));
  }
  return file;
}

Status AtomicFolder::check_space(std::uint64_t bytes) const {
  return check_free_space(folder_.get(), bytes, shown_);
}

Status AtomicFolder::publish(bool sync, const CancelToken* cancel) {
  if (sync) PITH_OK(sync_folder(inner_.get(), shown_));
  PITH_OK(check_cancelled(cancel));
  const int folder = folder_.get();
  const char* from = temporary_.name().c_str();
  const unsigned flags = replaces_ ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  int result = ::renameat2(folder, from, folder, name_.c_str(), flags);
  if (result != 0 && !replaces_ && (errno == EINVAL || errno == ENOSYS)) {
    result = ::renameat(folder, from, folder, name_.c_str());  // an empty folder at most
  }
  if (result != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return appeared_meanwhile(shown_);
    if (replaces_ && (errno == EINVAL || errno == ENOSYS)) {
      return Status::unsupported(fmt::format(
          "{}: this file system cannot replace a folder in one step; remove it first",
          shown_));
    }
    return output_error(errno, shown_, "the temporary folder cannot be renamed");
  }
  if (!replaces_) temporary_.release();
  const Status synced = sync ? sync_after_rename(folder, shown_) : Status();
  if (replaces_) {
    // The temporary name is the old folder's now. It goes only after the exchange is on
    // the disk, and whatever is left of it is a leftover for the next run.
    remove_folder(folder, from, old_files_);
    temporary_.release();
  }
  return synced;
}

}  // namespace pith
