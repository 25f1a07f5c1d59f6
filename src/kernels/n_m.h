// Masks of n:m sparsity: n of each m consecutive values are kept.
#pragma once

#include <cstdint>

namespace pith::kernels {

/// Writes the mask of a row (mask.h says how): in each group of m values the n of largest magnitude
/// are kept, of equal ones the later; a last group of m' < m values keeps ceil(n * m' / m).
/// 1 <= n <= m; no NaN of all ones among the values. Returns how many are kept.
std::int64_t mask_n_m(const float* values, std::int64_t count, std::int64_t n,
                      std::int64_t m, std::uint8_t* mask);
std::int64_t reference_mask_n_m(const float* values, std::int64_t count, std::int64_t n,
                                std::int64_t m, std::uint8_t* mask);

}  // namespace pith::kernels
