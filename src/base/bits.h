// Bits that are set in bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pith {

inline std::int64_t count_bits(std::span<const std::byte> bytes) {
  std::int64_t count = 0;
  std::uint64_t word = 0;
  for (; bytes.size() >= sizeof(word); bytes = bytes.subspan(sizeof(word))) {
    std::memcpy(&word, bytes.data(), sizeof(word));
    count += std::popcount(word);
  }
  for (const std::byte byte : bytes) {
    count += std::popcount(std::to_integer<std::uint8_t>(byte));
  }
  return count;
}

}  // namespace pith
