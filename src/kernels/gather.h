// What a mask keeps, one after the other.
#pragma once

#include <cstdint>

namespace pith::kernels {

/// Writes the elements of `in` whose bit in `mask` is 1 (element i: bit i % 8 of byte i / 8)
/// to `out` and returns how many. `out` has room for eight more than that.
std::int64_t gather(const std::uint8_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint8_t* out) noexcept;
std::int64_t gather(const std::uint16_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint16_t* out) noexcept;
std::int64_t gather(const std::uint32_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint32_t* out) noexcept;

}  // namespace pith::kernels
