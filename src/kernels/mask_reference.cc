#include <bit>
#include <cmath>

#include "src/kernels/mask.h"
#include "src/kernels/select.h"

namespace pith::kernels {

std::int64_t reference_prune_up_to(const float* values, std::int64_t n,
                                   std::uint32_t limit, float* out,
                                   std::uint8_t* mask) noexcept {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool keep = (std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask) > limit;
    if (mask != nullptr) {
      if (i % 8 == 0) mask[i / 8] = 0;
      mask[i / 8] = static_cast<std::uint8_t>(mask[i / 8] | (keep ? 1 : 0) << (i % 8));
    }
    out[i] = keep ? values[i] : 0.0f;
    if (keep) ++kept;
  }
  return kept;
}

std::int64_t reference_apply_mask(float* values, std::int64_t n,
                                  const std::uint8_t* mask) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if ((mask[i / 8] >> (i % 8) & 1) == 0) values[i] = 0.0f;
  }
  return reference_count_nonzero(values, n);
}

std::int64_t reference_count_nonzero(const float* values, std::int64_t n) noexcept {
  std::int64_t nonzero = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (values[i] != 0.0f) ++nonzero;
  }
  return nonzero;
}

std::int64_t reference_count_magnitude(const float* values, std::int64_t n,
                                       std::uint32_t bits) noexcept {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if ((std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask) == bits) ++count;
  }
  return count;
}

std::int64_t reference_limit_magnitude(float* values, std::int64_t n,
                                       float limit) noexcept {
  std::int64_t limited = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(std::fabs(values[i]) > limit)) continue;
    values[i] = std::copysign(limit, values[i]);
    ++limited;
  }
  return limited;
}

}  // namespace pith::kernels
