// Zip archives made in code, right or wrong in any field.
//
//   ZipBuilder zip;
//   zip.add({.name = "a.npy", .content = bytes});
//   const std::string file = zip.finish();
#pragma once

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/byte_builder.h"

namespace pith::testing {

/// Raw deflate.
inline std::string deflate_bytes(const std::string& content) {
  z_stream z = {};
  deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, static_cast<uLong>(content.size())) + 16, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

inline std::uint32_t crc_of_bytes(const std::string& content) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

/// What is written for one entry. Fields that are not set are right.
struct ZipBuilderEntry {
  std::string name;
  std::string content;
  bool deflated = false;
  bool zip64 = false;       ///< sizes and offset in an extra field of the directory
  bool descriptor = false;  ///< sizes behind the data, as PyTorch writes them
  std::string local_extra = {};
  std::optional<std::string> local_name = {};
  std::optional<std::string> data = {};  ///< bytes in the file
  std::optional<std::uint16_t> flags = {};
  std::optional<std::uint16_t> method = {};
  std::optional<std::uint16_t> local_method = {};
  std::optional<std::uint32_t> crc = {};
  std::optional<std::uint32_t> local_crc = {};
  std::optional<std::uint64_t> compressed = {};
  std::optional<std::uint64_t> uncompressed = {};
  std::optional<std::uint64_t> offset = {};
  std::optional<std::string> extra = {};
  std::uint16_t disk = 0;
};

/// What is written at the end.
struct ZipBuilderEnd {
  bool zip64 = false;
  std::string comment = {};
  std::string before_directory = {};
  std::string behind_directory = {};
  std::optional<std::uint64_t> entries = {};
  std::optional<std::uint64_t> directory_size = {};
  std::optional<std::uint64_t> directory_begin = {};
  std::optional<std::uint64_t> record_begin = {};
  std::optional<std::uint64_t> record_size = {};
  std::optional<std::uint32_t> narrow_begin = {};  ///< in the end record of a zip64 file
  std::uint16_t disk = 0;
};

class ZipBuilder {
 public:
  ZipBuilder& add(const ZipBuilderEntry& entry) {
    const std::string data = entry.data.value_or(
        entry.deflated ? deflate_bytes(entry.content) : entry.content);
    const std::uint64_t offset = entry.offset.value_or(file_.size());
    const std::uint16_t method = entry.method.value_or(entry.deflated ? 8 : 0);
    const std::uint16_t flags = entry.flags.value_or(entry.descriptor ? 0x0808 : 0);
    const std::uint32_t crc = entry.crc.value_or(crc_of_bytes(entry.content));
    const std::uint64_t compressed = entry.compressed.value_or(data.size());
    const std::uint64_t uncompressed = entry.uncompressed.value_or(entry.content.size());
    const std::string local_name = entry.local_name.value_or(entry.name);

    file_.u32(0x04034b50).u16(20).u16(flags).u16(entry.local_method.value_or(method));
    file_.u32(0).u32(entry.descriptor ? 0 : entry.local_crc.value_or(crc));
    file_.u32(entry.descriptor ? 0 : compressed).u32(entry.descriptor ? 0 : uncompressed);
    file_.u16(local_name.size()).u16(entry.local_extra.size());
    file_.text(local_name).text(entry.local_extra).text(data);
    if (entry.descriptor) {
      file_.u32(0x08074b50).u32(crc).u64(compressed).u64(uncompressed);
    }

    ByteBuilder extra;
    if (entry.zip64) extra.u16(1).u16(24).u64(uncompressed).u64(compressed).u64(offset);
    const std::string extra_bytes = entry.extra.value_or(extra.str());
    directory_.u32(0x02014b50).u16(45).u16(20).u16(flags).u16(method).u32(0).u32(crc);
    directory_.u32(entry.zip64 ? UINT32_MAX : compressed);
    directory_.u32(entry.zip64 ? UINT32_MAX : uncompressed);
    directory_.u16(entry.name.size()).u16(extra_bytes.size()).u16(0).u16(entry.disk);
    directory_.u16(0).u32(0).u32(entry.zip64 ? UINT32_MAX : offset);
    directory_.text(entry.name).text(extra_bytes);
    ++entries_;
    return *this;
  }

  [[nodiscard]] std::size_t size() const { return file_.size(); }

  std::string finish(const ZipBuilderEnd& end = {}) {
    file_.text(end.before_directory);
    const std::uint64_t begin = end.directory_begin.value_or(file_.size());
    const std::uint64_t size = end.directory_size.value_or(directory_.size());
    const std::uint64_t entries = end.entries.value_or(entries_);
    file_.text(directory_.str()).text(end.behind_directory);
    if (end.zip64) {
      const std::uint64_t record = end.record_begin.value_or(file_.size());
      file_.u32(0x06064b50).u64(end.record_size.value_or(44)).u16(45).u16(45);
      file_.u32(0).u32(0).u64(entries).u64(entries).u64(size).u64(begin);
      file_.u32(0x07064b50).u32(0).u64(record).u32(1);
    }
    file_.u32(0x06054b50).u16(end.disk).u16(0);
    file_.u16(end.zip64 ? UINT16_MAX : entries).u16(end.zip64 ? UINT16_MAX : entries);
    file_.u32(end.zip64 ? UINT32_MAX : size);
    file_.u32(end.narrow_begin ? *end.narrow_begin : end.zip64 ? UINT32_MAX : begin);
    file_.u16(end.comment.size()).text(end.comment);
    return file_.str();
  }

 private:
  ByteBuilder file_;
  ByteBuilder directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace pith::testing
