// Which weights are kept: one bit per weight, as sparse files store it.
//
//   pith::BitMask mask(shape);                 // all kept
//   mask.set(0, 3, false);
//   if (pith::Status s = pith::apply_mask(values, mask); !s.ok()) return s;
//
// The mask of a matrix has a row for each row of it; a row begins at a byte: bit i of
// byte b stands for column 8 * b + i, 1 means kept. Unused bits of a row's last byte are
// 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/shape.h"

namespace pith {

class BitMask {
 public:
  /// No elements.
  BitMask() = default;
  /// The rows and columns of `shape` (Shape::rows, Shape::cols), all kept or none.
  explicit BitMask(const Shape& shape, bool kept = true);

  /// From the bytes of a file. kInvalidArgument if their number is not that of `shape`,
  /// or an unused bit is set.
  static Result<BitMask> from_bytes(const Shape& shape, std::span<const std::byte> bytes);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  [[nodiscard]] std::int64_t elements() const { return rows_ * cols_; }
  [[nodiscard]] std::int64_t row_bytes() const { return row_bytes_; }

  /// As stored: rows() * row_bytes() bytes.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  /// Of rows [first, first + count).
  [[nodiscard]] std::span<std::byte> row_range(std::int64_t first, std::int64_t count);
  [[nodiscard]] std::span<const std::byte> row(std::int64_t row) const;

  [[nodiscard]] bool kept(std::int64_t row, std::int64_t col) const;
  /// By index into the row-major tensor.
  [[nodiscard]] bool kept(std::int64_t index) const {
    return kept(index / cols_, index % cols_);
  }
  void set(std::int64_t row, std::int64_t col, bool kept);

  /// How many are kept.
  [[nodiscard]] std::int64_t count() const;

  friend bool operator==(const BitMask&, const BitMask&) = default;

 private:
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t row_bytes_ = 0;
  std::vector<std::byte> bytes_;
};

/// Sets what is not kept to +0. kInvalidArgument if the sizes differ.
Status apply_mask(std::span<float> values, const BitMask& mask);

}  // namespace pith
