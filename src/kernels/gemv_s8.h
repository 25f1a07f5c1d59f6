// Matrix times vector with row-major int8 weights, as they lie in a file. Products with
// packed panels are in matmul.h.
#pragma once

#include <cstdint>

namespace pith::kernels {

// y = (W x) * row_scale * x_scale: int8 matrix times int8 vector. Sums are exact integers
// for any number of columns; the sum as f32 times row_scale, then times x_scale, each
// rounded.
struct GemvS8 {
  const std::int8_t* weight;  // [rows][cols], row-major, any code
  const std::int8_t* x;       // [cols], any code
  const float* row_scale;     // [rows]
  float x_scale;
  std::int64_t rows;
  std::int64_t cols;
  float* y;  // [rows], aliases no input
};
void gemv_s8(const GemvS8& args) noexcept;
void reference_gemv_s8(const GemvS8& args) noexcept;

// y = scale * (W x): int8 matrix times f32 vector. Column c goes to the partial sum c mod
// kGemvS8F32Sums, each in f32 in rising order; these are then added pairwise, halves
// first.
inline constexpr std::int64_t kGemvS8F32Sums = 16;
struct GemvS8F32 {
  const std::int8_t* weight;  // [rows][cols]
  const float* x;             // [cols]
  const float* row_scale;     // [rows], or the only one if `one_scale`
  bool one_scale;
  std::int64_t rows;
  std::int64_t cols;
  float* y;  // [rows], aliases no input
};
void gemv_s8_f32(const GemvS8F32& args) noexcept;
void reference_gemv_s8_f32(const GemvS8F32& args) noexcept;

}  // namespace pith::kernels
