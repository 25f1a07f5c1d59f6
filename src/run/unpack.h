// Rows of codes as a kernel's packing takes them: one int8 per column, and the scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pith/quantize/quantize.h"

namespace pith {

/// The parts of a QuantizedTensor where they are, in memory or in a mapped file.
struct CodesView {
  CodesView() = default;
  CodesView(const Scheme& s, const Shape& of, ConstCodeSpans spans)
      : scheme(s), shape(of), parts(spans) {}
  explicit CodesView(const QuantizedTensor& tensor)
      : CodesView(
            tensor.scheme, tensor.shape,
            {tensor.codes.bytes(), tensor.scales.bytes(), tensor.zero_points.bytes()}) {}

  Scheme scheme;
  Shape shape;  ///< a matrix
  ConstCodeSpans parts;

  /// Row `row` if its codes lie there as bytes that need no zero point, else null.
  [[nodiscard]] const std::int8_t* plain_row(std::int64_t row) const;
};

/// Width of codes once zero points are taken out: those of 4 bits then need more.
inline int packed_bits(const Scheme& scheme) {
  return scheme.bits == 4 && scheme.symmetric ? 4 : 8;
}

/// Codes of a row, zero points taken out, and the scales of its groups (one if the row or
/// the tensor is a group). Blocks do not cross rows.
void unpack_row(const CodesView& tensor, std::int64_t row, std::span<std::int8_t> codes,
                std::span<float> scales);
/// The scales alone.
void unpack_scales(const CodesView& tensor, std::int64_t row, std::span<float> scales);

}  // namespace pith
