// Zip archives, for npz and PyTorch files: entries stored or deflated, zip64 included.
//
//   PITH_TRY(ZipArchive zip, ZipArchive::open(file));
//   for (std::size_t i = 0; i < zip.entries().size(); ++i) {
//     std::unique_ptr<ByteSource> bytes = zip.open_entry(i);
//     PITH_OK(bytes->read(0, out));
//   }
//
// Everything is taken from the central directory, and refused where the local headers say
// something else, where entries overlap, or where sizes cannot be right. Nothing is ever
// extracted: names are keys, never paths.
//
// Checksums. A stored entry is checked as a whole before the first of its bytes is given.
// A deflated one is checked when its last byte is given, since it would have to be
// inflated twice otherwise; verify() does it for all entries at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "src/io/source.h"

namespace pith {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t compressed = 0;    ///< bytes in the file
  std::uint64_t uncompressed = 0;  ///< bytes of the content
  std::uint64_t header_begin = 0;  ///< of its local header in the file
  std::uint64_t data_begin = 0;    ///< of its data in the file
};

class InflatePool;

class ZipArchive {
 public:
  /// Reads the directory and all local headers of `file`, which must outlive the archive
  /// and its entries. kCorrupt for what breaks the format; kUnsupported for encryption,
  /// other methods and archives of several disks.
  static Result<ZipArchive> open(const ByteSource& file);
  ZipArchive(ZipArchive&&) noexcept;
  ~ZipArchive();

  /// In the order of the directory. Names are unique.
  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// The content of an entry. Reading a deflated one anywhere but forward begins at one
  /// of at most 32 points kept for each of the 4 entries used last. Thread-safe; must not
  /// outlive the archive.
  [[nodiscard]] std::unique_ptr<ByteSource> open_entry(std::size_t entry) const;

  /// The first bytes of an entry, without its checksum: all of `out`, which is no longer
  /// than the entry.
  Status read_start(std::size_t entry, std::span<std::byte> out) const;

  /// Reads all entries and compares their checksums, if they have at most `limit` bytes
  /// in all; otherwise does nothing.
  Status verify(std::uint64_t limit) const;

 private:
  explicit ZipArchive(const ByteSource& file);

  const ByteSource* file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::string> warnings_;
  std::unique_ptr<InflatePool> pool_;
};

/// Archives whose entries have no more bytes than this in all are verified when they are
/// opened.
inline constexpr std::uint64_t kVerifyAtOpen = 64 << 20;

}  // namespace pith
