// Zeroing weights and writing down which ones were kept.
//
// A mask has one bit per value, 1 for kept, bit i of byte b for value 8 * b + i; n values
// have ceil(n / 8) bytes, and unused bits of the last one are written as 0. Magnitudes
// are compared by their bits without the sign (select.h). One thread; no value is read or
// written twice.
#pragma once

#include <cstdint>

namespace pith::kernels {

/// Values, those whose magnitude bits are at most `limit` as +0. Returns how many others
/// there are; they are kept, and none of them is zero. `out` may be `values`, `mask` null.
std::int64_t prune_up_to(const float* values, std::int64_t n, std::uint32_t limit,
                         float* out, std::uint8_t* mask) noexcept;
std::int64_t reference_prune_up_to(const float* values, std::int64_t n,
                                   std::uint32_t limit, float* out,
                                   std::uint8_t* mask) noexcept;

/// Sets values whose bit is 0 to +0. Returns how many non-zero values are left.
std::int64_t apply_mask(float* values, std::int64_t n, const std::uint8_t* mask) noexcept;
std::int64_t reference_apply_mask(float* values, std::int64_t n,
                                  const std::uint8_t* mask) noexcept;

/// How many values are not zero (NaN is not).
std::int64_t count_nonzero(const float* values, std::int64_t n) noexcept;
std::int64_t reference_count_nonzero(const float* values, std::int64_t n) noexcept;

/// How many values have these magnitude bits.
std::int64_t count_magnitude(const float* values, std::int64_t n,
                             std::uint32_t bits) noexcept;
std::int64_t reference_count_magnitude(const float* values, std::int64_t n,
                                       std::uint32_t bits) noexcept;

/// Draws magnitudes above that of `limit`, which is >= 0, back to it. Returns how many.
std::int64_t limit_magnitude(float* values, std::int64_t n, float limit) noexcept;
std::int64_t reference_limit_magnitude(float* values, std::int64_t n,
                                       float limit) noexcept;

}  // namespace pith::kernels
