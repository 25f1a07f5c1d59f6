// Bytes that can be read anywhere: memory, a part of a file, an entry of a zip archive.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "pith/base/status.h"
#include "src/base/checked.h"
#include "src/io/file.h"

namespace pith {

/// Thread-safe. Reading in ascending order is never slower than any other order.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// The name of the file for messages; empty for memory.
  [[nodiscard]] virtual std::string name() const { return {}; }
  /// Fills `out` with the bytes from `offset` on; kCorrupt if they are not all there.
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Somebody else's memory.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!(CheckedSize(offset) + out.size()).at_most(bytes_.size())) {
      return Status::corrupt(
          fmt::format("{} bytes from byte {} on are beyond the end, {}", out.size(),
                      offset, bytes_.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A file.
class FileSource : public ByteSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  [[nodiscard]] const InputFile& file() const { return file_; }
  [[nodiscard]] std::uint64_t size() const override { return file_.size(); }
  [[nodiscard]] std::string name() const override { return file_.name(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    return file_.read_exact(offset, out);
  }

 private:
  InputFile file_;
};

/// Part [begin, begin + size) of another source, which must outlive this one.
class PartSource : public ByteSource {
 public:
  PartSource(const ByteSource& whole, std::uint64_t begin, std::uint64_t size)
      : whole_(whole), begin_(begin), size_(size) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!(CheckedSize(offset) + out.size()).at_most(size_)) {
      return Status::corrupt(fmt::format(
          "{} bytes from byte {} on are beyond the end, {}", out.size(), offset, size_));
    }
    return whole_.read(begin_ + offset, out);
  }

 private:
  const ByteSource& whole_;
  std::uint64_t begin_;
  std::uint64_t size_;
};

}  // namespace pith
