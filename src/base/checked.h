// Arithmetic on sizes that come from outside. The one place where shapes, counts and
// offsets are added and multiplied: an overflow sticks and is seen by valid(), it never
// wraps.
//
//   CheckedSize bytes = CheckedSize(count) * element_size + header;
//   if (!bytes.valid()) return Status::corrupt(...);
#pragma once

#include <cstdint>

#ifdef PITH_PLANT_BUGS
#include <cstdlib>
#endif

namespace pith {

/// A bug on purpose, to show that the fuzzers see it: 1 products of sizes wrap, 2 lengths
/// are not compared with the bytes that are left, 3 names may be there twice. Builds with
/// CMake's PITH_PLANT_BUGS, which no one uses but scripts/fuzz-planted.sh, have all three
/// and take their choice from the environment; others have none.
#ifdef PITH_PLANT_BUGS
inline bool is_planted(int bug) {
  static const char* chosen = std::getenv("PITH_PLANTED_BUG");
  return chosen != nullptr && *chosen == '0' + bug;
}
#else
constexpr bool is_planted(int /*bug*/) { return false; }
#endif

/// a / b, rounded up; a is not negative, b is above 0. Never overflows.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

class CheckedSize {
 public:
  constexpr CheckedSize(std::uint64_t value) : value_(value) {}
  static constexpr CheckedSize invalid() {
    CheckedSize size(0);
    size.valid_ = false;
    return size;
  }
  /// Negative numbers are invalid sizes.
  static constexpr CheckedSize from_signed(std::int64_t value) {
    return value < 0 ? invalid() : CheckedSize(static_cast<std::uint64_t>(value));
  }

  [[nodiscard]] constexpr bool valid() const { return valid_; }
  /// True if the value is known and at most `limit`.
  [[nodiscard]] constexpr bool at_most(std::uint64_t limit) const {
    return valid_ && value_ <= limit;
  }
  /// True if the value fits a non-negative int64, the type of sizes in the interface.
  [[nodiscard]] constexpr bool fits_int64() const { return at_most(INT64_MAX); }
  /// Only if valid().
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize sum(0);
    const bool wraps = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.valid_ = a.valid_ && b.valid_ && !wraps;
    return sum;
  }
  friend constexpr CheckedSize operator-(CheckedSize a, CheckedSize b) {
    CheckedSize rest(0);
    rest.valid_ =
        a.valid_ && b.valid_ && !__builtin_sub_overflow(a.value_, b.value_, &rest.value_);
    return rest;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize product(0);
    const bool wraps = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.valid_ = a.valid_ && b.valid_ && (!wraps || is_planted(1));
    return product;
  }
  /// `count` things of `size` each, both from outside.
  static constexpr CheckedSize array(std::uint64_t count, std::uint64_t size) {
    return CheckedSize(count) * size;
  }
  /// The next multiple of `alignment`, which must not be 0.
  [[nodiscard]] constexpr CheckedSize round_up(std::uint64_t alignment) const {
    const std::uint64_t rest = value_ % alignment;
    return rest == 0 ? *this : *this + CheckedSize(alignment - rest);
  }

 private:
  std::uint64_t value_;
  bool valid_ = true;
};

}  // namespace pith
