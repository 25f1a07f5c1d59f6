#include "src/io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "src/base/text.h"
#include "src/io/inflate.h"
#include "src/io/zip_directory.h"

namespace pith {

/// The streams of the entries used last.
class InflatePool {
 public:
  struct Stream {
    Stream(std::size_t entry_index, const ByteSource& file, const ZipEntry& entry)
        : index(entry_index),
          inflate(file, entry.data_begin, entry.compressed, entry.uncompressed,
                  entry.crc) {}
    const std::size_t index;
    std::mutex mutex;  // guards inflate
    InflateStream inflate;
  };

  std::shared_ptr<Stream> get(const ByteSource& file, std::size_t index,
                              const ZipEntry& entry) {
    const std::lock_guard lock(mutex_);
    auto found = std::find_if(streams_.begin(), streams_.end(),
                              [&](const auto& stream) { return stream->index == index; });
    if (found == streams_.end()) {
      // One that is pushed out lives on while somebody reads from it.
      if (streams_.size() == kStreams) streams_.pop_back();
      found =
          streams_.insert(streams_.end(), std::make_shared<Stream>(index, file, entry));
    }
    std::rotate(streams_.begin(), found, found + 1);
    return streams_.front();
  }

 private:
  static constexpr std::size_t kStreams = 4;
  std::mutex mutex_;                              // guards streams_
  std::vector<std::shared_ptr<Stream>> streams_;  // used last first
};

namespace {

constexpr std::uint64_t kZipPiece = 256 << 10;

Status in_entry(const Status& status, const ZipEntry& entry) {
  return status.with_context(fmt::format("entry '{}'", printable(entry.name)));
}

// Checked as a whole when it is first read.
class StoredEntry : public ByteSource {
 public:
  StoredEntry(const ByteSource& file, const ZipEntry& entry)
      : file_(file), entry_(entry) {}
  [[nodiscard]] std::uint64_t size() const override { return entry_.uncompressed; }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    PITH_OK(checked());
    return PartSource(file_, entry_.data_begin, entry_.compressed).read(offset, out);
  }

 private:
  Status checked() const {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      status_ = check();
      done_ = true;
    }
    return status_;
  }

  [[nodiscard]] Status check() const {
    std::vector<std::byte> buffer(
        static_cast<std::size_t>(std::min(kZipPiece, entry_.compressed)));
    uLong crc = 0;
    for (std::uint64_t at = 0; at < entry_.compressed; at += buffer.size()) {
      const auto bytes = std::span(buffer).first(static_cast<std::size_t>(
          std::min<std::uint64_t>(buffer.size(), entry_.compressed - at)));
      PITH_OK(file_.read(entry_.data_begin + at, bytes));
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    }
    if (crc == entry_.crc) return {};
    return in_entry(
        Status::corrupt(fmt::format(
            "CRC-32 is {:08x}, expected {:08x}: the data is damaged", crc, entry_.crc)),
        entry_);
  }

  const ByteSource& file_;
  const ZipEntry& entry_;
  mutable std::mutex mutex_;  // guards what follows
  mutable bool done_ = false;
  mutable Status status_;
};

class DeflatedEntry : public ByteSource {
 public:
  DeflatedEntry(const ByteSource& file, std::size_t index, const ZipEntry& entry,
                InflatePool& pool)
      : file_(file), index_(index), entry_(entry), pool_(pool) {}
  [[nodiscard]] std::uint64_t size() const override { return entry_.uncompressed; }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::shared_ptr<InflatePool::Stream> stream = pool_.get(file_, index_, entry_);
    const std::lock_guard lock(stream->mutex);
    return in_entry(stream->inflate.read(offset, out), entry_);
  }

 private:
  const ByteSource& file_;
  const std::size_t index_;
  const ZipEntry& entry_;
  InflatePool& pool_;
};

}  // namespace

ZipArchive::ZipArchive(const ByteSource& file)
    : file_(&file), pool_(std::make_unique<InflatePool>()) {}
ZipArchive::ZipArchive(ZipArchive&&) noexcept = default;
ZipArchive::~ZipArchive() = default;

Result<ZipArchive> ZipArchive::open(const ByteSource& file) {
  PITH_TRY(ZipDirectory directory, read_zip_directory(file));
  ZipArchive archive(file);
  archive.entries_ = std::move(directory.entries);
  archive.warnings_ = std::move(directory.warnings);
  return archive;
}

std::unique_ptr<ByteSource> ZipArchive::open_entry(std::size_t entry) const {
  const ZipEntry& info = entries_[entry];
  if (info.deflated) return std::make_unique<DeflatedEntry>(*file_, entry, info, *pool_);
  return std::make_unique<StoredEntry>(*file_, info);
}

Status ZipArchive::read_start(std::size_t entry, std::span<std::byte> out) const {
  const ZipEntry& info = entries_[entry];
  if (!info.deflated) {
    return PartSource(*file_, info.data_begin, info.compressed).read(0, out);
  }
  InflateStream stream(*file_, info.data_begin, info.compressed, info.uncompressed,
                       info.crc);
  return in_entry(stream.read(0, out), info);
}

Status ZipArchive::verify(std::uint64_t limit) const {
  CheckedSize all(0);
  for (const ZipEntry& entry : entries_) all = all + entry.uncompressed;
  if (!all.at_most(limit)) return {};
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::unique_ptr<ByteSource> source = open_entry(i);
    buffer.resize(static_cast<std::size_t>(std::min(kZipPiece, source->size())));
    std::uint64_t at = 0;
    do {  // once for an entry without content: it has a checksum, too
      const auto bytes = std::span(buffer).first(static_cast<std::size_t>(
          std::min<std::uint64_t>(buffer.size(), source->size() - at)));
      PITH_OK(source->read(at, bytes));
      at += bytes.size();
    } while (at < source->size());
  }
  return {};
}

}  // namespace pith
