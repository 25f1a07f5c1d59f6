// What a run has finished, written down beside its output so that a run that is killed can
// be continued.
//
//   PITH_TRY(Journal journal, Journal::read(path, fingerprint, resume));
//   PITH_OK(journal.begin());                                 // the output is ours
//   for (const JournalEntry& entry : journal.entries()) ...   // of the run before
//   PITH_OK(journal.add(entry));                              // as tensors are finished
//   journal.remove();                                         // the output is complete
//
// A journal is text: the lines of the fingerprint (what must agree: version, recipe, options, files
// of the input), then one line per tensor with checksums and figures. Each line ends in its own
// checksum; one that is torn, and all behind it, count as not written. What it says of
// a tensor is believed only if the bytes in the temporary output have those checksums, so
// nothing depends on the order in which a disk got its data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/quantize/error.h"
#include "src/io/output_file.h"

namespace pith {

struct JournalEntry {
  std::size_t tensor = 0;                ///< index in the source
  std::vector<std::uint64_t> checksums;  ///< of its parts
  bool has_figures = false;
  ErrorFigures figures;
  std::vector<std::int64_t> nonzero;  ///< after each stage
};

/// What must agree, as name and text.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

class Journal {
 public:
  /// With `resume`, reads the journal that is there, if there is one: kInvalidArgument if it is of
  /// another run, and says what differs.
  static Result<Journal> read(const std::filesystem::path& path,
                              const Fingerprint& fingerprint, bool resume);

  Journal() = default;
  ~Journal();
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;

  [[nodiscard]] const std::vector<JournalEntry>& entries() const { return entries_; }
  /// Writes what is known already into a new journal. kIo or kNoSpace.
  Status begin();
  Status add(const JournalEntry& entry);
  /// The run ends, well or not: its output is there, or nothing is left to continue.
  void remove() noexcept;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<std::string> head_;  // lines before the entries
  std::vector<JournalEntry> entries_;
};

/// The journal's name for an output, and that of the temporary output that belongs to it.
[[nodiscard]] std::filesystem::path journal_path(const std::filesystem::path& output);
[[nodiscard]] std::string part_name(const std::filesystem::path& output);

}  // namespace pith
