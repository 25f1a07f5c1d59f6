#include "pith/prune/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/base/bits.h"
#include "src/base/parallel.h"
#include "src/kernels/mask.h"

namespace pith {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 18;

std::byte last_byte_bits(std::int64_t cols) {
  const std::int64_t used = cols % 8;
  return used == 0 ? std::byte{0xff} : static_cast<std::byte>((1 << used) - 1);
}

}  // namespace

BitMask::BitMask(const Shape& shape, bool kept)
    : rows_(shape.elements() == 0 ? 0 : shape.rows()),
      cols_(shape.elements() == 0 ? 0 : shape.cols()),
      row_bytes_(cols_ / 8 + (cols_ % 8 != 0 ? 1 : 0)),
      bytes_(static_cast<std::size_t>(rows_ * row_bytes_),
             kept ? std::byte{0xff} : std::byte{0}) {
  if (!kept || cols_ % 8 == 0) return;
  for (std::int64_t row = 0; row < rows_; ++row) {
    bytes_[static_cast<std::size_t>((row + 1) * row_bytes_ - 1)] = last_byte_bits(cols_);
  }
}

Result<BitMask> BitMask::from_bytes(const Shape& shape,
                                    std::span<const std::byte> bytes) {
  // A byte at most for each element, so neither product can overflow.
  const std::int64_t cols = shape.elements() == 0 ? 0 : shape.cols();
  const std::int64_t row_bytes = cols / 8 + (cols % 8 != 0 ? 1 : 0);
  const std::int64_t expected = shape.elements() == 0 ? 0 : shape.rows() * row_bytes;
  if (static_cast<std::uint64_t>(expected) != bytes.size()) {
    return Status::invalid_argument(fmt::format(
        "mask of shape {}: {} bytes given, expected {}: {} for each row of {} columns",
        shape.to_string(), bytes.size(), expected, row_bytes, cols));
  }
  BitMask mask(shape, false);
  std::copy(bytes.begin(), bytes.end(), mask.bytes_.begin());
  for (std::int64_t row = 0; row < mask.rows_; ++row) {
    if ((mask.row(row).back() & ~last_byte_bits(cols)) != std::byte{0}) {
      return Status::invalid_argument(
          fmt::format("mask of shape {}: row {} has a bit set behind its last column {}",
                      shape.to_string(), row, cols - 1));
    }
  }
  return mask;
}

std::span<std::byte> BitMask::row_range(std::int64_t first, std::int64_t count) {
  return std::span(bytes_).subspan(static_cast<std::size_t>(first * row_bytes_),
                                   static_cast<std::size_t>(count * row_bytes_));
}

std::span<const std::byte> BitMask::row(std::int64_t row) const {
  return std::span(bytes_).subspan(static_cast<std::size_t>(row * row_bytes_),
                                   static_cast<std::size_t>(row_bytes_));
}

bool BitMask::kept(std::int64_t row, std::int64_t col) const {
  const std::byte byte = bytes_[static_cast<std::size_t>(row * row_bytes_ + col / 8)];
  return (byte >> (col % 8) & std::byte{1}) != std::byte{0};
}

void BitMask::set(std::int64_t row, std::int64_t col, bool kept) {
  std::byte& byte = bytes_[static_cast<std::size_t>(row * row_bytes_ + col / 8)];
  const std::byte bit = std::byte{1} << (col % 8);
  byte = kept ? byte | bit : byte & ~bit;
}

std::int64_t BitMask::count() const { return count_bits(bytes_); }

Status apply_mask(std::span<float> values, const BitMask& mask) {
  if (static_cast<std::uint64_t>(mask.elements()) != values.size()) {
    return Status::invalid_argument(
        fmt::format("apply_mask: {} values given, but the mask has {} rows of {}",
                    values.size(), mask.rows(), mask.cols()));
  }
  const auto* bits = reinterpret_cast<const std::uint8_t*>(mask.bytes().data());
  if (mask.cols() % 8 == 0) {
    parallel_pieces(mask.elements(), kPieceElements,
                    [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                      kernels::apply_mask(values.data() + begin, end - begin,
                                          bits + begin / 8);
                    });
  } else {
    const std::int64_t rows = std::max<std::int64_t>(
        1, kPieceElements / std::max<std::int64_t>(1, mask.cols()));
    parallel_pieces(mask.rows(), rows,
                    [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row) {
                        kernels::apply_mask(values.data() + row * mask.cols(),
                                            mask.cols(), bits + row * mask.row_bytes());
                      }
                    });
  }
  return {};
}

}  // namespace pith
