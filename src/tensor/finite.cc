#include "src/tensor/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace pith {

std::int64_t first_nonfinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr std::size_t kChunk = 4096;
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const std::span chunk =
        values.subspan(begin, std::min(kChunk, values.size() - begin));
    std::uint32_t count = 0;  // no early exit, so that the compiler can use vectors
    for (float value : chunk) {
      count += (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1 : 0;
    }
    if (count == 0) continue;
    const auto found = std::find_if(chunk.begin(), chunk.end(),
                                    [](float v) { return !std::isfinite(v); });
    return static_cast<std::int64_t>(begin) + (found - chunk.begin());
  }
  return -1;
}

Status require_finite(std::span<const float> values, std::string_view what) {
  const std::int64_t index = first_nonfinite(values);
  if (index < 0) return {};
  return Status::not_finite(fmt::format("{}: value {} is {}, expected a finite number",
                                        what, index,
                                        values[static_cast<std::size_t>(index)]));
}

}  // namespace pith
