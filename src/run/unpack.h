// Codes and scales of one row of a quantized tensor, one code per byte.
#pragma once

#include <cstdint>
#include <span>

#include "pith/quantize/quantize.h"

namespace pith {

/// Bits that codes less their zero points need: 4-bit codes of an asymmetric scheme need 8.
[[nodiscard]] inline int packed_bits(const Scheme& scheme) {
  return scheme.symmetric ? scheme.bits : 8;
}

/// Row `row` of a matrix whose groups do not cross rows: cols codes less their zero points, and the
/// scale of each group of the row.
void unpack_row(const QuantizedTensor& tensor, std::int64_t row,
                std::span<std::int8_t> codes, std::span<float> scales);

}  // namespace pith
