// Matrix times vector with int8 weights, one call at a time: the reference's two
// products. Weights are packed anew in every call; a Linear (linear.h) packs them once.
//
//   pith::MatvecScratch scratch;   // reused from call to call
//   PITH_OK(pith::w8a8_matvec(codes, row_scales, rows, cols, x, y, scratch));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/result.h"

namespace pith {

/// The quantized activation of the last call.
struct MatvecScratch {
  std::vector<std::int8_t> codes;
  float scale = 0;
};

/// y[o] = (sum_j weight[o, j] * code_j) * row_scale[o] * scale, where x is quantized to
/// code_j and scale by its largest magnitude. The sum is an exact integer however long
/// the row is; the two products are rounded to f32 one after the other.
///
/// kInvalidArgument, looked at in this order: x is empty, x has not `cols` values, the
/// weights do not number rows * cols, the scales or y do not number rows. kNotFinite if x
/// has NaN or infinity. y aliases no input.
Status w8a8_matvec(std::span<const std::int8_t> weight, std::span<const float> row_scale,
                   std::int64_t rows, std::int64_t cols, std::span<const float> x,
                   std::span<float> y, MatvecScratch& scratch);

/// y[r] = scale[r] * sum_c code[r, c] * x[c], with f32 activations. One scale serves all
/// rows. The order of the sum is fixed: it depends neither on the instruction set nor on
/// the number of threads.
///
/// kInvalidArgument if x has not `cols` values, the codes do not number rows * cols, y
/// does not have rows, or the scales number neither 1 nor rows.
Status int8_matvec(std::span<const std::int8_t> codes, std::span<const float> scales,
                   std::int64_t rows, std::int64_t cols, std::span<const float> x,
                   std::span<float> y);

}  // namespace pith
