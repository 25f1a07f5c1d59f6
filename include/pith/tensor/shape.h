// The extents of a tensor, row-major: the last one is contiguous.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"

namespace pith {

/// Extents whose product is known to fit in an int64. Shape {} is a scalar: one element.
class Shape {
 public:
  Shape() = default;

  /// kInvalidArgument if an extent is negative or the product of them exceeds an int64,
  /// whatever their order: a zero does not hide an overflow.
  static Result<Shape> make(std::span<const std::int64_t> extents);
  static Result<Shape> make(std::initializer_list<std::int64_t> extents) {
    return make(std::span(extents.begin(), extents.size()));
  }

  [[nodiscard]] std::span<const std::int64_t> extents() const { return extents_; }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  [[nodiscard]] std::size_t rank() const { return extents_.size(); }
  [[nodiscard]] std::int64_t elements() const { return elements_; }

  /// The tensor as a matrix: the last extent is the length of a row, all others count
  /// rows. A scalar is 1 x 1, a vector one row; a tensor without elements may have rows
  /// of length 0.
  [[nodiscard]] std::int64_t cols() const {
    return extents_.empty() ? 1 : extents_.back();
  }
  [[nodiscard]] std::int64_t rows() const;

  /// "[2, 3]"; "[]" for a scalar.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> extents_;
  std::int64_t elements_ = 1;
};

}  // namespace pith
