// Temporary names: how they look, who owns them, and how those of the dead are removed.
//
// A temporary file or folder is called ".pith-PID-N.tmp" and lies in the folder of what
// it will become. Its owner holds a lock (flock) on it, which ends with the process
// however that ends; so one whose lock can be had is a leftover of a killed run, on this
// machine or on another that shares the disk, and is removed by the next run that writes
// there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "src/io/file.h"
#include "src/io/output_file.h"

namespace pith {

/// Removes the leftovers of killed runs from an open folder. Whatever cannot be removed
/// stays.
void remove_leftovers(int folder) noexcept;

/// Removes a folder of files by its name in an open folder, as far as possible. No memory
/// is needed if `files` are all that is in it.
void remove_folder(int folder, const char* name,
                   std::span<const std::string> files) noexcept;

/// A temporary name in an open folder, locked; it is removed with the object unless
/// release() was called.
class Temporary {
 public:
  Temporary() = default;
  ~Temporary();
  Temporary(Temporary&& other) noexcept;
  Temporary& operator=(Temporary&& other) noexcept;

  /// A new file, open in `file`. `folder` must stay open. kIo or kNoSpace.
  static Result<Temporary> make_file(int folder, const std::string& shown,
                                     OutputFile& file);
  /// A new folder, open in `descriptor`.
  static Result<Temporary> make_folder(int folder, const std::string& shown,
                                       Descriptor& descriptor);

  /// A file or folder of a name that is known to a later run, which may continue it: what
  /// is there stays if `keep`. kAlreadyExists if a live run has it. Such names are not
  /// removed as leftovers.
  static Result<Temporary> take_file(int folder, const std::string& name, bool keep,
                                     const std::string& shown, OutputFile& file);
  static Result<Temporary> take_folder(int folder, const std::string& name, bool keep,
                                       const std::string& shown, Descriptor& descriptor);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Tells of a file that is about to be made in a temporary folder.
  void add_file(const std::string& file) { files_.push_back(file); }
  /// The name is no longer this object's: it was renamed.
  void release() { name_.clear(); }

 private:
  int folder_ = -1;
  std::string name_;
  bool is_folder_ = false;
  std::vector<std::string> files_;  // in the folder
  Descriptor lock_;  // the same open file as the one written: closing that one keeps it
};

}  // namespace pith
