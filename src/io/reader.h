// The one bounded reader of binary formats.
//
//   ByteReader in(bytes);                      // or ByteReader in(file, 0, file.size())
//   PITH_TRY(const std::uint64_t length, in.u64("key length"));
//   PITH_TRY(const std::string key, in.string(length, 1 << 16, "key"));
//   PITH_TRY(const std::uint64_t items, in.count(n, sizeof(float), "array"));
//
// It knows how many bytes are left, and refuses before it reads or allocates: no length
// or count of a file gets past it that the rest of the file could not hold. Numbers are
// little-endian. `what` names the field in messages:
//   byte 24: key count needs 8 bytes, but only 3 are left
// The caller puts the file's name in front (Status::with_context).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "src/io/file.h"

namespace pith {

class ByteReader {
 public:
  /// Reads `bytes`, which must outlive the reader. `base` is the position of their first
  /// byte in messages and position().
  explicit ByteReader(std::span<const std::byte> bytes, std::uint64_t base = 0)
      : window_(bytes), window_begin_(base), position_(base), end_(base + bytes.size()) {}

  /// Reads bytes [begin, end) of a file, which must outlive the reader, through a window
  /// of 64 KiB. An end beyond the file's is the file's.
  ByteReader(const InputFile& file, std::uint64_t begin, std::uint64_t end);

  ByteReader(ByteReader&&) = default;  // not copied: the window may lie in the buffer
  ByteReader& operator=(ByteReader&&) = default;

  /// Of the next byte in the file.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t remaining() const { return end_ - position_; }

  // Each fails with kCorrupt if fewer bytes are left than it needs, and then has read
  // nothing; kCorrupt or kIo if the file cannot be read.

  Result<std::uint8_t> u8(std::string_view what) { return number<std::uint8_t>(what); }
  Result<std::uint16_t> u16(std::string_view what) { return number<std::uint16_t>(what); }
  Result<std::uint32_t> u32(std::string_view what) { return number<std::uint32_t>(what); }
  Result<std::uint64_t> u64(std::string_view what) { return number<std::uint64_t>(what); }
  Result<std::int8_t> i8(std::string_view what) { return number<std::int8_t>(what); }
  Result<std::int16_t> i16(std::string_view what) { return number<std::int16_t>(what); }
  Result<std::int32_t> i32(std::string_view what) { return number<std::int32_t>(what); }
  Result<std::int64_t> i64(std::string_view what) { return number<std::int64_t>(what); }
  Result<float> f32(std::string_view what) { return number<float>(what); }
  Result<double> f64(std::string_view what) { return number<double>(what); }

  /// Fills `out`.
  Status bytes(std::span<std::byte> out, std::string_view what);
  /// The next `length` bytes as a string; also kCorrupt if `length` exceeds `limit`.
  Result<std::string> string(std::uint64_t length, std::uint64_t limit,
                             std::string_view what);
  /// The next bytes, at least one and at most `at_most`, as they lie in memory: valid
  /// until the next call. Empty at the end.
  Result<std::span<const std::byte>> piece(std::size_t at_most);
  /// A reader of the next `bytes` bytes, which are skipped here; positions stay those of
  /// the file.
  Result<ByteReader> part(std::uint64_t bytes, std::string_view what);
  Status skip(std::uint64_t bytes, std::string_view what);
  /// Skips to the next multiple of `alignment` (not 0) of position().
  Status align(std::uint64_t alignment, std::string_view what);

  /// Returns `count` if that many items of at least `item_bytes` bytes (not 0) can be in
  /// the bytes left; otherwise kCorrupt. To be asked before room for `count` items is
  /// made.
  Result<std::uint64_t> count(std::uint64_t count, std::uint64_t item_bytes,
                              std::string_view what) const;

 private:
  template <typename T>
  Result<T> number(std::string_view what) {
    T value;
    PITH_OK(bytes(std::as_writable_bytes(std::span(&value, 1)), what));
    return value;  // Pith runs on little-endian processors only
  }
  Status need(std::uint64_t bytes, std::string_view what) const;
  // Makes the window begin with the next byte, if that is outside of it.
  Status fill();

  const InputFile* file_ = nullptr;  // or all bytes are in the window
  std::vector<std::byte> buffer_;
  std::span<const std::byte> window_;
  std::uint64_t window_begin_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace pith
