// What a mask keeps, gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/kernels/gather.h"

namespace pith {

/// Rows and the mask of what is kept of them (BitMask).
struct KeptRows {
  const std::uint8_t* mask;
  std::int64_t rows;
  std::int64_t cols;
};

/// Elements of `from` that are kept, one after the other; `to` has room for eight more.
template <typename T>
void gather_rows(const KeptRows& kept, std::span<const std::byte> from, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from.data());
  T* out = reinterpret_cast<T*>(to);
  // Rows of whole bytes of the mask are one long row.
  const bool whole = kept.cols % 8 == 0;
  const std::int64_t rows = whole ? 1 : kept.rows;
  const std::int64_t cols = whole ? kept.rows * kept.cols : kept.cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    out +=
        kernels::gather(in + row * cols, kept.mask + row * ((cols + 7) / 8), cols, out);
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
