// Which bytes of a tensor were written, and their checksum, whatever the order.
//
//   WrittenRanges written;
//   written.add(4096, bytes, crc);   // false: some of them were written before
//   written.covers(size);            // every byte, exactly once
//
// Neighbours are merged at once, so its size is the number of gaps, not of writes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace pith {

class WrittenRanges {
 public:
  /// Bytes [begin, begin + length), whose CRC-32 is `crc` (0 where nobody asks for it).
  /// False, and nothing changes, if one of them is there already.
  bool add(std::uint64_t begin, std::uint64_t length, std::uint32_t crc);

  /// True if exactly bytes [0, size) were added.
  [[nodiscard]] bool covers(std::uint64_t size) const;
  /// The first byte that was not added.
  [[nodiscard]] std::uint64_t first_gap() const;
  /// Of bytes [0, first_gap()).
  [[nodiscard]] std::uint32_t crc() const;

 private:
  struct Range {
    std::uint64_t end;
    std::uint32_t crc;
  };
  std::map<std::uint64_t, Range> ranges_;  // by begin; disjoint, no two touch
};

}  // namespace pith
