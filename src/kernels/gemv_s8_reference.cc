#include "src/kernels/gemv_s8.h"

namespace pith::kernels {

void reference_gemv_s8(const GemvS8& args) noexcept {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::int8_t* const row = args.weight + r * args.cols;
    std::int64_t sum = 0;
    for (std::int64_t c = 0; c < args.cols; ++c) sum += row[c] * args.x[c];
    args.y[r] = (static_cast<float>(sum) * args.row_scale[r]) * args.x_scale;
  }
}

void reference_gemv_s8_f32(const GemvS8F32& args) noexcept {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::int8_t* const row = args.weight + r * args.cols;
    float sums[kGemvS8F32Sums] = {};
    for (std::int64_t c = 0; c < args.cols; ++c) {
      sums[c % kGemvS8F32Sums] += static_cast<float>(row[c]) * args.x[c];
    }
    for (std::int64_t half = kGemvS8F32Sums / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    args.y[r] = args.row_scale[args.one_scale ? 0 : r] * sums[0];
  }
}

}  // namespace pith::kernels
