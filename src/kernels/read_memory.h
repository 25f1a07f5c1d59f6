// Reading memory and doing next to nothing with it: the limit of products with a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pith::kernels {

/// Bytes of a piece of read_memory.
inline constexpr std::int64_t kReadPiece = 8 * 260 * 64;

/// The exclusive or of all 64-bit words of `pieces` pieces, aligned to 64. Each piece is
/// read as 8 streams, 260 cache lines apart: one stream alone reads at about 80 % of what
/// a core can, and streams a power of two apart fight for the same places in the caches.
std::uint64_t read_memory(const std::byte* from, std::int64_t pieces) noexcept;
std::uint64_t reference_read_memory(const std::byte* from, std::int64_t pieces) noexcept;

}  // namespace pith::kernels
