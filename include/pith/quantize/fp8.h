// Weights in blocks of 32 fp8 codes with one f16 scale, smoothed on the way.
//
//   PITH_TRY(pith::Fp8Blocks w, pith::quantize_fp8_blocks(weight, 11008, 4096, factors,
//                                                         pith::DType::kF8E4M3));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/dtype.h"

namespace pith {

inline constexpr std::int64_t kFp8Block = 32;

struct Fp8Blocks {
  DType dtype = DType::kF8E4M3;  ///< kF8E4M3 or kF8E5M2
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;  ///< f16, one per block; 0 for a block of zeros
};

/// Multiplies each column of [out_features, in_features] by its factor and quantizes
/// blocks of 32: scale = largest magnitude / largest finite code, code = value / scale.
/// Codes saturate, so finite weights decode to finite values. Codes are computed with the
/// scale as it is stored; one below the smallest normal f16 is rounded up, so that no block
/// vanishes.
///
/// kInvalidArgument if the factors do not number in_features (looked at first), the
/// weights do not number out_features * in_features or are no multiple of 32, the type is
/// not an fp8, or a scale is beyond the largest f16; kNotFinite if a product is NaN or infinite.
Result<Fp8Blocks> quantize_fp8_blocks(std::span<const float> weights,
                                      std::int64_t out_features, std::int64_t in_features,
                                      std::span<const float> factors, DType dtype);

/// scale * code. kInvalidArgument if sizes differ.
Status dequantize(const Fp8Blocks& blocks, std::span<float> out);

}  // namespace pith
