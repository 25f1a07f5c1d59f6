// Magnitudes of f32 as bits: their order is that of |x|, with NaN above infinity.
#pragma once

#include <cstdint>

namespace pith::kernels {

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000;

}  // namespace pith::kernels
