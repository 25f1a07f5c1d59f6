// Quantization of activations while a model runs: codes in bytes, a scale for the whole
// tensor or for every row.
//
//   std::vector<std::int8_t> codes(rows * cols);
//   std::vector<float> scales(rows);
//   PITH_OK(pith::dynamic_quantize_rows(x, rows, cols, {}, codes, scales));
//
// Codes are round(x / scale), ties away from zero, in [-127, 127], [-63, 63] or [-7, 7], one per
// byte at 4 bits too: kernels read them at once, nobody stores them. A row of zeros has
// scale 0 and codes 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/quantize/scheme.h"
#include "pith/tensor/shape.h"

namespace pith {

struct DynamicOptions {
  int bits = 8;                         ///< 8, 7 or 4
  ScaleRule rule = ScaleRule::kAbsmax;  ///< kAbsmax, kPercentile or kGiven
  /// For kPercentile: in [0, 1]. Where the percentile is 0 the largest magnitude counts.
  double percentile = 1;
  float given_scale = 0;  ///< for kGiven: finite and above 0; larger values saturate
};

/// One scale for all of x, returned. `codes` is as long as x.
///
/// kInvalidArgument if sizes differ or an option is out of its range, kNotFinite if a
/// value is NaN or infinite: the message names the index. Codes are then undefined. With
/// kAbsmax nothing is allocated.
Result<float> dynamic_quantize(std::span<const float> x, const DynamicOptions& options,
                               std::span<std::int8_t> codes);

/// One scale per row. x and `codes` have rows * cols elements, `scales` has rows; fails
/// as above, also for ragged input.
Status dynamic_quantize_rows(std::span<const float> x, std::int64_t rows,
                             std::int64_t cols, const DynamicOptions& options,
                             std::span<std::int8_t> codes, std::span<float> scales);

/// Codes and scales in memory of their own.
struct DynamicCodes {
  int bits = 8;
  bool per_row = false;
  Shape shape;                     ///< [n], or [rows, cols]
  std::vector<std::int8_t> codes;  ///< one per byte
  std::vector<float> scales;       ///< one, or one per row

  /// Bytes of codes and scales.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// f32 bytes / memory_bytes(), in f32; 1 for no bytes.
  [[nodiscard]] float compression_ratio() const;
};

/// The same with allocation. Without rows, columns or data the result has neither codes
/// nor scales.
Result<DynamicCodes> dynamic_quantize(std::span<const float> x,
                                      const DynamicOptions& options = {});
Result<DynamicCodes> dynamic_quantize_rows(std::span<const float> x, std::int64_t rows,
                                           std::int64_t cols,
                                           const DynamicOptions& options = {});

/// code * scale. Per tensor a missing scale counts as 0; per row no scales give no
/// values. kInvalidArgument if the codes do not fill whole rows or the scales are not one
/// per row.
Result<std::vector<float>> dequantize(const DynamicCodes& tensor);

}  // namespace pith
