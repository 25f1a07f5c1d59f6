#include "src/io/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/reader.h"

namespace pith {
namespace {

constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kLocalSignature = 0x04034b50;

constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kMaxComment = 65535;
constexpr std::uint64_t kMaxDescriptor = 24;
constexpr std::uint64_t kMaxDirectory = 64 << 20;  // more than a million entries

constexpr std::uint16_t kEncrypted = 1 << 0;
constexpr std::uint16_t kHasDescriptor = 1 << 3;
// How hard the deflater tried, a descriptor behind the data, names in UTF-8.
constexpr std::uint16_t kKnownFlags = 1 << 1 | 1 << 2 | kHasDescriptor | 1 << 11;

// Deflate writes 258 bytes with two bits at best.
constexpr std::uint64_t kMaxRatio = 1032;

// Where the central directory is.
struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

Result<std::vector<std::byte>> read_part(const ByteSource& file, std::uint64_t begin,
                                         std::uint64_t size) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  PITH_OK(file.read(begin, bytes));
  return bytes;
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value = {};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The end record, found by its signature and a comment that reaches exactly to the end of
// the file. Two such places would mean two archives in one file.
Result<std::uint64_t> find_end(const ByteSource& file) {
  const std::uint64_t size = std::min(file.size(), kEndBytes + kMaxComment);
  const std::uint64_t begin = file.size() - size;
  PITH_TRY(const std::vector<std::byte> tail, read_part(file, begin, size));
  std::optional<std::uint64_t> found;
  for (std::size_t at = 0; at + kEndBytes <= tail.size(); ++at) {
    if (load<std::uint32_t>(tail, at) != kEndSignature) continue;
    if (at + kEndBytes + load<std::uint16_t>(tail, at + 20) != tail.size()) continue;
    if (found) {
      return Status::corrupt(fmt::format("two ends of a zip archive, at bytes {} and {}",
                                         *found, begin + at));
    }
    found = begin + at;
  }
  if (!found) return Status::corrupt("no end of a zip archive: it is truncated");
  return *found;
}

// The zip64 record that the locator before the end record points to, if there is one.
Result<std::optional<Directory>> read_end64(const ByteSource& file, std::uint64_t end) {
  if (end < kLocator64Bytes) return std::optional<Directory>();
  const std::uint64_t locator_at = end - kLocator64Bytes;
  PITH_TRY(const std::vector<std::byte> locator,
           read_part(file, locator_at, kLocator64Bytes));
  if (load<std::uint32_t>(locator, 0) != kLocator64Signature) {
    return std::optional<Directory>();
  }
  const auto record_at = load<std::uint64_t>(locator, 8);
  if (load<std::uint32_t>(locator, 4) != 0 || load<std::uint32_t>(locator, 16) > 1) {
    return Status::unsupported("a zip archive of several disks");
  }
  if (!(CheckedSize(record_at) + kEnd64Bytes).at_most(locator_at)) {
    return Status::corrupt(
        fmt::format("the zip64 record at byte {} is not before its locator at byte {}",
                    record_at, locator_at));
  }
  PITH_TRY(const std::vector<std::byte> record, read_part(file, record_at, kEnd64Bytes));
  ByteReader in(record, record_at);
  PITH_TRY(const std::uint32_t signature, in.u32("zip64 signature"));
  PITH_TRY(const std::uint64_t record_size, in.u64("zip64 record size"));
  PITH_OK(in.skip(4, "zip64 versions"));
  PITH_TRY(const std::uint32_t disk, in.u32("zip64 disk"));
  PITH_TRY(const std::uint32_t first_disk, in.u32("zip64 disk"));
  PITH_TRY(const std::uint64_t on_disk, in.u64("zip64 entries"));
  Directory directory;
  PITH_TRY(directory.entries, in.u64("zip64 entries"));
  PITH_TRY(directory.size, in.u64("zip64 directory size"));
  PITH_TRY(directory.begin, in.u64("zip64 directory offset"));
  const CheckedSize record_end = CheckedSize(record_at) + record_size + 12;
  if (signature != kEnd64Signature || !record_end.valid() ||
      record_end.value() != locator_at) {
    return Status::corrupt(fmt::format("byte {}: no zip64 record that ends at byte {}",
                                       record_at, locator_at));
  }
  if (disk != 0 || first_disk != 0 || on_disk != directory.entries) {
    return Status::unsupported("a zip archive of several disks");
  }
  if (!(CheckedSize(directory.begin) + directory.size).at_most(record_at) ||
      directory.begin + directory.size != record_at) {
    return Status::corrupt(
        fmt::format("the directory of {} bytes at byte {} does not end at byte {}, where "
                    "the zip64 record begins",
                    directory.size, directory.begin, record_at));
  }
  return std::optional(directory);
}

Result<Directory> read_end(const ByteSource& file) {
  PITH_TRY(const std::uint64_t end, find_end(file));
  PITH_TRY(const std::vector<std::byte> record, read_part(file, end, kEndBytes));
  PITH_TRY(const std::optional<Directory> wide, read_end64(file, end));
  if (load<std::uint16_t>(record, 4) != 0 || load<std::uint16_t>(record, 6) != 0 ||
      load<std::uint16_t>(record, 8) != load<std::uint16_t>(record, 10)) {
    return Status::unsupported("a zip archive of several disks");
  }
  const Directory narrow = {load<std::uint32_t>(record, 16),
                            load<std::uint32_t>(record, 12),
                            load<std::uint16_t>(record, 10)};
  if (wide) {
    const auto agree = [](std::uint64_t small, std::uint64_t all_ones,
                          std::uint64_t large) {
      return small == all_ones || small == large;
    };
    if (!agree(narrow.begin, UINT32_MAX, wide->begin) ||
        !agree(narrow.size, UINT32_MAX, wide->size) ||
        !agree(narrow.entries, UINT16_MAX, wide->entries)) {
      return Status::corrupt("the two end records of the zip archive disagree");
    }
    return *wide;
  }
  if (!(CheckedSize(narrow.begin) + narrow.size).at_most(end) ||
      narrow.begin + narrow.size != end) {
    return Status::corrupt(fmt::format(
        "the directory of {} bytes at byte {} does not end at byte {}, where the end "
        "record begins",
        narrow.size, narrow.begin, end));
  }
  return narrow;
}

Status check_name(std::string_view name) {
  std::string_view rest = name;
  bool parent = false;
  while (!rest.empty()) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    parent = parent || rest.substr(0, slash) == "..";
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  if (name.empty() || parent || name.front() == '/' ||
      name.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos) {
    return Status::corrupt(
        fmt::format("entry name '{}' is empty, absolute, or has '..', '\\' or NUL in it",
                    printable(name)));
  }
  return {};
}

// Fields of 32 bits that are all ones stand in a zip64 extra field, in this order.
Status read_zip64_extra(ByteReader& in, std::uint64_t extra_bytes, ZipEntry& entry,
                        std::uint16_t& disk) {
  std::uint64_t left = extra_bytes;
  bool found = false;
  while (left >= 4) {
    PITH_TRY(const std::uint16_t id, in.u16("extra field"));
    PITH_TRY(const std::uint16_t size, in.u16("extra field"));
    left -= 4;
    if (size > left) {
      return Status::corrupt(
          fmt::format("an extra field of {} bytes where only {} are left", size, left));
    }
    left -= size;
    std::uint64_t rest = size;
    if (id == kZip64Extra) {
      if (found) return Status::corrupt("two zip64 fields");
      found = true;
      const auto take = [&](std::uint64_t& field) -> Status {
        if (field != UINT32_MAX) return {};
        if (rest < 8) return Status::corrupt("a zip64 field that lacks a size or offset");
        PITH_TRY(field, in.u64("zip64 field"));
        rest -= 8;
        return {};
      };
      PITH_OK(take(entry.uncompressed));
      PITH_OK(take(entry.compressed));
      PITH_OK(take(entry.header_begin));
      if (disk == UINT16_MAX && rest >= 4) {
        PITH_TRY(const std::uint32_t wide_disk, in.u32("zip64 disk"));
        disk = wide_disk == 0 ? 0 : UINT16_MAX;
        rest -= 4;
      }
    }
    PITH_OK(in.skip(rest, "extra field"));
  }
  return in.skip(left, "extra field");
}

struct CentralEntry {
  ZipEntry entry;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
};

Status check_entry(const CentralEntry& central) {
  const ZipEntry& entry = central.entry;
  if ((central.flags & kEncrypted) != 0) return Status::unsupported("it is encrypted");
  if ((central.flags & ~kKnownFlags) != 0) {
    return Status::unsupported(fmt::format("flags {:#06x} are not known", central.flags));
  }
  if (central.method != 0 && central.method != 8) {
    return Status::unsupported(fmt::format(
        "compression method {}, expected 0 (stored) or 8 (deflated)", central.method));
  }
  if (!entry.deflated && entry.compressed != entry.uncompressed) {
    return Status::corrupt(
        fmt::format("stored, but of {} bytes in the file and {} outside",
                    entry.compressed, entry.uncompressed));
  }
  const CheckedSize most = CheckedSize(entry.compressed) * kMaxRatio;
  if (most.valid() && entry.uncompressed > most.value()) {
    return Status::corrupt(fmt::format(
        "{} bytes are said to inflate to {}, more than deflate can do (1032 to 1)",
        entry.compressed, entry.uncompressed));
  }
  return {};
}

Result<CentralEntry> read_central(ByteReader& in) {
  PITH_TRY(const std::uint32_t signature, in.u32("directory entry"));
  if (signature != kCentralSignature) {
    return Status::corrupt(
        fmt::format("byte {}: no directory entry", in.position() - sizeof(signature)));
  }
  CentralEntry central;
  ZipEntry& entry = central.entry;
  PITH_OK(in.skip(4, "versions"));
  PITH_TRY(central.flags, in.u16("flags"));
  PITH_TRY(central.method, in.u16("method"));
  PITH_OK(in.skip(4, "time"));
  PITH_TRY(entry.crc, in.u32("CRC-32"));
  PITH_TRY(entry.compressed, in.u32("compressed size"));
  PITH_TRY(entry.uncompressed, in.u32("size"));
  PITH_TRY(const std::uint16_t name_bytes, in.u16("name length"));
  PITH_TRY(const std::uint16_t extra_bytes, in.u16("extra length"));
  PITH_TRY(const std::uint16_t comment_bytes, in.u16("comment length"));
  PITH_TRY(std::uint16_t disk, in.u16("disk"));
  PITH_OK(in.skip(6, "attributes"));
  PITH_TRY(entry.header_begin, in.u32("local header offset"));
  PITH_TRY(entry.name, in.string(name_bytes, UINT16_MAX, "entry name"));
  entry.deflated = central.method == 8;
  Status status = read_zip64_extra(in, extra_bytes, entry, disk);
  if (status.ok()) status = in.skip(comment_bytes, "comment");
  if (status.ok()) status = check_entry(central);
  if (status.ok() && disk != 0) status = Status::unsupported("it is on another disk");
  if (!status.ok()) {
    return status.with_context(fmt::format("entry '{}'", printable(entry.name)));
  }
  PITH_OK(check_name(entry.name));
  return central;
}

// Compares the local header with the directory and finds the data behind it.
Status read_local(const ByteSource& file, std::uint64_t directory_begin,
                  CentralEntry& central) {
  ZipEntry& entry = central.entry;
  const std::size_t bytes = kLocalBytes + entry.name.size();
  if (!(CheckedSize(entry.header_begin) + bytes).at_most(directory_begin)) {
    return Status::corrupt(fmt::format(
        "its header at byte {} is not before the directory", entry.header_begin));
  }
  PITH_TRY(const std::vector<std::byte> local,
           read_part(file, entry.header_begin, bytes));
  if (load<std::uint32_t>(local, 0) != kLocalSignature) {
    return Status::corrupt(fmt::format("byte {}: no local header", entry.header_begin));
  }
  const auto flags = load<std::uint16_t>(local, 6);
  const std::string_view name(reinterpret_cast<const char*>(local.data()) + kLocalBytes,
                              entry.name.size());
  if (load<std::uint16_t>(local, 26) != entry.name.size() || name != entry.name ||
      load<std::uint16_t>(local, 8) != central.method || flags != central.flags) {
    return Status::corrupt("name, method or flags differ from those in the directory");
  }
  // A writer that did not know them yet puts zeros here and a descriptor behind the data;
  // all ones mean a zip64 field, which says nothing new.
  const auto differs = [&](std::size_t at, std::uint64_t expected) {
    const auto value = load<std::uint32_t>(local, at);
    if (value == 0 && (flags & kHasDescriptor) != 0) return false;
    return value != UINT32_MAX && value != expected;
  };
  if (differs(14, entry.crc) || differs(18, entry.compressed) ||
      differs(22, entry.uncompressed)) {
    return Status::corrupt("checksum or sizes differ from those in the directory");
  }
  const CheckedSize data_begin = CheckedSize(entry.header_begin) + kLocalBytes +
                                 load<std::uint16_t>(local, 26) +
                                 load<std::uint16_t>(local, 28);
  if (!(data_begin + entry.compressed).at_most(directory_begin)) {
    return Status::corrupt(
        fmt::format("its {} bytes of data do not end before the directory at byte {}",
                    entry.compressed, directory_begin));
  }
  entry.data_begin = data_begin.value();
  return {};
}

// Entries one after another; bytes that belong to none get a warning.
Status check_places(const std::vector<CentralEntry>& entries,
                    std::uint64_t directory_begin, std::vector<std::string>& warnings) {
  std::vector<const CentralEntry*> sorted;
  sorted.reserve(entries.size());
  for (const CentralEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->entry.header_begin < b->entry.header_begin;
  });
  std::uint64_t position = 0;
  std::uint64_t strange = 0;
  std::uint64_t descriptor = 0;  // that the entry before may have
  const auto pass = [&](std::uint64_t next) {
    const std::uint64_t gap = next - position;
    if (gap > descriptor) strange += gap;
  };
  for (const CentralEntry* central : sorted) {
    const ZipEntry& entry = central->entry;
    if (entry.header_begin < position) {
      return Status::corrupt(
          fmt::format("entry '{}' overlaps the one before it", printable(entry.name)));
    }
    pass(entry.header_begin);
    position = entry.data_begin + entry.compressed;
    descriptor = (central->flags & kHasDescriptor) != 0 ? kMaxDescriptor : 0;
  }
  pass(directory_begin);
  if (strange != 0) {
    warnings.push_back(
        fmt::format("{} bytes of the zip archive belong to no entry", strange));
  }
  return {};
}

Status check_unique(const std::vector<ZipEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const ZipEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return Status::corrupt(fmt::format("entry '{}' is there twice", printable(*twice)));
}

}  // namespace

Result<ZipDirectory> read_zip_directory(const ByteSource& file) {
  PITH_TRY(const Directory directory, read_end(file));
  if (directory.size > kMaxDirectory) {
    return Status::unsupported(
        fmt::format("a zip directory of {} bytes, at most {} are read", directory.size,
                    kMaxDirectory));
  }
  PITH_TRY(const std::vector<std::byte> bytes,
           read_part(file, directory.begin, directory.size));
  ByteReader in(bytes, directory.begin);
  PITH_TRY(const std::uint64_t count,
           in.count(directory.entries, kCentralBytes, "zip directory"));
  std::vector<CentralEntry> central;
  for (std::uint64_t i = 0; i < count; ++i) {
    PITH_TRY(CentralEntry entry, read_central(in));
    if (Status s = read_local(file, directory.begin, entry); !s.ok()) {
      return s.with_context(fmt::format("entry '{}'", printable(entry.entry.name)));
    }
    central.push_back(std::move(entry));
  }
  if (in.remaining() != 0) {
    return Status::corrupt(
        fmt::format("byte {}: {} bytes behind the {} directory entries", in.position(),
                    in.remaining(), count));
  }
  ZipDirectory result;
  PITH_OK(check_places(central, directory.begin, result.warnings));
  result.entries.reserve(central.size());
  for (CentralEntry& entry : central) result.entries.push_back(std::move(entry.entry));
  PITH_OK(check_unique(result.entries));
  return result;
}

}  // namespace pith
