// Conversion of whole tensors between element types.
//
//   std::vector<std::uint16_t> half(weight.shape().elements());
//   PITH_TRY(pith::ConvertCounts counts,
//            pith::convert(weight, pith::DType::kF16,
//            std::as_writable_bytes(std::span(half))));
//   if (counts.overflowed != 0) warn(counts.first_overflowed);
//
// Rounding is to nearest, ties to even, and happens once whatever the two types: f64 to
// f16 does not pass through f32. Every value equals that of pith/tensor/half.h, for every
// instruction set and number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pith/base/result.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/half.h"
#include "pith/tensor/view.h"

namespace pith {

/// What a conversion met. Indices count elements of the tensor; -1 where there is none.
struct ConvertCounts {
  std::int64_t overflowed =
      0;  ///< finite, but beyond the largest finite value of the target
  std::int64_t first_overflowed = -1;
  std::int64_t infinite = 0;  ///< infinite in the source
  std::int64_t nan = 0;       ///< NaN in the source
  std::int64_t first_not_finite = -1;

  friend bool operator==(const ConvertCounts&, const ConvertCounts&) = default;
};

/// Writes the values of `tensor` to `out` as `to`: f32, f16, bf16, f8e4m3 or f8e5m2. The
/// source is one of these, bool, f64, or an integer of 8 to 64 bits. Values that overflow
/// and those that are not finite are converted as half.h says, and counted; `overflow`
/// matters for 8-bit targets only.
///
/// kInvalidArgument if `out` is not as long as the result; kUnsupported if there is no
/// such conversion. `out` must not overlap the tensor. Thread-safe.
Result<ConvertCounts> convert(const TensorView& tensor, DType to,
                              std::span<std::byte> out,
                              Overflow overflow = Overflow::kSaturate);

}  // namespace pith
