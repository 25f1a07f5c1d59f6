// What a mask keeps, gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pith {

/// Rows and the mask of what is kept of them (BitMask).
struct KeptRows {
  const std::uint8_t* mask;
  std::int64_t rows;
  std::int64_t cols;
};

/// Elements of `from` that are kept, one after the other; `to` has room for one more. Every
/// element is stored, and the next one over it unless it is kept: no branch depends on the
/// mask, which is as good as random.
template <typename T>
void gather_rows(const KeptRows& kept, std::span<const std::byte> from, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from.data());
  T* out = reinterpret_cast<T*>(to);
  const std::uint8_t* mask = kept.mask;
  for (std::int64_t row = 0; row < kept.rows; ++row) {
    std::int64_t c = 0;
    for (; c + 8 <= kept.cols; c += 8, ++mask) {
      const std::uint32_t bits = *mask;
      for (std::uint32_t i = 0; i < 8; ++i) {
        *out = in[i];
        out += (bits >> i) & 1U;
      }
      in += 8;
    }
    if (c == kept.cols) continue;
    for (std::uint32_t i = 0; c < kept.cols; ++c, ++i) {
      *out = *in++;
      out += (static_cast<std::uint32_t>(*mask) >> i) & 1U;
    }
    ++mask;
  }
}

/// The same of codes of 4 bits, one per byte in `out`. Each row begins a byte, unless codes run through.
inline void gather_halves(const KeptRows& kept, std::span<const std::byte> from,
                          bool through, std::byte* out) {
  const std::int64_t row_bytes = (kept.cols + 7) / 8;
  for (std::int64_t row = 0; row < kept.rows; ++row) {
    const std::int64_t first = row * (through ? kept.cols : (kept.cols + 1) / 2 * 2);
    for (std::int64_t c = 0; c < kept.cols; ++c) {
      const std::int64_t at = first + c;
      const auto byte = static_cast<std::uint8_t>(from[static_cast<std::size_t>(at / 2)]);
      *out = static_cast<std::byte>(at % 2 == 0 ? byte & 15 : byte >> 4);
      out += (kept.mask[row * row_bytes + c / 8] >> (c % 8)) & 1;
    }
  }
}

}  // namespace pith
