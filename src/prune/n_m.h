// n of each m consecutive elements of a row are kept.
#pragma once

#include <cstdint>

namespace pith {

/// Writes the mask of a row: in each group of m columns the n largest scores are kept, of
/// equal ones the later; a last group of m' columns keeps ceil(n * m' / m). Scores are
/// compared as magnitudes. Returns the number kept.
std::int64_t mask_n_m(const float* scores, std::int64_t cols, std::int64_t n,
                      std::int64_t m, std::uint8_t* mask);

}  // namespace pith
