// Sums of floats and of their squares without rounding, so that they depend neither on
// the order of the terms nor on how they were cut into batches.
//
//   pith::ExactSum sum;
//   for (float x : values) sum.add(double{x} * x);
//   double total = sum.value();   // the true sum, rounded once
//
// The sum is one fixed-point number of 640 bits in two's complement. Its lowest bit
// stands for 2^-298, the square of the smallest float; its range has room for 2^63
// squares of the largest one.
#pragma once

#include <array>
#include <cstdint>

namespace pith {

class ExactSum {
 public:
  static constexpr int kLimbs = 10;
  static constexpr int kLowestExponent = -298;

  /// Adds a finite multiple of 2^-298 of magnitude below 2^300: any float, any product of
  /// two floats, and what sums of those give.
  void add(double term);
  void add(const ExactSum& other);

  /// The sum, rounded to the nearest double, ties to even.
  [[nodiscard]] double value() const;
  [[nodiscard]] bool negative() const { return (limbs_[kLimbs - 1] >> 63) != 0; }

  /// The number itself, lowest limb first: equal sums have equal limbs, and a file that
  /// keeps them can be merged with others later.
  [[nodiscard]] const std::array<std::uint64_t, kLimbs>& limbs() const { return limbs_; }
  static ExactSum from_limbs(const std::array<std::uint64_t, kLimbs>& limbs);

  friend bool operator==(const ExactSum&, const ExactSum&) = default;

 private:
  std::array<std::uint64_t, kLimbs> limbs_{};
};

/// count * squares - sum^2, which is count^2 times the variance: computed exactly,
/// rounded once. `sum` and `squares` are those of `count` floats.
[[nodiscard]] double scaled_variance(std::int64_t count, const ExactSum& sum,
                                     const ExactSum& squares);

}  // namespace pith
