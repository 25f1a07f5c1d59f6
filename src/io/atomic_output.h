// Outputs that appear all at once or not at all.
//
//   PITH_TRY(AtomicFile out, AtomicFile::create("model.safetensors", place));
//   PITH_OK(out.file().write_at(0, bytes));
//   PITH_OK(out.publish(true, nullptr));
//
// The order that makes it safe: space is set aside; everything is written to a temporary
// name in the same folder; fsync; close; rename; fsync of the folder. Whoever looks sees
// the old output or the complete new one, after a crash too. The temporary is removed
// when the object goes without having been published.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/result.h"
#include "src/io/file.h"
#include "src/io/output_file.h"
#include "src/io/temporary.h"

namespace pith {

/// What an output must respect.
struct OutputRules {
  bool overwrite = false;                              ///< it may replace what is there
  std::span<const std::filesystem::path> inputs = {};  ///< what it may not touch
  std::string part_name = {};  ///< of the temporary, if a later run may continue it
  bool keep_part = false;      ///< continue what is there
  /// Of a folder: files that it will have beside those of weights. One that has others, of
  /// whomever they are, is not replaced.
  std::span<const std::string> files = {};
};

/// One file.
class AtomicFile {
 public:
  /// kInvalidArgument if the output's folder is not there, or the output is an input or
  /// no regular file; kAlreadyExists; kNoSpace or kIo.
  static Result<AtomicFile> create(const std::filesystem::path& path,
                                   const OutputRules& rules);

  OutputFile& file() { return file_; }
  /// kNoSpace if there is not room for that much, before anything is written.
  Status check_space(std::uint64_t bytes) const;
  /// Flushes if `sync`, and gives the file its name. kCancelled if that was requested
  /// before; kAlreadyExists if something bears the name by now and may not be replaced.
  Status publish(bool sync, const CancelToken* cancel);

 private:
  Descriptor folder_;  // outlives the temporary, which is removed by it
  Temporary temporary_;
  OutputFile file_;
  std::string name_;
  std::string shown_;
  bool overwrite_ = false;
  std::optional<mode_t> mode_;  // of the file that is replaced
};

/// A folder of files. One that is replaced must hold nothing but files, and look like a
/// checkpoint or be empty: nobody loses a home directory by a slip of the hand.
class AtomicFolder {
 public:
  /// As AtomicFile::create; also kInvalidArgument if the folder holds an input.
  static Result<AtomicFolder> create(const std::filesystem::path& path,
                                     const OutputRules& rules);

  /// A new file in it; kInvalidArgument if `name` is no plain name.
  Result<OutputFile> add_file(const std::string& name);
  Status check_space(std::uint64_t bytes) const;
  /// As AtomicFile::publish, after all its files are finished. kUnsupported if the file
  /// system cannot exchange folders, and there is one to replace.
  Status publish(bool sync, const CancelToken* cancel);

 private:
  Descriptor folder_;  // that holds both
  Temporary temporary_;
  Descriptor inner_;  // the new one
  std::string name_;
  std::string shown_;
  bool replaces_ = false;
  std::vector<std::string> old_files_;  // in the folder that is replaced
  bool may_be_there_ = false;           // files of the run before
  bool keep_ = false;
};

}  // namespace pith
