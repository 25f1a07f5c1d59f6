// Input of structure-aware fuzz targets: a stream of choices. Numbers are mostly small or at
// a border where arithmetic goes wrong, since random bits almost never are.
//
//   Fields fields(data, size);
//   file.u64(fields.number());
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace pith::fuzz {

class Fields {
 public:
  Fields(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }

  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  /// In [0, count).
  std::uint64_t below(std::uint64_t count) { return byte() % count; }
  /// True once in `times`.
  bool one_in(std::uint64_t times) { return below(times) == times - 1; }

  /// Any number, but mostly a small one or one at a border.
  std::uint64_t number() {
    const std::uint8_t choice = byte();
    if (choice < 128) return choice % 16;
    if (choice < 240) return kBorders[byte() % kBorders.size()];
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  /// `right`, and once in `times` any number instead.
  std::uint64_t mostly(std::uint64_t right, std::uint64_t times = 16) {
    return one_in(times) ? number() : right;
  }

  std::string text(std::size_t most) {
    std::string text;
    const std::size_t length = std::min<std::size_t>(below(most + 1), size_);
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(byte());
    return text;
  }
  /// A short name; the same one often.
  std::string name() { return std::string(1, static_cast<char>('a' + below(8))); }

 private:
  static constexpr std::array<std::uint64_t, 34> kBorders = {
      31,
      32,
      33,
      63,
      64,
      255,
      256,
      257,
      4096,
      65535,
      65536,
      (std::uint64_t{1} << 31) - 1,
      std::uint64_t{1} << 31,
      (std::uint64_t{1} << 32) - 1,
      std::uint64_t{1} << 32,
      (std::uint64_t{1} << 32) + 1,
      std::uint64_t{1} << 33,
      std::uint64_t{1} << 40,
      std::uint64_t{1} << 56,
      std::uint64_t{1} << 60,
      (std::uint64_t{1} << 61) - 1,
      std::uint64_t{1} << 61,
      (std::uint64_t{1} << 61) + 1,
      (std::uint64_t{1} << 62) - 1,
      std::uint64_t{1} << 62,
      (std::uint64_t{1} << 62) + 1,
      (std::uint64_t{1} << 63) - 1,
      std::uint64_t{1} << 63,
      (std::uint64_t{1} << 63) + 1,
      UINT64_MAX - 63,
      UINT64_MAX - 31,
      UINT64_MAX - 7,
      UINT64_MAX - 1,
      UINT64_MAX,
  };

  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace pith::fuzz
